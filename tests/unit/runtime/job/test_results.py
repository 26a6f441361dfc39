"""What a job leaves when it has ended."""

from __future__ import annotations

import json

import pytest

from millstream.common.configuration import Configuration
from millstream.common.errors import CheckpointDamagedError
from millstream.common.job_failure import JobFailureInfo
from millstream.runtime.checkpoint.pointer import LostJob, RecoveryPointer
from millstream.runtime.job.failures import FailureHistory, JobFailure, describe_failure
from millstream.runtime.job.high_availability import find_traces
from millstream.runtime.job.identity import file_stem_of
from millstream.runtime.job.results import (
    EndedJob,
    JobResultStore,
    dump_accumulators,
    load_accumulators,
    read_results,
)

FAILURE = JobFailureInfo(3, 1_000, "ValueError", "no", "Map", 1, "Traceback ...", None)


def ended(**changes):
    given = {"job_id": "ab" * 16, "status": "FAILED", "ended_ms": 5_000, "failures": (FAILURE,), **changes}
    return EndedJob(name="a job", **given)


def configured(tmp_path, **options):
    return Configuration.from_dict({"high-availability.storageDir": str(tmp_path), **options})


def test_an_entry_is_dirty_until_all_is_cleaned_up(tmp_path):
    store = JobResultStore(str(tmp_path), "a job")
    assert store.read() is None
    store.begin(ended(clean=True))
    assert store.read() == ended(clean=False)
    store.commit(ended())
    assert store.read() == ended(clean=True)
    store.forget()
    assert store.read() is None


def test_cleaning_up_removes_pointer_and_checkpoints_and_may_be_repeated(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "chk-1").mkdir(parents=True)
    stem = file_stem_of(Configuration(), "a job", number=1)
    pointer = RecoveryPointer(str(tmp_path), stem)
    pointer.write(LostJob("ab" * 16, str(checkpoints / "chk-1")))
    store = JobResultStore(str(tmp_path), stem)
    for _ in range(2):
        store.begin(ended(checkpoints=str(checkpoints)))
        traces = find_traces(
            configured(
                tmp_path, **{"millstream.recover": True, "job-result-store.storage-path": str(tmp_path)}
            ),
            "a job",
            number=1,
        )
        assert traces.ended is not None
        assert store.read().clean
        assert pointer.read() is None
        assert not checkpoints.exists()


def test_a_run_that_is_not_to_recover_cleans_up_and_forgets(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    store = JobResultStore.of(configured(tmp_path), file_stem_of(Configuration(), "a job", number=1))
    store.begin(ended(checkpoints=str(checkpoints)))
    traces = find_traces(configured(tmp_path), "a job", number=1)
    assert (traces.ended, traces.lost) == (None, None)
    assert store.read() is not None, "nothing has begun yet"
    traces.begin_anew()
    assert store.read() is None
    assert not checkpoints.exists()


def test_jobs_of_one_name_in_one_program_have_traces_of_their_own(tmp_path):
    configuration = configured(tmp_path, **{"high-availability.cluster-id": "orders"})
    for number in (1, 2, 3):
        traces = find_traces(configuration, "any", number=number)
        traces.results.begin(ended(job_id=str(number), ended_ms=number))
        traces.pointer.write(LostJob(str(number), "there"))
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    stem = file_stem_of(configuration, "any", number=1)
    assert stem.startswith("orders-")
    names = (stem, f"{stem}-2", f"{stem}-3")
    assert found == {f"{name}.recovery" for name in names} | {
        f"job-result-store/{name}.result" for name in names
    }
    assert [each.job_id for each in read_results(str(tmp_path))] == ["1", "2", "3"]


def test_an_entry_that_cannot_be_understood_is_named(tmp_path):
    (tmp_path / "a job.result").write_text('{"job_id": 1}')
    with pytest.raises(CheckpointDamagedError, match=r"a job\.result"):
        JobResultStore(str(tmp_path), "a job").read()


def test_fields_of_later_versions_are_left_out(tmp_path):
    store = JobResultStore(str(tmp_path), "a job")
    store.begin(ended())
    path = tmp_path / "a job.result"
    document = json.loads(path.read_text())
    document["more"] = document["failures"][0]["more"] = 1
    path.write_text(json.dumps(document))
    assert store.read() == ended()


def test_accumulators_that_cannot_be_pickled_are_left_out_and_named(caplog):
    text = dump_accumulators({"sum": 3, "words": {"a": 1}, "bad": lambda: 1})
    assert load_accumulators(text) == {"sum": 3, "words": {"a": 1}}
    assert '"bad"' in caplog.text


def test_the_last_failures_are_kept_and_all_are_counted():
    history = FailureHistory(3)
    for attempt in range(10):
        history.add(JobFailure(attempt, attempt, ValueError(attempt), 7))
    assert ([each.attempt for each in history], history.total) == ([7, 8, 9], 10)


def test_a_failure_is_told_with_its_causes():
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        told = describe_failure(JobFailure(2, 99, error, 1_000))
    assert (told.attempt, told.timestamp_ms, told.restart_delay_ms) == (2, 99, 1_000)
    assert (told.exception_name, told.message) == ("ValueError", "ValueError: outer")
    assert told.stacktrace.index("KeyError: 'inner'") < told.stacktrace.index("ValueError: outer")
    assert JobFailureInfo.from_dict(json.loads(json.dumps(told.to_dict()))) == told
