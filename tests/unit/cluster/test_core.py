"""What the dispatcher does next, event by event."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cluster.applications import (
    Application,
    ApplicationRecordError,
    Program,
    application_from_json,
    application_to_json,
)
from millstream.cluster.core import (
    CancelAsked,
    DispatcherCore,
    Elapsed,
    Note,
    OpenSession,
    ProcessEnded,
    ProcessStarted,
    SessionEnded,
    SessionOpened,
    Start,
    Submitted,
    Terminate,
)


def application(name: str = "a", **changes: object) -> Application:
    return replace(Application(name * 32, name, Program("/job.py"), submitted_ms=0), **changes)  # type: ignore[arg-type]


def kinds(commands: list[object]) -> list[str]:
    return [type(command).__name__ for command in commands]


def running_core(name: str = "a") -> DispatcherCore:
    core = DispatcherCore()
    core.handle(SessionOpened(), 0)
    core.handle(Submitted(application(name)), 0)
    core.handle(ProcessStarted(name * 32, 7, "x"), 0)
    return core


def status(core: DispatcherCore, name: str = "a") -> str:
    found = core.find(name * 32)
    assert found is not None
    return found.status


def test_first_submission_opens_a_session_and_starts_when_it_is_there() -> None:
    core = DispatcherCore()
    assert kinds(core.handle(Submitted(application()), 0)) == ["Note", "OpenSession"]
    assert kinds(core.handle(Submitted(application("b")), 0)) == ["Note"], "it is being opened"
    commands = core.handle(SessionOpened(), 5)
    assert kinds(commands) == ["Note", "Start", "Note", "Start"]
    assert [each.recover for each in commands if isinstance(each, Start)] == [False, False]


def test_change_is_noted_before_a_process_is_started() -> None:
    core = DispatcherCore()
    core.handle(SessionOpened(), 0)
    commands = core.handle(Submitted(application()), 0)
    assert kinds(commands) == ["Note", "Note", "Start"]
    assert isinstance(commands[1], Note) and commands[1].application.status == "RUNNING"


def test_killed_process_is_started_again_to_recover() -> None:
    core = running_core()
    core.handle(ProcessEnded("a" * 32, None, submitted=True), 1_000)
    assert status(core) == "WAITING"
    assert core.handle(Elapsed(), 1_999) == []
    commands = core.handle(Elapsed(), 2_000)
    assert kinds(commands) == ["Note", "Start"]
    assert isinstance(commands[1], Start) and commands[1].recover


def test_program_that_dies_three_times_before_it_submits_a_job_has_failed() -> None:
    core = running_core()
    now_ms = 0
    for delay_ms in (2_000, 4_000):
        core.handle(ProcessEnded("a" * 32, None, submitted=False, message="signal 11"), now_ms)
        assert core.handle(Elapsed(), now_ms + delay_ms - 1) == []
        now_ms += delay_ms
        assert kinds(core.handle(Elapsed(), now_ms)) == ["Note", "Start"]
    core.handle(ProcessEnded("a" * 32, None, submitted=False, message="signal 11"), now_ms)
    found = core.find("a" * 32)
    assert found is not None and found.status == "FAILED" and "signal 11" in found.message


def test_lost_session_is_opened_again_and_jobs_recover_in_it() -> None:
    core = running_core()
    assert core.handle(SessionEnded("out of memory"), 1_000) == [], "nobody waits for a session"
    core.handle(ProcessEnded("a" * 32, None, submitted=True, session_lost=True), 1_100)
    assert status(core) == "WAITING"
    assert core.handle(Elapsed(), 5_999) == [], "the session has just failed"
    assert core.handle(Elapsed(), 6_000) == [OpenSession()]
    commands = core.handle(SessionOpened(), 9_000)
    assert [type(each) for each in commands] == [Note, Start]


def test_session_that_cannot_be_opened_is_tried_again_and_says_why() -> None:
    core = DispatcherCore()
    core.handle(Submitted(application()), 0)
    core.handle(SessionEnded("no Java"), 1_000)
    found = core.find("a" * 32)
    assert found is not None and (found.status, found.message) == ("SUBMITTED", "no Java")
    assert core.handle(Elapsed(), 6_000) == [OpenSession()]


def test_cancelled_application_is_terminated_until_it_has_ended() -> None:
    core = running_core()
    assert kinds(core.handle(CancelAsked("a" * 32), 0)) == ["Note", "Terminate"]
    assert kinds(core.handle(Elapsed(), 1_000)) == ["Terminate"]
    core.handle(ProcessEnded("a" * 32, "CANCELED", submitted=True), 2_000)
    assert status(core) == "CANCELED"
    assert core.handle(Elapsed(), 3_000) == []


def test_application_that_never_started_is_cancelled_at_once() -> None:
    core = DispatcherCore()
    core.handle(Submitted(application()), 0)
    core.handle(CancelAsked("a" * 32), 0)
    assert status(core) == "CANCELED"
    assert core.handle(SessionOpened(), 0) == []


def test_cancelled_application_that_waits_is_started_to_clean_up() -> None:
    core = running_core()
    core.handle(ProcessEnded("a" * 32, None, submitted=True), 0)
    core.handle(CancelAsked("a" * 32), 0)
    assert kinds(core.handle(Elapsed(), 1_000)) == ["Note", "Start"]
    assert [type(each) for each in core.handle(Elapsed(), 2_000)] == [Terminate]


def test_cancelling_what_has_ended_changes_nothing() -> None:
    core = running_core()
    core.handle(ProcessEnded("a" * 32, "FINISHED", submitted=True), 0)
    assert core.handle(CancelAsked("a" * 32), 0) == []
    assert status(core) == "FINISHED"


def test_dispatcher_that_starts_anew_knows_what_ran() -> None:
    core = DispatcherCore([application(status="RUNNING", starts=1, pid=7)])
    assert core.handle(SessionOpened(), 0) == [], "the shell tells what has become of the process"
    core.handle(ProcessEnded("a" * 32, None, submitted=True), 0)
    commands = core.handle(Elapsed(), 1_000)
    assert isinstance(commands[-1], Start) and commands[-1].recover


_EVENTS = st.lists(
    st.one_of(
        st.sampled_from("ab").map(lambda name: CancelAsked(name * 32)),
        st.just(SessionOpened()),
        st.just(SessionEnded("gone")),
        st.just(Elapsed()),
        st.builds(
            ProcessEnded,
            st.sampled_from("ab").map(lambda name: name * 32),
            st.sampled_from([None, "FINISHED", "FAILED", "CANCELED"]),
            st.booleans(),
            st.booleans(),
        ),
    ),
    max_size=40,
)


@given(_EVENTS)
def test_whatever_happens_each_application_has_at_most_one_process(events: list[object]) -> None:
    core = DispatcherCore()
    processes: set[str] = set()
    now_ms = 0
    pending: list[object] = [Submitted(application("a")), Submitted(application("b")), *events]
    for event in pending:
        now_ms += 700
        if isinstance(event, ProcessEnded):
            if event.application_id not in processes:
                continue
            processes.discard(event.application_id)
        for command in core.handle(event, now_ms):  # type: ignore[arg-type]
            if isinstance(command, Start):
                assert command.application.application_id not in processes
                processes.add(command.application.application_id)
                core.handle(ProcessStarted(command.application.application_id, 1, None), now_ms)
            if isinstance(command, Note) and command.application.has_ended:
                assert command.application.application_id not in processes
    for each in core.applications:
        assert (each.status == "RUNNING") == (each.application_id in processes)


@given(st.text(), st.lists(st.text()), st.dictionaries(st.text(), st.text()), st.booleans())
def test_record_is_read_as_it_was_written(
    path: str, arguments: list[str], options: dict[str, str], pyflink: bool
) -> None:
    written = application(program=Program(path, tuple(arguments), options, "/", pyflink), pid=3)
    assert application_from_json(application_to_json(written)) == written


@pytest.mark.parametrize("document", [None, [], {}, {"version": 1}, {"version": 2}])
def test_record_that_is_none_is_refused(document: object) -> None:
    with pytest.raises(ApplicationRecordError):
        application_from_json(document)
