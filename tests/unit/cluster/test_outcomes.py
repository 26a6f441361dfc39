"""How a program ended, from what is seen of it."""

from pathlib import Path

import pytest

from millstream.cluster.outcomes import find_outcome, judge
from millstream.runtime.recovery.results import EndedJob


def job(status: str, ended_ms: int = 1) -> EndedJob:
    return EndedJob(job_id="0" * 32, name="job", status=status, ended_ms=ended_ms)


@pytest.mark.parametrize(
    ("code", "jobs", "status"),
    [
        (0, [], "FINISHED"),
        (0, [job("FINISHED")], "FINISHED"),
        (0, [job("FINISHED", 1), job("CANCELED", 2)], "CANCELED"),
        (0, [job("CANCELED", 1), job("FINISHED", 2)], "FINISHED"),
        (1, [job("FAILED")], "FAILED"),
        (1, [job("CANCELED")], "CANCELED"),
        (3, [job("FINISHED")], "FAILED"),
        (75, [], None),
        (-9, [job("FINISHED")], None),
        (143, [], None),
        (None, [], None),
        (None, [job("FAILED")], "FAILED"),
    ],
)
def test_outcome_follows_the_table(code: int | None, jobs: list[EndedJob], status: str | None) -> None:
    assert judge("a", code, ended=jobs, submitted=True).status == status


def test_lost_session_is_no_failure_of_the_program() -> None:
    assert judge("a", 75, ended=[], submitted=False).session_lost
    assert not judge("a", -9, ended=[], submitted=False).session_lost


def test_failure_tells_the_end_of_what_the_program_wrote(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_bytes(b"\xff" + b"".join(b"line %d\n" % number for number in range(10_000)))
    found = find_outcome("a", 1, recovery=tmp_path / "none", log=log)
    assert found.status == "FAILED" and not found.submitted
    assert found.message.splitlines() == [f"line {number}" for number in range(9_980, 10_000)]


def test_process_that_wrote_nothing_is_told_by_its_code(tmp_path: Path) -> None:
    found = find_outcome("a", 5, recovery=tmp_path / "none", log=tmp_path / "none.log")
    assert found.message == "it ended with exit code 5"
