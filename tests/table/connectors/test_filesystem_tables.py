"""Tables of files, read and written, against what pyarrow and Python's csv and json find in the files."""

from __future__ import annotations

import csv
import datetime
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError, NotSupportedError, SourceError
from millstream.config.configuration import Configuration
from millstream.table.environment import TableEnvironment
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.errors import ValidationError

VALUES = """
  (1, 'one', 1.5, TIMESTAMP '2024-01-31 10:00:00.123', DATE '2024-01-31', TRUE),
  (2, CAST(NULL AS STRING), 2.5, TIMESTAMP '2024-02-01 00:00:00.000', DATE '2024-02-01', FALSE)
"""
COLUMNS = "id INT, name STRING, price DECIMAL(10, 2), ts TIMESTAMP(3), d DATE, b BOOLEAN"
EXPECTED = [
    (
        1,
        "one",
        Decimal("1.50"),
        datetime.datetime(2024, 1, 31, 10, 0, 0, 123000),
        datetime.date(2024, 1, 31),
        True,
    ),
    (2, None, Decimal("2.50"), datetime.datetime(2024, 2, 1), datetime.date(2024, 2, 1), False),
]


def files(path):
    return sorted(each for each in Path(path).rglob("*") if each.is_file() and not each.name.startswith("."))


def table(tables, name, path, format, columns=COLUMNS, extra="", partitioned=""):
    tables.execute_sql(
        f"CREATE TABLE {name} ({columns}) {partitioned} WITH ('connector' = 'filesystem', 'path' = '{path}', "
        f"'format' = '{format}'{extra})"
    )


@pytest.mark.parametrize("format", ["json", "parquet", "orc", "avro"])
def test_what_is_written_is_read_again(tables, rows, tmp_path, format):
    table(tables, "t", tmp_path / "out", format)
    tables.execute_sql(f"INSERT INTO t VALUES {VALUES}").wait()
    assert sorted(rows("SELECT * FROM t")) == EXPECTED
    assert sorted(rows("SELECT price, id FROM t")) == [(Decimal("1.50"), 1), (Decimal("2.50"), 2)]


def test_json_lines_are_as_flink_writes_them(tables, tmp_path):
    table(tables, "t", tmp_path / "out", "json")
    tables.execute_sql(f"INSERT INTO t VALUES {VALUES}").wait()
    lines = [json.loads(line) for file in files(tmp_path / "out") for line in file.read_text().splitlines()]
    assert sorted(lines, key=lambda each: each["id"])[0] == {
        "id": 1,
        "name": "one",
        "price": 1.5,
        "ts": "2024-01-31 10:00:00.123",
        "d": "2024-01-31",
        "b": True,
    }


def test_parquet_has_the_columns_and_types(tables, tmp_path):
    table(tables, "t", tmp_path / "out", "parquet")
    tables.execute_sql(f"INSERT INTO t VALUES {VALUES}").wait()
    found = pq.read_table(files(tmp_path / "out")[0])
    assert found.schema.names == ["id", "name", "price", "ts", "d", "b"]
    assert str(found.schema.field("price").type) == "decimal128(10, 2)"
    assert sorted(found.column("id").to_pylist()) == [1, 2]


