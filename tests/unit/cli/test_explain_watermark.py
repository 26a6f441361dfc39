from __future__ import annotations

import json
import tempfile
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from millstream.base.time import MIN_TIMESTAMP
from millstream.cli.main import main
from millstream.runtime.control.channel import ControlChannel
from millstream.runtime.control.status_files import StatusFile
from millstream.runtime.control.views import WatermarkFact


@pytest.fixture(autouse=True)
def own_directory(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


HOLDER = WatermarkFact(
    1,
    "Source: orders",
    2,
    "orders-7",
    watermark_ms=1_357_017_300_000,
    event_time_ms=1_357_017_310_001,
    holds_back=True,
    since_ms=1_357_020_000_000,
    behind_ms=95_000,
    reason="it has given no record for 12 s",
    hint="Add .with_idleness(...).",
)
OTHER = WatermarkFact(1, "Source: orders", 0, "orders-1", watermark_ms=1_357_017_395_000)
RESTING = WatermarkFact(1, "Source: orders", 1, "orders-2", idle=True)
AHEAD = WatermarkFact(1, "Source: orders", 1, "orders-3", watermark_ms=5, held_by_alignment=True)


def run_job(job_id, name, *facts, batch=False):
    file = StatusFile(job_id)
    file.write(
        {
            "job_id": job_id,
            "name": name,
            "started_ms": 0,
            "written_ms": 1_357_020_012_000,
            "batch": batch,
            "epoch": 1234,
            "watermark_ms": min((fact.at_ms for fact in facts), default=MIN_TIMESTAMP),
            "facts": [fact.to_json() for fact in facts],
        }
    )
    return file


def explain(*arguments):
    return CliRunner().invoke(main, ["explain-watermark", *arguments])


def test_without_a_running_job_it_says_so_and_fails():
    result = explain()
    assert result.exit_code == 1
    assert "no job runs on this machine for this user" in result.output


def test_only_job_is_shown_with_its_splits_and_advice():
    run_job("abc", "sales", HOLDER, OTHER, RESTING, AHEAD)
    result = explain()
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == 'job abc "sales", epoch 1,234'
    held, other, resting, ahead = (
        next(line.split() for line in lines if f" {split} " in line)
        for split in ("orders-7", "orders-1", "orders-2", "orders-3")
    )
    assert held == [
        ">",
        "Source:",
        "orders",
        "2",
        "orders-7",
        "2013-01-01",
        "05:15:00",
        "2013-01-01",
        "05:15:10.001",
        "active",
    ]
    assert other[0] == "Source:"
    assert resting[-3:] == ["-", "-", "idle"]
    assert ahead[-3:] == ["waits", "for", "others"]
    assert lines[-5:] == [
        'held back by split "orders-7" (subtask 2 of "Source: orders")',
        "  since   2013-01-01 06:00:00 UTC (12 s ago)",
        "  behind  1.58 min",
        "  reason  it has given no record for 12 s",
        "  hint    Add .with_idleness(...).",
    ]


@pytest.mark.parametrize("asked", ["sales", "abc", "ab"])
def test_job_is_found_by_name_id_or_beginning_of_the_id(asked):
    run_job("abc", "sales", HOLDER)
    run_job("xyz", "visits", OTHER)
    assert explain(asked).output.startswith('job abc "sales"')


def test_of_several_jobs_one_must_be_named_and_all_are_listed():
    run_job("abc", "sales", HOLDER)
    run_job("xyz", "visits", OTHER)
    result = explain()
    assert result.exit_code == 2
    assert result.output.splitlines() == ["2 jobs run: say which one", "  abc  sales", "  xyz  visits"]


def test_job_that_does_not_run_is_refused_and_those_that_do_are_listed():
    run_job("abc", "sales", HOLDER)
    result = explain("nobody")
    assert result.exit_code == 1
    assert result.output.splitlines() == ['no running job is called "nobody"', "  abc  sales"]


def test_json_has_all_facts():
    run_job("abc", "sales", HOLDER, OTHER)
    document = json.loads(explain("--json").output)
    assert [WatermarkFact(**fact) for fact in document["facts"]] == [HOLDER, OTHER]


def test_lowest_splits_only_are_shown_unless_all_are_asked_for():
    many = [WatermarkFact(1, "Source", index, f"s{index}", watermark_ms=index) for index in range(25)]
    run_job("abc", "sales", *many)
    assert "... and 5 more; --all shows them" in explain().output
    assert "s24" not in explain().output
    assert "s24" in explain("--all").output


def test_splits_with_the_same_trouble_are_told_of_once():
    twin = WatermarkFact(**{**HOLDER.to_json(), "split": "orders-8"})
    run_job("abc", "sales", HOLDER, twin)
    assert explain().output.count("held back by") == 1
    assert 'held back by split "orders-7" (subtask 2 of "Source: orders") and 1 more' in explain().output


def test_batch_job_has_no_watermark_before_its_end():
    run_job("abc", "sales", HOLDER, batch=True)
    assert "runs in batch mode" in explain().output
    assert "held back" not in explain().output


def test_job_whose_first_epoch_runs_is_told_as_such(monkeypatch):
    directory = tempfile.TemporaryDirectory(prefix="ms")  # short: the path of a socket has 108 bytes at most
    monkeypatch.setattr("tempfile.tempdir", directory.name)
    channel = ControlChannel(SimpleNamespace(job_id="ab" * 16, name="slow", started_ms=0))
    channel.start()
    try:
        for arguments in ((), ("slow",)):
            result = explain(*arguments)
            assert result.exit_code == 1
            assert 'job abababababababababababababababab "slow" began' in result.stderr
            assert "its first epoch has not ended" in result.stderr
    finally:
        channel.close()
        directory.cleanup()
