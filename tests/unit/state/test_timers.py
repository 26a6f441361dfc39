from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.state.timers import TimerQueue


def fire(timers: TimerQueue, time_ms: int) -> list[tuple[int, str]]:
    fired: list[tuple[int, str]] = []
    timers.fire_until(time_ms, lambda timestamp, key: fired.append((timestamp, key)))
    return fired


def test_timers_fire_by_time_then_by_registration_and_only_when_due():
    timers = TimerQueue()
    for timestamp, key in [(20, "z"), (10, "b"), (10, "a"), (5, "c")]:
        timers.register(timestamp, key)
    assert fire(timers, 4) == []
    assert fire(timers, 10) == [(5, "c"), (10, "b"), (10, "a")]
    assert timers.next_timestamp() == 20
    assert fire(timers, 100) == [(20, "z")]
    assert timers.next_timestamp() is None


def test_same_timer_registered_twice_fires_once():
    timers = TimerQueue()
    timers.register(10, "a")
    timers.register(10, "a")
    assert fire(timers, 10) == [(10, "a")]
    assert fire(timers, 10) == []


def test_deleted_timer_does_not_fire_and_may_be_registered_again():
    timers = TimerQueue()
    timers.register(10, "a")
    timers.register(10, "b")
    timers.delete(10, "a")
    timers.delete(11, "never registered")
    assert fire(timers, 10) == [(10, "b")]
    timers.register(20, "a")
    timers.delete(20, "a")
    assert timers.next_timestamp() is None
    timers.register(20, "a")
    assert fire(timers, 20) == [(20, "a")]


def test_timer_registered_while_firing_that_is_due_earlier_fires_first():
    """Timers at 10 (a, b) and 20; a, when it fires, registers 3, 15 and 99.

    ::

        fired:  10a  3  10b  15  20 | 99
    """
    timers = TimerQueue()
    fired: list[tuple[int, str]] = []

    def on_timer(timestamp: int, key: str) -> None:
        fired.append((timestamp, key))
        if key == "a":
            for at in (3, 15, 99):
                timers.register(at, f"from a at {at}")

    timers.register(10, "a")
    timers.register(10, "b")
    timers.register(20, "c")
    timers.fire_until(20, on_timer)
    assert fired == [(10, "a"), (3, "from a at 3"), (10, "b"), (15, "from a at 15"), (20, "c")]
    assert timers.next_timestamp() == 99


def test_timer_deleted_while_firing_does_not_fire():
    timers = TimerQueue()
    fired: list[str] = []

    def on_timer(timestamp: int, key: str) -> None:
        fired.append(key)
        timers.delete(10, "b")
        timers.delete(20, "c")

    for timestamp, key in [(10, "a"), (10, "b"), (20, "c"), (20, "d")]:
        timers.register(timestamp, key)
    timers.fire_until(20, on_timer)
    assert fired == ["a", "d"]


def test_asking_for_the_next_timer_while_one_fires_does_no_harm():
    timers = TimerQueue()
    seen: list[int | None] = []
    timers.register(10, "a")
    timers.register(20, "b")
    timers.fire_until(20, lambda timestamp, key: seen.append(timers.next_timestamp()))
    assert seen == [20, None]


def test_snapshot_lists_timers_by_time_and_leaves_out_deleted_ones():
    timers = TimerQueue()
    for timestamp, key in [(20, "a"), (10, "c"), (10, "b"), (30, "gone")]:
        timers.register(timestamp, key)
    timers.delete(30, "gone")
    assert timers.snapshot() == [(10, ["c", "b"]), (20, ["a"])]


def test_timers_that_are_put_off_again_and_again_take_no_more_memory_than_they_are():
    timers = TimerQueue()
    for round in range(2_000):
        for key in range(10):
            timers.delete(1_000_000 + 10 * (round - 1) + key, key)
            timers.register(1_000_000 + 10 * round + key, key)
    assert timers.count() == len(timers._buckets) == 10
    assert len(timers._heap) < 2_000
    assert fire(timers, 10_000_000) == [(1_000_000 + 19_990 + key, key) for key in range(10)]
    assert timers.next_timestamp() is None


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["register", "delete", "fire"]), st.integers(0, 9), st.sampled_from("abc"))
)


@given(ACTIONS)
def test_queue_agrees_with_a_sorted_list(actions):
    timers, model = TimerQueue(), dict[tuple[int, str], None]()
    for action, timestamp, key in actions:
        if action == "register":
            timers.register(timestamp, key)
            model[timestamp, key] = None
        elif action == "delete":
            timers.delete(timestamp, key)
            model.pop((timestamp, key), None)
        else:
            due = sorted((timer for timer in model if timer[0] <= timestamp), key=lambda timer: timer[0])
            assert fire(timers, timestamp) == due
            for timer in due:
                del model[timer]
        assert timers.next_timestamp() == min((timer[0] for timer in model), default=None)


NESTED = st.lists(
    st.tuples(st.sampled_from(["register", "delete", "ask"]), st.integers(0, 9), st.sampled_from("abc")),
    max_size=5,
)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"))),
    st.lists(NESTED, max_size=8),
    st.integers(0, 9),
)
def test_what_is_done_while_timers_fire_agrees_with_a_list_that_is_searched_anew_each_time(
    given, nested, until
):
    def run(register, delete, ask, fire_until):
        """Register, then fire; with the first timers that fire, do what is nested."""
        fired, asked = [], []
        todo = list(nested)

        def on_timer(timestamp, key):
            fired.append((timestamp, key))
            for action, at, of in todo.pop(0) if todo else ():
                if action == "ask":
                    asked.append(ask())
                else:
                    (register if action == "register" else delete)(at, of)

        for timer in given:
            register(*timer)
        fire_until(until, on_timer)
        return fired, asked, ask()

    model: dict[tuple[int, str], None] = {}

    def fire_model(time_ms, on_timer):
        while due := [timer for timer in model if timer[0] <= time_ms]:
            timer = min(due, key=lambda each: each[0])
            del model[timer]
            on_timer(*timer)

    expected = run(
        lambda *timer: model.setdefault(timer),
        lambda *timer: model.pop(timer, None),
        lambda: min((timer[0] for timer in model), default=None),
        fire_model,
    )
    timers = TimerQueue()
    assert run(timers.register, timers.delete, timers.next_timestamp, timers.fire_until) == expected
