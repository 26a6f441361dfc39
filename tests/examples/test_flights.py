"""The main job against DuckDB: same totals at any parallelism, epoch size and executor."""

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "flights.py"
JANUARY = 27_000  # flights in the smaller input

# When a flight is late, said in SQL: its hour had ended for everybody who had left before it.
#
#   flights left before   ..............max
#   watermark             max - 2 h - 1 ms
#   late                  end of hour - 1 ms <= watermark
ORACLE = """
create table flights as
with numbered as (
  select row_number() over () as n, * from read_csv(?, header = true, columns = {
    'scheduled': 'timestamp', 'delay': 'int', 'carrier': 'varchar', 'flight': 'int', 'origin': 'varchar',
    'dest': 'varchar'})
), timed as (
  select *, date_trunc('hour', scheduled) as hour, max(epoch_ms(scheduled)) filter (delay is not null)
    over (order by n rows between unbounded preceding and 1 preceding) - 2 * 3600000 - 1 as watermark
  from numbered
)
select *, delay is null as cancelled,
  delay is not null and coalesce(epoch_ms(hour) + 3600000 - 1 <= watermark, false) as late
from timed
"""
HOURS = """
select carrier, hour, count(*), sum(delay), max(delay), count(*) filter (delay > 15)
from flights where not late and not cancelled group by all
"""
ROW = "scheduled, delay, carrier, flight, origin, dest"


class Oracle:
    def __init__(self, path):
        self.db = duckdb.connect(config={"threads": 1})  # so that row numbers are line numbers
        self.db.execute(ORACLE, [str(path)])

    def rows(self, query):
        return sorted(self.db.execute(query).fetchall())

    def check(self, run):
        hours = f"'{run}/hours/*/*.parquet'"
        found = self.rows(
            "select carrier, hour, flights, total_delay, max_delay, delayed "
            f"from read_parquet({hours}, hive_partitioning = false)"
        )
        assert found == self.rows(HOURS)
        partitioned = f"read_parquet({hours}, hive_partitioning = true)"
        assert self.rows(f"select count(*) from {partitioned} where day::date != hour::date") == [(0,)]
        late = self.rows(f"select {ROW} from read_parquet('{run}/late/*.parquet')")
        assert late == self.rows(f"select {ROW} from flights where late")
        lines = sorted(line for path in visible(run / "cancelled") for line in path.read_text().splitlines())
        cancelled = (
            "select concat_ws(',', scheduled, '', carrier, flight, origin, dest) from flights where cancelled"
        )
        assert lines == [line for (line,) in self.rows(cancelled)]
        assert late
        assert lines


def visible(directory):
    return [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]


def command(output, *arguments, options=()):
    return [
        sys.executable,
        "-m",
        "millstream.cli",
        "run",
        *options,
        str(PROGRAM),
        "--output",
        str(output),
        *arguments,
    ]


def run(output, *arguments, options=()):
    ended = subprocess.run(
        command(output, *arguments, options=options), capture_output=True, text=True, timeout=280
    )
    assert ended.returncode == 0, ended.stderr
    return output / "run-1", ended.stdout


def example_module(monkeypatch, name):
    monkeypatch.syspath_prepend(str(PROGRAM.parent))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name)


