"""The program's main module in the slots: what the job's functions find in it, and what it had imported.

Functions of the main module travel by value, with the globals that they use. Beside those, code may expect that::

    import urllib.request            module "urllib" has "request", though only a nested function names it
    get_type_hints(Reading)          sys.modules["__main__"] has the names in Reading's annotations
    pickle.dumps(Reading(1))         sys.modules["__main__"] has the class itself
    sys.argv                         the program's arguments are there, and its recursion limit

So the deployment carries the names of submodules, and slots get a module `__main__` with the classes, functions and
modules that the job uses, in place of their own.
"""

from __future__ import annotations

import ast
import io
import logging
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any

from millstream.base.errors import JobDefinitionError
from millstream.base.pickling import IS_OF_SLOT
from millstream.runtime.program.main_classes import MAIN, MainRecorder, register_main_classes

__all__ = ["MainModule", "dump_program", "load_program"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MainModule:
    """What a job uses of the main module, beside values in its functions.

    Attributes:
        file: Its file; None in notebooks and at the prompt.
        objects: Its classes and functions.
        modules: Names of modules, by the name under which it has them.
        submodules: Modules that are to be imported because they are used as attributes of their packages.
        arguments: `sys.argv`.
        recursion_limit: How deep its calls may be nested.
    """

    file: str | None
    objects: Sequence[Any]
    modules: dict[str, str]
    submodules: tuple[str, ...]
    arguments: tuple[str, ...]
    recursion_limit: int

    def import_submodules(self) -> None:
        """Import what code uses as attributes of packages; what cannot be imported is told by who uses it."""
        for name in self.submodules:
            try:
                import_module(name)
            except ImportError as error:
                _LOG.warning("module %s, which the program imported, is not here: %s", name, error)

    def install(self) -> None:
        """Make it the main module of this process, which must be a slot's."""
        main = ModuleType(MAIN)
        main.__dict__.update({each.__qualname__: each for each in self.objects})
        main.__dict__.update(
            {alias: sys.modules[name] for alias, name in self.modules.items() if name in sys.modules}
        )
        if self.file is not None:
            main.__file__ = self.file
        main.__dict__[IS_OF_SLOT] = True
        sys.modules[MAIN] = main
        sys.argv = list(self.arguments)
        sys.setrecursionlimit(max(self.recursion_limit, sys.getrecursionlimit()))


def dump_program(content: Any) -> bytes:
    """Pickle what refers to a program's functions, and what else of its main module they need."""
    buffer = io.BytesIO()
    pickler = _ProgramRecorder(buffer, protocol=5)
    pickler.dump((content, pickler.classes))
    pickler.dump(pickler.main_module())
    return buffer.getvalue()


def load_program(unpickler: Any) -> tuple[Any, MainModule]:
    """Unpickle what `dump_program` gave; classes of its main module are known from then on."""
    content, classes = unpickler.load()
    register_main_classes(classes)
    main: MainModule = unpickler.load()
    main.import_submodules()
    return content, main


class _ProgramRecorder(MainRecorder):
    """Notes the functions and modules that it pickles."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self._functions: list[FunctionType] = []
        self._modules: set[str] = set()
        self._submodules: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ModuleType):
            self._modules.add(obj.__name__)
        elif isinstance(obj, (FunctionType, type)):
            _check_imported(obj)
        reduced = super().reducer_override(obj)
        if isinstance(obj, FunctionType) and reduced is not NotImplemented:
            self._functions.append(obj)
            self._submodules.update(_used_submodules(obj))
        return reduced

    def main_module(self) -> MainModule:
        """Return what was met."""
        names = vars(sys.modules[MAIN])
        objects = [*self.classes, *self._functions]
        modules = {
            alias: found.__name__
            for alias, found in list(names.items())
            if isinstance(found, ModuleType) and found.__name__ in self._modules
        }
        packages = {name.partition(".")[0] for name in self._modules}
        imported = {name for name in _imports_of_main() if name.partition(".")[0] in packages}
        return MainModule(
            getattr(sys.modules[MAIN], "__file__", None),
            [each for each in objects if _is_of_main(each, names.get(each.__qualname__))],
            modules,
            tuple(sorted((self._submodules | imported) & sys.modules.keys())),
            tuple(sys.argv),
            sys.getrecursionlimit(),
        )


def _check_imported(obj: Any) -> None:
    """Refuse what a slot would have to import and cannot: its module, whose import has not ended, runs the job.

    Raises:
        JobDefinitionError: If so; in this process the slot would wait for the import, and the import for the job.
    """
    name: str = obj.__qualname__
    module = sys.modules.get(obj.__module__ or "")
    spec = getattr(module, "__spec__", None)
    if getattr(spec, "_initializing", False) and getattr(module, name, None) is obj:
        raise JobDefinitionError(
            f'module "{obj.__module__}" runs a job while it is imported, and the job uses its "{name}"',
            detail="Slots import the modules of a job's functions, so this one would run the job again.",
            hint='Put what runs the job below `if __name__ == "__main__":` or into a function, or start the file '
            "itself: python job.py, millstream run job.py.",
        )


def _is_of_main(met: Any, found: Any) -> bool:
    """Return whether what was met is what the main module has; functions were copied when they were declared."""
    if isinstance(met, FunctionType) and isinstance(found, FunctionType):
        return met.__code__ == found.__code__
    return met is found


def _used_submodules(function: FunctionType) -> Iterator[str]:
    """Return the submodules, of packages that a function has, whose names its code has; nested code too."""
    names = set(_names(function.__code__))
    cells = function.__closure__ or ()
    values = (function.__globals__.get(name) for name in names)
    packages = {
        value.__name__
        for value in chain(values, _contents(cells))
        if isinstance(value, ModuleType) and hasattr(value, "__path__")
    }
    for package in packages:
        for module in list(sys.modules):
            if module.startswith(f"{package}.") and names.issuperset(module[len(package) + 1 :].split(".")):
                yield module


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _contents(cells: Sequence[Any]) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # empty: the function refers to something that is not there yet
            continue


def _imports_of_main() -> Iterator[str]:
    """Return the dotted names that the main module's own text imports; none if it has no text."""
    path = getattr(sys.modules[MAIN], "__file__", None)
    if path is None:
        return
    try:
        with tokenize.open(path) as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):  # gone, or no Python: a zip file, a compiled module
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
