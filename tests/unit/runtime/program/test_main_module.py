from __future__ import annotations

import io
import pickle
import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import pytest

from millstream.base.errors import JobDefinitionError
from millstream.base.pickling import dump_lasting
from millstream.runtime.program.main_module import MainModule, dump_program, load_program


@dataclass
class Reading:
    value: int


@pytest.fixture
def main(monkeypatch):
    """Stands for the program's main module."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(sys, "argv", ["job.py"])
    return module


def load(payload):
    return load_program(pickle.Unpickler(io.BytesIO(payload)))


def define(module, text):
    exec(text, module.__dict__)


def test_submodules_that_nested_code_names_are_imported(main):
    define(main, "import xml.dom.minidom\ndef f():\n def g(): return xml.dom.minidom\n return g\n")
    function, found = load(dump_program(main.f))
    assert "xml.dom.minidom" in found.submodules
    assert function()().__name__ == "xml.dom.minidom"


def test_imports_of_packages_that_are_not_used_are_not_repeated(main, tmp_path):
    import xml.sax.handler  # noqa: F401 - as the program's import has done

    path = tmp_path / "job.py"
    path.write_text("import xml.sax.handler\nimport json.tool\ndef f(): return xml\n")
    main.__file__ = str(path)
    define(main, path.read_text())
    assert load(dump_program(main.f))[1].submodules == ("xml.sax.handler",)


def test_a_module_that_runs_a_job_while_it_is_imported_is_told(main, tmp_path, monkeypatch):
    text = "from millstream.runtime.program.main_module import dump_program\ndef f(): pass\n"
    (tmp_path / "runs_while_imported.py").write_text(f"{text}dump_program(lambda: None)\ndump_program(f)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        JobDefinitionError, match='"runs_while_imported" runs a job while it is imported.*"f"'
    ):
        import_module("runs_while_imported")


def test_module_that_is_not_here_is_told_and_no_error(caplog):
    MainModule(None, [], {}, ("xml.no_such_module",), (), 1000).import_submodules()
    assert "xml.no_such_module" in caplog.text


def test_slot_has_the_main_modules_classes_functions_and_modules(main, monkeypatch):
    define(main, "import json as j\nclass A: pass\ndef g(): return j, A\ndef f(): return g()\n")
    own = main.A
    _, found = load(dump_program(main.f))
    slot = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", slot)
    found.install()
    installed = sys.modules["__main__"]
    assert {"j", "A", "g", "f"} <= vars(installed).keys()
    assert installed.A is own  # of this very process
    assert sys.argv == ["job.py"]


def test_lasting_values_have_their_class_with_them_if_they_come_from_a_slot(main, monkeypatch):
    define(main, "class A:\n  text = 'of the class'\n")
    assert b"of the class" not in dump_lasting(main.A())
    _, found = load(dump_program(main.A))
    found.install()
    assert b"of the class" in dump_lasting(sys.modules["__main__"].A())
    assert dump_lasting(Reading(1)) == pickle.dumps(Reading(1), protocol=5)
