"""`pyflink.x` as another name of `millstream.x`, for programs written against PyFlink.

A finder on `sys.meta_path` answers imports of `pyflink` and everything below with millstream's own module
objects. There is one class, one module and one `isinstance` under two names; what such a program pickles refers
to `millstream`, so it loads anywhere. Only code that itself says `import pyflink` - a function that imports when
it is called, a module of the user - needs the finder where it runs: slots install it if the driver did.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from millstream.base.errors import NotSupportedError

__all__ = ["PyFlinkFinder", "PyFlinkModuleNotFoundError", "install", "is_installed", "uninstall"]

THEIRS = "pyflink"
OURS = "millstream"

# Beginnings of module names -> why they are not here and what to do instead.
_ABSENT = {
    "pyflink.java_gateway": (
        "there is no JVM of Flink to talk to",
        "Use the classes of millstream.datastream.",
    ),
    "pyflink.fn_execution": (
        "it is the inside of PyFlink's workers",
        "Use the public API of pyflink.datastream.",
    ),
    "pyflink.pyflink_gateway_server": ("there is no JVM of Flink to talk to", None),
    "pyflink.util.java_utils": ("there is no JVM of Flink to talk to", None),
    "pyflink.gen_protos": ("it is the inside of PyFlink's build", None),
    "pyflink.testing": ("it is the inside of PyFlink's tests", None),
    "pyflink.shell": ("there is no shell", "Use Python's own, or a notebook."),
}


class PyFlinkModuleNotFoundError(NotSupportedError, ModuleNotFoundError):
    """A module of PyFlink that millstream does not have; an ImportError, so that programs may do without it."""

    code = "PYFLINK_MODULE"


class PyFlinkFinder(MetaPathFinder, Loader):
    """Finds modules of PyFlink in millstream, and loads them by giving millstream's own.

    Raises:
        PyFlinkModuleNotFoundError: If millstream has no such module; says why.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for modules of PyFlink, None for all others."""
        if fullname != THEIRS and not fullname.startswith(THEIRS + "."):
            return None
        try:
            own = find_spec(own_name(fullname))
        except ModuleNotFoundError:  # of the package it would be in
            own = None
        if own is None:
            raise _absent(fullname)
        return ModuleSpec(fullname, self, is_package=own.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return millstream's module."""
        module = import_module(own_name(spec.name))
        # The import system writes the spec that it was asked for into the module; exec_module writes it back.
        spec.loader_state = (module.__spec__, module.__loader__, module.__package__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it was executed under its own name."""
        spec = module.__spec__
        if spec is not None and spec.loader_state is not None:
            module.__spec__, module.__loader__, module.__package__ = spec.loader_state


def own_name(fullname: str) -> str:
    """Return the name of millstream's module.

    >>> own_name("pyflink.common.typeinfo")
    'millstream.common.typeinfo'
    """
    return OURS + fullname[len(THEIRS) :]


def install() -> None:
    """Have `import pyflink` give millstream in this process; once more does nothing.

    Comes before everything else, so that an installed PyFlink is not found.

    Raises:
        NotSupportedError: If PyFlink itself has been imported already.
    """
    loaded = sys.modules.get(THEIRS)
    if loaded is not None and loaded is not sys.modules.get(OURS):
        raise NotSupportedError(
            "PyFlink itself has been imported in this process",
            hint="Install millstream's names before the first import of pyflink.",
        )
    if not is_installed():
        sys.meta_path.insert(0, PyFlinkFinder())


def uninstall() -> None:
    """Take the names away again, for tests; modules that were imported stay where they are referenced."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, PyFlinkFinder)]
    for name in [name for name in sys.modules if name == THEIRS or name.startswith(THEIRS + ".")]:
        del sys.modules[name]


def is_installed() -> bool:
    """Return whether `import pyflink` gives millstream in this process."""
    return any(isinstance(finder, PyFlinkFinder) for finder in sys.meta_path)


def _absent(fullname: str) -> PyFlinkModuleNotFoundError:
    for beginning, (reason, advice) in _ABSENT.items():
        if fullname == beginning or fullname.startswith(beginning + "."):
            return _not_found(fullname, reason, advice)
    return _not_found(fullname, f"there is no module {own_name(fullname)}", None)


def _not_found(fullname: str, reason: str, advice: str | None) -> PyFlinkModuleNotFoundError:
    error = PyFlinkModuleNotFoundError(
        f'module "{fullname}" is not in millstream', detail=f"{reason[0].upper()}{reason[1:]}.", hint=advice
    )
    error.name = fullname
    return error
