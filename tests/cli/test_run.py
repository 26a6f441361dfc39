"""Programs that fail, from the outside: what is said, the exit code, and what readers see."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

LOCAL = ("--target", "local")
ON_SPARK = ("--target", "local[2]")
BOTH = pytest.mark.parametrize(
    "target", [pytest.param(LOCAL, id="local"), pytest.param(ON_SPARK, marks=pytest.mark.spark, id="spark")]
)

pytestmark = pytest.mark.slow

HEAD = """
from millstream.common import Types, WatermarkStrategy
from millstream.spi.serialization import Encoder
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, FileSource
from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
from millstream.datastream.connectors.number_seq import NumberSequenceSource
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
def to_files(stream):
    stream.sink_to(FileSink.for_row_format("OUTPUT", Encoder.simple_string_encoder()).build())
"""


@pytest.fixture
def run(tmp_path):
    def start(text, *options, program_arguments=(), popen=False):
        program = tmp_path / "job.py"
        program.write_text(HEAD.replace("OUTPUT", str(tmp_path / "out")) + textwrap.dedent(text))
        command = [sys.executable, "-m", "millstream.cli", "run", *options, str(program), *program_arguments]
        if popen:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
            )
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    return start


def visible(tmp_path):
    return [
        path.name
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
    ]


@BOTH
def test_program_runs_with_its_arguments_and_its_output_is_printed(run, target):
    ended = run(
        """
        import sys
        factor = int(sys.argv[1])
        env.set_parallelism(1)
        env.from_collection([1, 2, 3]).map(lambda n: n * factor).print()
        env.execute()
        """,
        *target,
        program_arguments=["10"],
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["10", "20", "30"]), ended.stderr


@BOTH
def test_users_traceback_comes_first_when_a_function_raises(run, target, tmp_path):
    ended = run(
        """
        def halve(number):
            if number == 700:
                raise ValueError("seven hundred")
            return str(number)
        to_files(env.from_source(NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks(), "numbers")
            .map(halve).name("halve it"))
        env.execute("job")
        """,
        *target,
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    said = ended.stderr
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.index('raise ValueError("seven hundred")') < said.index("ValueError: seven hundred")
    assert said.index("ValueError: seven hundred") < said.index('"halve it"')
    assert "700" in said[said.index('"halve it"') :]
    assert "py4j" not in said
    assert "org.apache" not in said
    assert re.search(r"File \"[^\"]*millstream/", said) is None
    assert visible(tmp_path) == []


@BOTH
def test_function_that_cannot_be_pickled_is_named(run, target, tmp_path):
    ended = run(
        """
        import threading
        lock = threading.Lock()
        class Locked:
            def __init__(self):
                self.lock = lock
            def __call__(self, number):
                return str(number)
        to_files(env.from_collection([1, 2, 3]).map(Locked()).name("locked"))
        env.execute("job")
        """,
        *target,
    )
    assert ended.returncode == 1
    assert "[NOT_SERIALIZABLE]" in ended.stderr
    assert '"locked"' in ended.stderr
    assert "Traceback" not in ended.stderr
    assert visible(tmp_path) == []


CSV_JOB = """
schema = CsvSchema.builder().add_string_column("name").add_number_column("age").build()
source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "people.csv").build()
to_files(env.from_source(source, WatermarkStrategy.no_watermarks(), "people").map(lambda row: row.name))
env.execute("job")
"""


@pytest.mark.parametrize(
    ("line", "said", "target"),
    [
        ("Bob,x", "line 5001, column 2 ('age')", LOCAL),
        ("Bob", "line 5001: row has 1 values, the schema has 2 columns", LOCAL),
        ('"Bob,1', "line 5001", LOCAL),
        pytest.param("Bob,x", "line 5001, column 2 ('age')", ON_SPARK, marks=pytest.mark.spark),
    ],
)
def test_malformed_csv_line_is_named_and_nothing_is_published(run, tmp_path, line, said, target):
    (tmp_path / "people.csv").write_text("Ann,1\n" * 5000 + line + "\n" + "Eve,3\n" * 5000)
    ended = run(CSV_JOB, *target, "-D", "millstream.epoch.fixed-records=1000")
    assert ended.returncode == 1
    assert "[MALFORMED_RECORD]" in ended.stderr
    assert "people.csv" in ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert visible(tmp_path) == []


def test_missing_file_is_named(run, tmp_path):
    ended = run(CSV_JOB, *LOCAL)
    assert ended.returncode == 1
    assert "[SOURCE]" in ended.stderr
    assert "people.csv" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert visible(tmp_path) == []


def test_value_that_does_not_fit_the_declared_type_is_named(run, tmp_path):
    ended = run(
        """
        to_files(env.from_collection([1, 2, 3]).map(lambda n: n if n < 3 else "three", Types.INT()).name("mixed")
            .map(str, Types.STRING()))
        env.execute("job")
        """,
        *LOCAL,
    )
    assert ended.returncode == 1
    assert "[TYPE_MISMATCH]" in ended.stderr
    assert "'three'" in ended.stderr
    assert '"mixed"' in ended.stderr
    assert visible(tmp_path) == []


def test_program_without_execute_says_so(run):
    ended = run("env.from_collection([1]).print()", *LOCAL)
    assert ended.returncode == 1
    assert "ended without running a job" in ended.stderr


def test_job_definition_error_names_the_line_of_the_program(run):
    ended = run("env.set_parallelism(0)\n", *LOCAL)
    assert ended.returncode == 1
    assert "set_parallelism(0)" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_local_target_does_not_import_spark(run):
    ended = run(
        """
        import sys
        env.from_collection([1]).print()
        env.execute()
        print("pyspark" in sys.modules)
        """,
        *LOCAL,
    )
    assert ended.stdout.splitlines()[-1] == "False", ended.stderr


ENDLESS = """
source = NumberSequenceSource(0, 10**15)
to_files(env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(str))
env.execute("endless")
"""


@pytest.mark.parametrize(
    ("number", "code", "target"),
    [
        (signal.SIGINT, 130, LOCAL),
        (signal.SIGTERM, 143, LOCAL),
        pytest.param(
            signal.SIGINT,
            130,
            ON_SPARK,
            marks=pytest.mark.spark,
        ),
    ],
)
def test_signal_cancels_the_job(run, tmp_path, target, number, code):
    started = run(ENDLESS, *target, "--progress", "-D", "millstream.epoch.fixed-records=1000", popen=True)
    with started:
        assert started.stderr.readline().startswith("records ")
        os.kill(started.pid, number)
        _, said = started.communicate(timeout=60)
    assert started.returncode == code
    assert said.splitlines()[-1] == "cancelled"
    assert "Traceback" not in said
    assert visible(tmp_path) == []
