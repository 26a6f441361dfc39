"""What a job leaves when it has ended."""

from __future__ import annotations

import json
import shutil

import pytest

from millstream.base.errors import CheckpointDamagedError, DriverSupersededError
from millstream.common.job_failure import JobFailureInfo
from millstream.config.configuration import Configuration
from millstream.runtime.checkpoint.pointer import LostJob, RecoveryPointer
from millstream.runtime.recovery.failures import FailureHistory, JobFailure, describe_failure
from millstream.runtime.recovery.high_availability import find_traces
from millstream.runtime.recovery.identity import file_stem_of
from millstream.runtime.recovery.results import (
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
        assert traces.results.read().clean
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
    found = {path for path in found if ".owners/" not in path}
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


# Who takes a job over


def recovering(tmp_path, **options):
    return configured(tmp_path, **{"millstream.recover": True, **options})


def test_who_takes_over_notes_at_once_where_the_job_is_and_what_comes_late_is_not_looked_at(tmp_path):
    first = find_traces(recovering(tmp_path), "a job", number=1)
    assert (first.lost, first.ended, first.ownership.term) == (None, None, 1)
    first.pointer.write(LostJob("1", "chk-1"))
    second = find_traces(recovering(tmp_path), "a job", number=1)
    assert second.lost == LostJob("1", "chk-1")
    # It has not come to a checkpoint yet. The first one had looked before, was paused, and writes now.
    first.pointer.write(LostJob("1", "chk-2"))
    first.results.begin(ended(job_id="1"))
    with pytest.raises(DriverSupersededError):
        first.ownership.check()
    third = find_traces(recovering(tmp_path), "a job", number=1)
    assert (third.lost, third.ended) == (LostJob("1", "chk-1"), None)
    third.begin_anew()
    assert [path.name for path in tmp_path.glob("*.owners/*")] == ["3"]
    assert [path.name.rpartition("@")[2] for path in tmp_path.glob("*.recovery")] == ["3.recovery"]
    assert list(tmp_path.glob("job-result-store/*")) == []


def test_a_driver_that_is_superseded_as_it_takes_over_ends(tmp_path, monkeypatch):
    first = find_traces(recovering(tmp_path), "a job", number=1)
    first.pointer.write(LostJob("1", "chk-1"))
    write, others = RecoveryPointer.write, []

    def slow(self, job):
        if not others:
            others.append(None)
            others[0] = find_traces(recovering(tmp_path), "a job", number=1)
            others[0].begin_anew()
        write(self, job)

    monkeypatch.setattr(RecoveryPointer, "write", slow)
    with pytest.raises(DriverSupersededError, match="superseded"):
        find_traces(recovering(tmp_path), "a job", number=1)
    others[0].ownership.check()
    assert others[0].lost == LostJob("1", "chk-1")


def test_who_hears_that_a_job_has_ended_takes_nothing_over(tmp_path):
    first = find_traces(recovering(tmp_path), "a job", number=1)
    first.results.begin(ended())
    first.results.commit(ended())
    for _ in range(2):
        traces = find_traces(recovering(tmp_path), "a job", number=1)
        assert traces.ended == ended(clean=True)
        assert traces.ownership is None
        assert "@" not in traces.results.where.rpartition("/")[2]
    first.ownership.check()


def test_who_finishes_the_end_of_a_job_for_another_driver_has_taken_it_over(tmp_path):
    first = find_traces(recovering(tmp_path), "a job", number=1)
    first.pointer.write(LostJob("1", "chk-1"))
    first.results.begin(ended())
    second = find_traces(recovering(tmp_path), "a job", number=1)
    assert (second.ended, second.ownership.term) == (ended(clean=False), 2)
    with pytest.raises(DriverSupersededError):
        first.ownership.check()
    assert second.results.read() == ended(clean=True)
    assert second.results.where.endswith("@2.result")
    assert list(tmp_path.glob("*.recovery")) == []
    assert [str(path) for path in (tmp_path / "job-result-store").iterdir()] == [second.results.where]


def test_what_a_version_left_that_knew_no_terms_is_taken_over(tmp_path):
    find_traces(recovering(tmp_path), "a job", number=1).pointer.write(LostJob("1", "chk-1"))
    (owners,) = tmp_path.glob("*.owners")
    shutil.rmtree(owners)
    traces = find_traces(recovering(tmp_path), "a job", number=1)
    assert (traces.lost, traces.ownership.term) == (LostJob("1", "chk-1"), 1)
    traces.begin_anew()
    assert traces.pointer.read() == LostJob("1", "chk-1")


def test_who_begins_anew_forgets_where_others_had_come_to(tmp_path):
    find_traces(recovering(tmp_path), "a job", number=1).pointer.write(LostJob("1", "chk-1"))
    anew = find_traces(configured(tmp_path), "a job", number=1)
    anew.begin_anew()
    recovered = find_traces(recovering(tmp_path), "a job", number=1)
    assert (recovered.lost, recovered.ended, recovered.ownership.term) == (None, None, 3)