def test_csv_is_read_with_its_options_and_written_back(tables, rows, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("# comment\n1;'a;b';2.5\n2;null;\n")
    options = ", 'csv.field-delimiter' = ';', 'csv.quote-character' = '''', 'csv.allow-comments' = 'true'"
    options += ", 'csv.null-literal' = 'null'"
    table(tables, "i", tmp_path / "in", "csv", "a INT, b STRING, c DOUBLE", options)
    table(tables, "o", tmp_path / "out", "csv", "a INT, b STRING, c DOUBLE")
    assert rows("SELECT * FROM i") == [(1, "a;b", 2.5), (2, None, None)]
    tables.execute_sql("INSERT INTO o SELECT * FROM i WHERE a = 1").wait()
    written = [row for file in files(tmp_path / "out") for row in csv.reader(file.read_text().splitlines())]
    assert written == [["1", "a;b", "2.5"]]


def test_partitions_are_directories(tables, rows, tmp_path):
    columns = "id INT, dt STRING, hr INT"
    table(tables, "t", tmp_path / "out", "json", columns, partitioned="PARTITIONED BY (dt, hr)")
    tables.execute_sql(
        "INSERT INTO t VALUES (1, '2024-01-01', 5), (2, 'a/b', 6), (3, CAST(NULL AS STRING), 5)"
    ).wait()
    directories = {str(file.parent.relative_to(tmp_path / "out")) for file in files(tmp_path / "out")}
    assert directories == {"dt=2024-01-01/hr=5", "dt=a%2Fb/hr=6", "dt=__DEFAULT_PARTITION__/hr=5"}
    assert all("dt" not in json.loads(file.read_text().splitlines()[0]) for file in files(tmp_path / "out"))
    expected = [(1, "2024-01-01", 5), (2, "a/b", 6), (3, None, 5)]
    assert sorted(rows("SELECT * FROM t"), key=lambda row: row[0]) == expected
    assert rows("SELECT id FROM t WHERE dt = 'a/b'") == [(2,)]
    assert sorted(rows("SHOW PARTITIONS t")) == [
        ("dt=2024-01-01/hr=5",),
        ("dt=__DEFAULT_PARTITION__/hr=5",),
        ("dt=a%2Fb/hr=6",),
    ]


def test_path_of_the_file_is_metadata(tables, rows, tmp_path):
    (tmp_path / "a.json").write_text('{"id": 7}\n')
    columns = "id INT, `path` STRING NOT NULL METADATA FROM 'file.path'"
    table(tables, "t", tmp_path / "a.json", "json", columns)
    ((number, path),) = rows("SELECT id, `path` FROM t")
    assert (number, Path(path).name) == (7, "a.json")


def test_computed_columns_are_computed_and_null_in_not_null_is_refused(tables, rows, tmp_path):
    (tmp_path / "a.json").write_text('{"id": 7}\n{"id": null}\n')
    table(tables, "t", tmp_path / "a.json", "json", "id INT, double_id AS id * 2")
    table(tables, "strict", tmp_path / "a.json", "json", "id INT NOT NULL")
    assert rows("SELECT * FROM t") == [(7, 14), (None, None)]
    with pytest.raises(Exception) as caught:
        rows("SELECT * FROM strict")
    found = caught.value
    while found.__cause__ is not None and not isinstance(found, SourceError):
        found = found.__cause__
    assert 'column "id"' in str(found) and "NOT NULL" in str(found)


def test_overwrite_and_truncate_need_batch_mode(tables, tmp_path):
    table(tables, "t", tmp_path / "out", "json", "id INT")
    with pytest.raises(ValidationError, match="batch mode"):
        tables.execute_sql("INSERT OVERWRITE t VALUES (1)")
    with pytest.raises(ValidationError, match="batch mode"):
        tables.execute_sql("TRUNCATE TABLE t")


def test_overwrite_replaces_what_was_there_when_it_succeeds(tables, rows, tmp_path):
    table(tables, "t", tmp_path / "out", "json", "id INT")
    tables.get_config().set("execution.runtime-mode", "BATCH")
    tables.execute_sql("INSERT INTO t VALUES (1), (2)").wait()
    tables.execute_sql("INSERT OVERWRITE t VALUES (3)").wait()
    assert rows("SELECT * FROM t") == [(3,)]
    tables.execute_sql("TRUNCATE TABLE t")
    assert files(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("'connector' = 'filesystem', 'format' = 'csv'", "no option 'path'"),
        ("'connector' = 'filesystem', 'path' = '/x'", "no option 'format'"),
        ("'connector' = 'filesystem', 'path' = '/x', 'format' = 'cvs'", 'Did you mean "csv"'),
        ("'connector' = 'filesystem', 'path' = '/x', 'format' = 'csv', 'pth' = 'y'", "'pth'"),
        (
            "'connector' = 'filesystem', 'path' = '/x', 'format' = 'csv', 'source.monitor-interval' = 'soon'",
            "soon",
        ),
        ("'connector' = 'filesytem', 'path' = '/x', 'format' = 'csv'", 'Did you mean "filesystem"'),
        ("'connector' = 'pulsar'", "do not have yet"),
        ("'path' = '/x'", "has no connector"),
    ],
)
def test_option_that_does_not_fit_is_told_before_the_job(tables, options, words):
    tables.execute_sql(f"CREATE TABLE t (a INT) WITH ({options})")
    with pytest.raises((ConfigurationError, NotSupportedError), match=words.replace("(", "[(]")):
        tables.execute_sql("SELECT * FROM t")


def test_malformed_row_names_file_and_line(tables, rows, tmp_path):
    (tmp_path / "a.csv").write_text("1\nx\n")
    table(tables, "t", tmp_path / "a.csv", "csv", "a INT")
    with pytest.raises(Exception) as caught:
        rows("SELECT * FROM t")
    found = caught.value
    while found.__cause__ is not None and not isinstance(found, MalformedRecordError):
        found = found.__cause__
    assert "a.csv" in str(found) and "line 2" in str(found)


