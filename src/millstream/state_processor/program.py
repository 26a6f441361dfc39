"""A program as a module, for its classes only."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from millstream.base.errors import ConfigurationError
from millstream.graph.launcher import JobLauncher, JobSubmission, set_launcher_override

__all__ = ["load_program"]


class _Submitted(BaseException):
    """Ends the program at its first submission; not an Exception, so that programs let it pass."""


class _Ending(JobLauncher):
    def launch(self, submission: JobSubmission) -> NoReturn:
        raise _Submitted


def load_program(path: str) -> ModuleType:
    """Return a program as a module, of what it had defined when it submitted its first job; no job is run.

    It runs under its own name, not as `__main__`, so programs that check that submit none. Its directory is searched
    for modules from now on.

    Raises:
        ConfigurationError: If it raises something.
    """
    file = Path(path).resolve()
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.modules.setdefault(file.stem, module)
    before = set_launcher_override(_Ending())
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    except _Submitted:
        return module
    except SystemExit:
        return module
    except Exception as error:
        raise ConfigurationError(
            f'program "{path}" cannot be read for its classes: {type(error).__name__}: {error}'
        ) from error
    finally:
        set_launcher_override(before)
    return module
