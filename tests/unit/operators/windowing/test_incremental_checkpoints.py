"""Operators with contents of their own write what changed, fail, and go on from the files with another parallelism."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_harness import (
    Listing,
    Sum,
    Totals,
    Unmergeable,
    by_first,
    by_key,
    first_field,
    plain,
)

from millstream.base.time import MAX_TIMESTAMP
from millstream.common.co_functions import ProcessJoinFunction
from millstream.common.functions import ProcessWindowFunction
from millstream.common.state import ListStateDescriptor, ValueStateDescriptor
from millstream.operators import interval_buffers
from millstream.operators.interval_join import IntervalJoinSpec
from millstream.operators.windowing.assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.operators.windowing.count_assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from millstream.operators.windowing.evictors import CountEvictor
from millstream.operators.windowing.spec import (
    AggregateWindow,
    ApplyWindow,
    ProcessWindow,
    ReduceWindow,
    WindowSpec,
)
from millstream.operators.windowing.triggers import ContinuousEventTimeTrigger, CountTrigger, PurgingTrigger
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader
from millstream.state import touched
from millstream.testing import OperatorHarness, Watermark

KEY_GROUPS = 8


class Fired(ProcessWindowFunction):
    """Tells how often the window fired, and the key in all windows: state of both scopes."""

    def process(self, key, context, elements):
        own = context.window_state().get_state(ValueStateDescriptor("own"))
        everywhere = context.global_state().get_list_state(ListStateDescriptor("everywhere"))
        own.update((own.value() or 0) + 1)
        everywhere.add(len(list(elements)))
        yield key, repr(context.window()), own.value(), list(everywhere.get())

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("own")).clear()


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


def gap_of(record):
    return record[1] % 4 + 1


TRACKED = {"execution.checkpointing.interval": "1 s"}
MEMORY = TRACKED
DISK = {**TRACKED, "state.backend.type": "rocksdb", "millstream.state.cache-bytes": 2_000}


class Job:
    """An operator in some subtasks; each step is given to all, records by key."""

    def __init__(self, spec, parallelism, *, now_ms=0, kept=None, backend=MEMORY):
        self.spec = spec
        self.inputs = 2 if isinstance(spec, IntervalJoinSpec) else 1
        self.harness = OperatorHarness(
            by_key(spec),
            inputs=self.inputs,
            parallelism=parallelism,
            max_parallelism=KEY_GROUPS,
            processing_time=now_ms,
            restore=kept,
            options=backend,
        )

    def step(self, kind, given):
        """Make a step; return what came out, without watermarks."""
        harness = self.harness
        if kind == "watermark":
            harness.push_watermark(given)
        elif kind == "clock":
            harness.set_processing_time(max(harness.processing_time, given))
        elif kind in ("records", "right"):
            values, stamps = [record[:2] for record in given], [record[2] for record in given]
            harness.push_batch(values, stamps, input=self.inputs - 1 if kind == "right" else 0)
        return [plain(each) for each in harness.take_elements() if not isinstance(each, Watermark)]

    def write(self, *, patched):
        """Return the file of a checkpoint of the only subtask."""
        (chain,) = self.harness.snapshot(incremental=patched).files
        return StateFileReader(chain[-1], "there")

    def close(self):
        self.harness.close()


def in_any_order(elements):
    return sorted(map(repr, elements))


def undisturbed(spec, script):
    job = Job(spec, 1)
    results = []
    for step in script:
        results += job.step(*step)
    job.close()
    return results


def disturbed(spec, script, events, backend):
    """Run the script with a checkpoint, or a failure and another parallelism, behind some steps."""
    job = Job(spec, 2, backend=backend)
    kept = job.harness.snapshot()
    committed, pending, since, now_ms = [], [], [], 0
    for place, step in enumerate(script):
        pending += job.step(*step)
        since.append(step)
        event = events.get(place)
        if event == "checkpoint":
            kept = job.harness.snapshot(incremental=True)
            committed, pending, since, now_ms = [*committed, *pending], [], [], job.harness.processing_time
        elif event is not None:
            job.close()
            job = Job(spec, event, now_ms=now_ms, kept=kept, backend=backend)
            job.harness.snapshot()
            pending = [element for again in since for element in job.step(*again)]
    job.close()
    return committed + pending


SPECS = {
    "reduce": ReduceWindow(by_first),
    "aggregate": AggregateWindow(Sum()),
    "unmergeable": AggregateWindow(Unmergeable()),
    "list": ApplyWindow(Listing(unwrap=False)),
    "process": ProcessWindow(Totals()),
}
sizes = st.integers(2, 9)
unmerged = st.one_of(
    st.builds(TumblingEventTimeWindows, sizes, st.just(0)),
    st.builds(SlidingEventTimeWindows, st.integers(2, 14), st.integers(1, 6), st.just(0)),
    st.builds(TumblingProcessingTimeWindows, sizes, st.just(0)),
    st.builds(SlidingProcessingTimeWindows, st.integers(2, 14), st.integers(1, 6), st.just(0)),
)
sessions = st.one_of(
    st.builds(EventTimeSessionWindows, sizes),
    st.builds(ProcessingTimeSessionWindows, sizes),
    st.just(DynamicEventTimeSessionWindows(gap_of)),
)
counted = st.one_of(
    st.builds(CountTumblingWindowAssigner, sizes),
    st.builds(CountSlidingWindowAssigner, sizes, st.integers(1, 5)),
)
options = st.fixed_dictionaries(
    {"allowed_lateness_ms": st.integers(0, 6), "late_tag_id": st.just("late"), "general": st.booleans()}
)
specs = st.one_of(
    st.builds(
        lambda assigner, function, more: WindowSpec(first_field, assigner, SPECS[function], **more),
        st.one_of(unmerged, sessions, counted),
        st.sampled_from(sorted(SPECS)[:4]),
        options,
    ),
    st.builds(
        lambda assigner, more: WindowSpec(first_field, assigner, ProcessWindow(Fired()), **more),
        unmerged,
        options,
    ),
    st.builds(
        lambda trigger, assigner, evictor, more: WindowSpec(
            first_field, assigner, SPECS["list"], trigger=trigger, evictor=evictor, **more
        ),
        st.sampled_from([CountTrigger(2), PurgingTrigger(CountTrigger(3)), ContinuousEventTimeTrigger(4)]),
        st.builds(TumblingEventTimeWindows, sizes, st.just(0)),
        st.sampled_from([None, CountEvictor.of(2), CountEvictor.of(1, True)]),
        options,
    ),
    st.builds(
        lambda trigger, evictor: WindowSpec(
            first_field, GlobalWindows.create(), SPECS["list"], trigger=trigger, evictor=evictor
        ),
        st.sampled_from([CountTrigger(2), PurgingTrigger(CountTrigger(3))]),
        st.sampled_from([None, CountEvictor.of(2)]),
    ),
    st.builds(
        lambda lower, width, event_time: IntervalJoinSpec(
            Pairs(),
            first_field,
            first_field,
            lower,
            lower + width,
            event_time=event_time,
            late_left_tag_id="late",
        ),
        st.integers(-6, 3),
        st.integers(0, 8),
        st.booleans(),
    ),
)
keys = st.sampled_from(["a", "b", "c", 7, ("d", 1)])
batches = st.lists(st.tuples(keys, st.integers(1, 9), st.integers(0, 12)), min_size=1, max_size=6)
steps = st.one_of(
    st.tuples(st.just("records"), batches),
    st.tuples(st.just("records"), batches),
    st.tuples(st.just("right"), batches),
    st.tuples(st.just("advance"), st.integers(1, 7)),
)


def timed(script):
    """Let time go on: records are ahead of the watermark by 0 to 12 less 4, so that some are late."""
    now = 0
    for kind, given_ in script:
        if kind == "advance":
            now += given_
            yield "watermark", now
            yield "clock", now
        else:
            yield kind, [(key, number, now - 4 + stamp) for key, number, stamp in given_]
    yield "watermark", MAX_TIMESTAMP - 1
    yield "clock", now + 1_000


events_of = st.dictionaries(
    st.integers(0, 30), st.sampled_from(["checkpoint", "checkpoint", "checkpoint", 1, 2, 3]), max_size=20
)


def check(spec, script, events, backend, always_changes):
    before = touched._ALWAYS_CHANGES, interval_buffers.SHORTEST_MS
    touched._ALWAYS_CHANGES, interval_buffers.SHORTEST_MS = always_changes, 2
    try:
        made = disturbed(spec, script, events, backend)
        wanted = undisturbed(spec, script)
    finally:
        touched._ALWAYS_CHANGES, interval_buffers.SHORTEST_MS = before
    assert in_any_order(made) == in_any_order(wanted)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(specs, st.lists(steps, max_size=25), events_of, st.sampled_from([0, 1_000]))
def test_a_job_that_fails_gives_what_the_undisturbed_job_gives(spec, script, events, always_changes):
    check(spec, list(timed(script)), events, MEMORY, always_changes)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(specs, st.lists(steps, max_size=15), events_of, st.sampled_from([0, 1_000]))
def test_also_with_state_on_disk(spec, script, events, always_changes):
    check(spec, list(timed(script)), events, DISK, always_changes)


# --- how much is written ------------------------------------------------------------------------------------

MANY = 50_000


def size_of(file, *kinds):
    return sum(chunk.length for chunk in file.chunks if chunk.kind in kinds)


@pytest.mark.parametrize(
    "spec",
    [
        WindowSpec(first_field, TumblingEventTimeWindows.of(1_000_000), SPECS["reduce"]),
        WindowSpec(first_field, SlidingEventTimeWindows.of(1_000_000, 100_000), SPECS["aggregate"]),
        WindowSpec(first_field, SlidingEventTimeWindows.of(1_000_000, 500_000), SPECS["reduce"]),
        WindowSpec(first_field, EventTimeSessionWindows(1_000_000), SPECS["reduce"]),
        WindowSpec(first_field, CountTumblingWindowAssigner(10), SPECS["reduce"]),
        WindowSpec(first_field, TumblingEventTimeWindows.of(1_000_000), SPECS["reduce"], general=True),
        IntervalJoinSpec(Pairs(), first_field, first_field, -5, 5),
    ],
    ids=["panes", "slices", "sliding reduce", "sessions", "counts", "general", "interval join"],
)
def test_a_checkpoint_behind_a_small_change_is_small(spec):
    job = Job(spec, 1)
    job.step("records", [(f"user-{number}", 1, 500_000) for number in range(MANY)])
    whole = job.write(patched=False)
    job.step("records", [(f"user-{number}", 1, 500_001) for number in range(100)])
    delta = job.write(patched=True)
    entries = size_of(whole, ChunkKind.ENTRIES)
    assert entries > 20 * MANY
    assert size_of(delta, ChunkKind.ENTRIES) == 0
    assert size_of(delta, ChunkKind.ENTRIES_PATCH, ChunkKind.ENTRIES_PATCHED, ChunkKind.OWN) * 20 < entries
    nothing = job.write(patched=True)
    assert size_of(nothing, ChunkKind.ENTRIES, ChunkKind.ENTRIES_PATCH) == 0


def test_of_many_slices_only_the_newest_is_written():
    spec = WindowSpec(first_field, SlidingEventTimeWindows.of(60_000, 1_000), SPECS["aggregate"])
    job = Job(spec, 1)
    for second in range(60):
        job.step("records", [(f"user-{number}", 1, second * 1_000) for number in range(200)])
    whole = job.write(patched=False)
    job.step("records", [(f"user-{number}", 1, 60_000) for number in range(200)])
    delta = job.write(patched=True)
    assert size_of(delta, ChunkKind.ENTRIES_PATCH) * 20 < size_of(whole, ChunkKind.ENTRIES)


def test_if_most_of_it_changed_everything_is_written_and_older_files_are_not_needed():
    job = Job(WindowSpec(first_field, TumblingEventTimeWindows.of(1_000), SPECS["reduce"]), 1)
    records = [(f"user-{number}", 1, 5) for number in range(3_000)]
    job.step("records", records)
    job.write(patched=False)
    job.step("records", records[:2_000])
    kept = job.harness.snapshot(incremental=True)
    delta = StateFileReader(kept.files[0][-1], "there")
    assert size_of(delta, ChunkKind.ENTRIES_PATCH, ChunkKind.ENTRIES_PATCHED) == 0
    assert size_of(delta, ChunkKind.ENTRIES) > 0
    again = Job(job.spec, 1, kept=kept)
    assert in_any_order(again.step("watermark", 999)) == in_any_order(job.step("watermark", 999))


def test_a_window_that_ended_is_dropped_as_a_whole():
    job = Job(WindowSpec(first_field, TumblingEventTimeWindows.of(10), SPECS["reduce"]), 1)
    job.step("records", [(f"user-{number}", 1, 5 + 10 * (number % 2)) for number in range(1_000)])
    whole = job.write(patched=False)
    job.step("watermark", 9)
    delta = job.write(patched=True)
    assert list(delta.read("operator", ChunkKind.ENTRIES_PATCHED)) == [(None, {"panes": [0]})]
    assert size_of(delta, ChunkKind.ENTRIES_PATCH) == 0
    entries = [
        entry
        for _, states in StateChain([whole, delta]).read("operator", ChunkKind.ENTRIES)
        for entry in states["panes"]
    ]
    assert len(entries) == 500
    assert {start for start, _, _ in entries} == {10}


def test_nothing_is_tracked_without_incremental_checkpoints():
    spec = WindowSpec(first_field, TumblingEventTimeWindows.of(10), SPECS["reduce"])
    job = Job(spec, 1, backend={})
    job.step("records", [("a", 1, 5)])
    file = job.write(patched=True)
    assert {chunk.kind for chunk in file.chunks} == {ChunkKind.ENTRIES, ChunkKind.OWN}