def test_file_of_a_row_is_metadata(tables, rows, tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in [("a.csv", "1\n2\n"), ("b.csv", "30\n")]:
        (tmp_path / "in" / name).write_text(text)
        os.utime(tmp_path / "in" / name, (1_700_000_000, 1_700_000_000.25))
    columns = (
        "id INT, n STRING NOT NULL METADATA FROM 'file.name', `file.size` BIGINT METADATA, "
        "at_ts TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time'"
    )
    table(tables, "t", tmp_path / "in", "csv", columns)
    at = "2023-11-14 22:13:20.250"
    found = sorted(rows("SELECT n, `file.size`, id, CAST(at_ts AS STRING) FROM t"))
    assert [row[:3] for row in found] == [("a.csv", 4, 1), ("a.csv", 4, 2), ("b.csv", 3, 30)]
    assert {row[3] for row in found} == {at}


def test_only_files_whose_path_fits_are_read(tables, rows, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name, text in [("a.csv", "1\n"), ("b.txt", "2\n"), ("deep/c.csv", "3\n")]:
        (tmp_path / "in" / name).write_text(text)
    table(
        tables,
        "t",
        tmp_path / "in",
        "csv",
        "id INT",
        f", 'source.path.regex-pattern' = '{tmp_path}/.*[.]csv'",
    )
    assert sorted(rows("SELECT * FROM t")) == [(1,), (3,)]
    table(tables, "u", tmp_path / "in", "csv", "id INT", ", 'source.path.regex-pattern' = '(('")
    with pytest.raises(ConfigurationError, match="regular expression"):
        rows("SELECT * FROM u")


@pytest.mark.parametrize("size", ["1 kb", "1 mb"])
def test_files_are_finished_as_the_rolling_policy_says(tmp_path, size):
    options = {
        "execution.target": "local",
        "parallelism.default": "1",
        "millstream.epoch.max-records": "10",
        "execution.checkpointing.interval": "1 ms",
    }
    settings = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(options)).build()
    tables = TableEnvironment.create(settings)
    columns, extra = "id BIGINT, text STRING", f", 'sink.rolling-policy.file-size' = '{size}'"
    table(tables, "t", tmp_path / "out", "csv", columns, extra)
    tables.execute_sql(
        "CREATE TABLE numbers (id BIGINT, text STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '100', "
        "'rows-per-second' = '1000000', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', "
        "'fields.id.end' = '99', 'fields.text.length' = '95')"
    )
    tables.execute_sql("INSERT INTO t SELECT id, text FROM numbers").wait()
    found = files(tmp_path / "out")
    lines = [line for file in found for line in file.read_text().splitlines()]
    assert sorted(int(line.split(",")[0]) for line in lines) == list(range(100))
    sizes = sorted(file.stat().st_size for file in found)  # 9,790 bytes, about 980 an epoch
    assert len(sizes) == 1 if size == "1 mb" else len(sizes) > 1 and sizes[1] >= 1024, sizes


@pytest.mark.parametrize("format", ["csv", "json"])
def test_partitions_that_got_rows_are_marked(tables, rows, tmp_path, format):
    table(
        tables,
        "t",
        tmp_path / "out",
        format,
        "id INT, dt STRING",
        ", 'sink.partition-commit.policy.kind' = 'success-file', 'sink.rolling-policy.rollover-interval' = '1 h'",
        "PARTITIONED BY (dt)",
    )
    tables.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')").wait()
    marks = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("_SUCCESS"))
    assert marks == ["out/dt=a/_SUCCESS", "out/dt=b/_SUCCESS"]
    assert sorted(rows("SELECT * FROM t")) == [(1, "a"), (2, "b"), (3, "a")]


@pytest.mark.parametrize(
    ("format", "extra", "words"),
    [
        ("parquet", "'sink.rolling-policy.file-size' = '1 mb'", "parquet.*not in millstream"),
        ("csv", "'sink.rolling-policy.file-size' = 'big'", "file-size"),
        ("csv", "'sink.partition-commit.policy.kind' = 'success-file'", "PARTITIONED BY"),
        ("csv", "'sink.partition-commit.policy.kind' = 'custom'", "custom"),
        ("csv", "'sink.partition-commit.success-file.name' = 'x'", "policy.kind"),
    ],
)
def test_policy_that_is_not_there_is_refused(tables, tmp_path, format, extra, words):
    table(tables, "t", tmp_path / "out", format, "id INT", f", {extra}")
    with pytest.raises((ConfigurationError, NotSupportedError), match=words):
        tables.execute_sql("INSERT INTO t VALUES (1)")
