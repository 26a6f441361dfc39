from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import types

import cloudpickle
import pytest

import millstream.common
import millstream.table
from millstream.base.errors import NotSupportedError
from millstream.compat import PyFlinkModuleNotFoundError, install, is_installed, uninstall


def test_pyflink_is_millstream_itself_so_isinstance_works_across_both(pyflink):
    from pyflink.common import Row, Types
    from pyflink.common.typeinfo import Types as SameTypes
    from pyflink.datastream import StreamExecutionEnvironment

    from millstream.datastream import StreamExecutionEnvironment as Own

    assert Types is SameTypes is millstream.common.Types
    assert StreamExecutionEnvironment is Own
    assert isinstance(Row(1), millstream.common.Row)


def test_modules_of_the_table_api_have_pyflinks_names(pyflink):
    from pyflink.table import StreamTableEnvironment
    from pyflink.table.catalog import Catalog, ObjectPath
    from pyflink.table.table_environment import StreamTableEnvironment as Same

    from millstream.table.catalog import ObjectPath as Own

    assert StreamTableEnvironment is Same and ObjectPath is Own
    assert Catalog is millstream.table.Catalog


def test_module_keeps_its_own_name_spec_and_loader(pyflink):
    before = (millstream.common.__spec__, millstream.common.__loader__, millstream.common.__package__)
    module = importlib.import_module("pyflink.common")
    assert module is millstream.common
    assert (module.__spec__, module.__loader__, module.__package__) == before
    assert module.__name__ == "millstream.common"


def test_submodule_that_was_never_imported_is_found_below_either_name(pyflink):
    sys.modules.pop("millstream.common.constants", None)
    theirs = importlib.import_module("pyflink.common.constants")
    assert theirs is importlib.import_module("millstream.common.constants")


def test_what_such_a_program_pickles_refers_to_millstream(pyflink):
    program = types.ModuleType("__main__")
    code = "from pyflink.common import Row\nimport pyflink.common as pc\n"
    code += "def function(x): return (Row(x), pc.Row)\nclass Own(Row): pass\n"
    exec(compile(code, "job.py", "exec"), program.__dict__)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = program
    try:
        payload = cloudpickle.dumps((program.function, program.Own))
    finally:
        sys.modules["__main__"] = before
    assert b"pyflink" not in payload
    uninstall()
    function, own = pickle.loads(payload)
    assert function(1) == (millstream.common.Row(1), millstream.common.Row)
    assert issubclass(own, millstream.common.Row)
    install()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("pyflink.table.nonsense", "no module millstream.table.nonsense"),
        ("pyflink.java_gateway", "no JVM"),
        ("pyflink.fn_execution.beam.beam_boot", "PyFlink's workers"),
        ("pyflink.datastream.nonsense", "no module millstream.datastream.nonsense"),
        ("pyflink.nonsense.deeper", "millstream.nonsense"),
    ],
)
def test_module_that_millstream_lacks_is_an_import_error_that_says_why(pyflink, module, words):
    with pytest.raises(PyFlinkModuleNotFoundError) as caught:
        importlib.import_module(module)
    assert words in str(caught.value)
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, NotSupportedError)


def test_program_may_do_without_a_module(pyflink):
    try:
        import pyflink.java_gateway  # noqa: F401
    except ImportError as error:
        assert error.name == "pyflink.java_gateway"
    else:
        pytest.fail("pyflink.java_gateway was found")


def test_name_that_the_table_api_lacks_says_so():
    with pytest.raises(NotSupportedError, match="not in millstream yet"):
        from millstream.table import HiveCatalog  # noqa: F401
    assert not hasattr(millstream.table, "HiveCatalog")
    assert not hasattr(millstream.table, "pytest_plugins")


def test_installing_twice_leaves_one_finder_and_uninstalling_none():
    install()
    install()
    assert is_installed()
    uninstall()
    assert not is_installed()
    assert not any(name.startswith("pyflink") for name in sys.modules)


def test_pyflink_that_was_imported_already_is_told_of():
    sys.modules["pyflink"] = types.ModuleType("pyflink")
    try:
        with pytest.raises(NotSupportedError, match="has been imported"):
            install()
    finally:
        del sys.modules["pyflink"]
    assert not is_installed()


PROGRAM = """
import sys
from pyflink.datastream import StreamExecutionEnvironment

def lazily(value):
    from pyflink.common import Row
    return Row(value, *sys.argv[1:])

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(lazily).print()
env.execute()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["millstream.compat"], ["millstream.cli", "run", "--pyflink"]], ids=["module", "option"]
)
def test_command_runs_a_program_of_pyflink_with_its_arguments(command, tmp_path):
    (tmp_path / "job.py").write_text(PROGRAM)
    arguments = ["--target", "local", str(tmp_path / "job.py"), "x", "--y"]
    result = subprocess.run([sys.executable, "-m", *command, *arguments], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "<Row(1, 'x', '--y')>\n"), result.stderr


@pytest.mark.slow
def test_without_the_option_pyflink_is_not_millstream(tmp_path):
    (tmp_path / "job.py").write_text(
        PROGRAM.replace("import sys", "import sys; sys.modules['pyflink'] = None")
    )
    command = [sys.executable, "-m", "millstream.cli", "run", "--target", "local", str(tmp_path / "job.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "No module named 'pyflink" in result.stderr
