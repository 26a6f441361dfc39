"""Running aggregates by expression, beside plain Python; in any cut, form and parallelism, through checkpoints."""

from __future__ import annotations

from column_runs import Subtasks
from column_windows import AGGREGATES, InPython
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.time import MAX_TIMESTAMP
from millstream.operators.columnar.aggregate import ColumnAggregateSpec

SPEC = ColumnAggregateSpec(("k",), AGGREGATES, names=("k", "v"))
FORM = st.sampled_from(["columns", "rows", "dicts", "tuples"])
RECORD = st.tuples(st.none() | st.integers(0, 5), st.none() | st.integers(-9, 9), st.integers(0, 50))
BATCH = st.lists(RECORD, min_size=1, max_size=10)
STEP = (
    st.tuples(st.just("batch"), BATCH)
    | st.tuples(st.just("restart"), st.integers(1, 3))
    | st.tuples(st.just("checkpoint"), st.none())
)


def net(model, records):
    """What a batch gives: for each key of it what all its records came to, with the timestamp of the last."""
    stamps = {}
    for key, number, stamp in records:
        model.setdefault(key, []).append(number)
        stamps[key] = stamp
    result = [((key, *InPython().get_result(model[key])), stamp) for key, stamp in stamps.items()]
    return sorted(result, key=repr)


@given(st.lists(STEP, max_size=10), FORM)
def test_each_batch_gives_what_its_keys_have_come_to(steps, form):
    subtasks, model = Subtasks(SPEC), {}
    for kind, what in steps:
        if kind == "batch":
            assert subtasks.add(what, form) == (net(model, what), [])
        elif kind == "checkpoint":
            subtasks.checkpoint()
        else:
            subtasks.restart(what)


@given(st.lists(BATCH, max_size=6), FORM, st.booleans())
def test_in_batch_mode_each_key_gives_one_row_at_the_end(batches, form, stamped):
    subtasks, model = Subtasks(SPEC, batch=True), {}
    stamps = {}
    for batch in batches:
        assert subtasks.add(batch, form, stamped) == ([], [])
        net(model, batch)
        stamps |= {key: stamp if stamped else None for key, _, stamp in batch}
    expected = [((key, *InPython().get_result(values)), stamps[key]) for key, values in model.items()]
    assert subtasks.watermark(MAX_TIMESTAMP)[0] == sorted(expected, key=repr)


def test_a_key_that_did_not_change_is_not_written_again():
    subtasks = Subtasks(SPEC)
    subtasks.add([(key, 1, 0) for key in range(5_000)])
    subtasks.checkpoint()
    subtasks.add([(7, 1, 1)])
    (operator,) = subtasks.operators
    from millstream.state.snapshots import StateChanges

    changes = StateChanges(128)
    assert operator.changed_entries(changes)
    changed = [entry for patch in changes.patches.values() for entry in patch.changed["aggregates"]]
    assert changed == [(None, 7, (2, 2, 1, 1, (2, 2), 1, 1))]