@pytest.fixture(scope="session")
def year(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        data = example_module(patch, "flights_data")
        return data.prepare(tmp_path_factory.mktemp("flights"))


@pytest.fixture(scope="session")
def january(year, tmp_path_factory):
    path = tmp_path_factory.mktemp("january") / "january.csv"
    with year.open() as lines:
        path.write_text("".join(line for _, line in zip(range(JANUARY + 1), lines, strict=False)))
    return path


@pytest.fixture(scope="session")
def january_oracle(january):
    return Oracle(january)


def test_input_holds_all_flights_in_order_of_actual_departure(year):
    db = duckdb.connect(config={"threads": 1})
    rows = db.execute(
        "with f as (select row_number() over () as n, "
        "scheduled + to_minutes(coalesce(delay, 0)) as left_at, * from read_csv(?, header = true)) "
        "select count(*), count(*) filter (delay is null), count(*) filter (left_at < before) from "
        "(select *, lag(left_at) over (order by n) as before from f)",
        [str(year)],
    ).fetchall()
    assert rows == [(336_776, 8_255, 0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parallelism", "epoch_records"), [(1, None), (1, 333), (2, 5_000), (4, None), (4, 999)]
)
def test_totals_equal_duckdbs_on_the_local_executor(
    january, january_oracle, tmp_path, parallelism, epoch_records
):
    options = ["--target", "local", "-p", str(parallelism)]
    if epoch_records is not None:
        options += ["-D", f"millstream.epoch.fixed-records={epoch_records}"]
    results, printed = run(tmp_path, "--input", str(january), options=options)
    january_oracle.check(results)
    assert "27,000: every flight was counted once" in printed


@pytest.mark.slow
def test_whole_year_equals_duckdbs_totals_on_the_local_executor(year, tmp_path):
    results, printed = run(
        tmp_path, "--input", str(year), "--parallelism", "2", options=["--target", "local"]
    )
    Oracle(year).check(results)
    assert "on time 323,161 + late 5,360 + cancelled 8,255 = 336,776" in printed


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("parallelism", "epoch_records"), [(1, None), (4, 5_000)])
def test_totals_equal_duckdbs_on_spark(january, january_oracle, tmp_path, parallelism, epoch_records):
    options = ["--target", "local[2]", "-p", str(parallelism)]
    if epoch_records is not None:
        options += ["-D", f"millstream.epoch.fixed-records={epoch_records}"]
    results, _ = run(tmp_path, "--input", str(january), options=options)
    january_oracle.check(results)


@pytest.mark.spark
@pytest.mark.slow
def test_whole_year_equals_duckdbs_totals_on_spark(year, tmp_path):
    results, printed = run(tmp_path, "--input", str(year), options=["--target", "local[2]", "-p", "2"])
    Oracle(year).check(results)
    assert "= 336,776: every flight was counted once" in printed


@pytest.mark.slow
def test_directory_that_is_followed_gives_the_same_totals(january, january_oracle, tmp_path):
    header, *lines = january.read_text().splitlines(keepends=True)
    inbox = tmp_path / "inbox"
    inbox.mkdir()

    def drop(number):
        hidden = inbox / f".{number}"
        hidden.write_text(header + "".join(lines[number * 9_000 : (number + 1) * 9_000]))
        hidden.rename(inbox / f"{number}.csv")

    drop(0)
    started = subprocess.Popen(
        command(
            tmp_path,
            "--follow",
            str(inbox),
            "--stop-when-idle",
            "2",
            options=["--target", "local", "--progress", "-D", "millstream.epoch.min-records=20000"],
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started:
        begun = started.stderr.readline()
        assert re.match(r"records \d", begun), begun  # it runs; 0 if the first epoch was over early
        drop(1)
        drop(2)
        printed, said = started.communicate(timeout=60)
    assert started.returncode == 0, (printed, said)
    january_oracle.check(tmp_path / "run-1")
    assert "27,000: every flight was counted once" in printed


@pytest.mark.slow
def test_plan_is_shown_without_leaving_anything_behind(january, tmp_path):
    arguments = command(tmp_path / "out", "--input", str(january), options=["-p", "2"])
    arguments[3] = "info"
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "carrier hours" in ended.stdout
    assert visible(tmp_path) == []
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_second_run_leaves_the_first_ones_results_alone(january, tmp_path):
    small = tmp_path / "small.csv"
    small.write_text("".join(january.read_text().splitlines(keepends=True)[:500]))
    output = tmp_path / "out"
    run(output, "--input", str(small), options=["--target", "local"])
    before = {path: path.stat().st_mtime_ns for path in visible(output)}
    run(output, "--input", str(small), options=["--target", "local"])
    assert {path: path.stat().st_mtime_ns for path in visible(output / "run-1")} == before
    assert visible(output / "run-2" / "hours")


def test_slices_that_lie_in_the_directory_already_stay(monkeypatch, tmp_path):
    data = example_module(monkeypatch, "flights_data")
    source = tmp_path / "all.csv"
    source.write_text("h\n" + "".join(f"{n}\n" for n in range(100)))
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "all-02.csv").write_text("h\nmine\n")
    data.drip(source, inbox, 0)
    assert (inbox / "all-02.csv").read_text() == "h\nmine\n"
    assert (inbox / "all-01.csv").read_text() == "h\n0\n1\n2\n3\n4\n"
    assert data.count_flights(inbox) == 96


def test_input_that_is_there_is_not_written_again(monkeypatch, tmp_path):
    data = example_module(monkeypatch, "flights_data")
    (tmp_path / data.FILE_NAME).write_text("there\n")
    assert data.prepare(tmp_path).read_text() == "there\n"


def test_lost_flight_is_reported_and_fails_the_run(monkeypatch, tmp_path, capsys):
    report = example_module(monkeypatch, "flights_report")
    flights_run = example_module(monkeypatch, "flights_run")
    results = report.Results.make(tmp_path)
    summary = report.Summary(expected=10, on_time=8, late=1)
    assert report.show(results, summary, 1000, run=flights_run.Run(), whole_year=False) == 1
    assert "on time 8 + late 1 + cancelled 0 = 9, but 10 flights" in capsys.readouterr().out
