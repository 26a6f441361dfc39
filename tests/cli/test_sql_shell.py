"""`millstream sql`: scripts and the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from millstream.base.errors import ConfigurationError
from millstream.cli.sql import command
from millstream.table.session.live import Materialized
from millstream.table.session.session import SqlSession
from millstream.table.session.shell import Completer, Shell


def run(*arguments, cwd, stdin=None):
    environment = {**os.environ, "MILLSTREAM_CONFIG": ""}
    return subprocess.run(
        [sys.executable, "-m", "millstream.cli", *arguments],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_script_runs_behind_its_init_script(tmp_path):
    (tmp_path / "in.csv").write_text("1,a\n2,b\n")
    (tmp_path / "init.sql").write_text(
        "CREATE TABLE t (id INT, name STRING) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');"
    )
    (tmp_path / "job.sql").write_text(
        "CREATE TABLE o (id INT, name STRING) WITH ('connector' = 'print');\n"
        "INSERT INTO o SELECT * FROM t WHERE id > 1;\n"
    )
    done = run("sql", "-i", "init.sql", "-f", "job.sql", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "+I[2, b]" in done.stdout.splitlines()
    assert "Job ID:" in done.stdout


def test_mistyped_script_executes_nothing_and_names_script_and_line(tmp_path):
    text = "CREATE TABLE o (id INT) WITH ('connector' = 'print');\nSHOW TABLES;\nSELEC 1;\n"
    done = run("sql", cwd=tmp_path, stdin=text)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "(line 3, column 1)" in done.stderr and 'Did you mean "SELECT"?' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_begins_where_its_options_say(tmp_path, monkeypatch):
    script = tmp_path / "job.sql"
    script.write_text("SET 'pipeline.name' = 'mine'; SET;")
    monkeypatch.setenv("MILLSTREAM_CONFIG", "")
    done = CliRunner().invoke(
        command, ["-s", "chk-7", "-n", "--claim-mode", "CLAIM", "--recover", "-f", str(script)]
    )
    assert done.exit_code == 0, done.output
    given = json.loads(os.environ["MILLSTREAM_CONFIG"])
    assert given["execution.state-recovery.path"] == "chk-7"
    assert given["execution.state-recovery.ignore-unclaimed-state"] == "true"
    assert given["execution.state-recovery.claim-mode"] == "CLAIM"
    assert given["millstream.recover"] == "true"
    assert "'execution.state-recovery.path' = 'chk-7'" in done.output, "the session of the script has it"


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setenv("MILLSTREAM_CONFIG", '{"execution.target": "local", "parallelism.default": "1"}')
    said = []
    return SqlSession(said.append), said


def test_shell_reads_over_lines_goes_on_behind_errors_and_ends(session, capsys, tmp_path):
    (tmp_path / "more.sql").write_text("SELECT 7 AS seven;")
    lines = iter(
        [
            "SELECT 1",
            "  AS uno;",
            "",
            "SELEC 2;",
            "HELP",
            f"SOURCE '{tmp_path}/more.sql';",
            "SET 'pipeline.name' = 'mine';",
            "SET;",
            "QUIT;",
            "SELECT 3;",
        ]
    )
    prompts = []

    def read(prompt):
        prompts.append(prompt)
        return next(lines)

    opened, said = session
    assert Shell(opened, read, said.append).run() == 0
    shown = capsys.readouterr().out
    assert "|         uno |" in shown and "|       seven |" in shown
    assert "|           3 |" not in shown
    assert prompts[:3] == ["millstream> ", "          > ", "millstream> "]
    assert any(each.startswith("[ERROR] [SQL_SYNTAX]") for each in said)
    assert any("SOURCE" in each for each in said)
    assert "'pipeline.name' = 'mine'" in said


def test_words_tables_and_columns_are_completed(session):
    opened, _ = session
    opened.run_text("CREATE TABLE sensors (degrees INT) WITH ('connector' = 'print');")
    completer = Completer(opened)

    def completions(text):
        found = []
        while (each := completer.complete(text, len(found))) is not None:
            found.append(each)
        assert all(each.endswith(" ") for each in found) == (len(found) == 1)
        return [each.rstrip() for each in found]

    assert "SELECT" in completions("SEL")
    assert "select" in completions("sel")
    assert completions("sensor") == ["sensors"]
    assert "degrees" in completions("deg")


def test_result_mode_that_is_none_is_told(session):
    opened, _ = session
    with pytest.raises(ConfigurationError, match="tableau, table, changelog"):
        opened.run_text("SET 'sql-client.execution.result-mode' = 'pretty'; SELECT 1;")


def test_changing_table_holds_what_its_changes_left():
    table = Materialized(("a",))
    for kind, row in [(0, ("x",)), (0, ("x",)), (0, ("y",)), (1, ("y",)), (2, ("z",)), (3, ("x",))]:
        table.apply(kind, row)
    assert sorted(table.rows()) == [("x",), ("z",)]
    assert table.changes == 6
