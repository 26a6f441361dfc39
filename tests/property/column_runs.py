"""Runs one operator by hand, on rows or on columns, with checkpoints between; what comes out is plain values."""

from __future__ import annotations

import pickle
from functools import partial

import pyarrow as pa

from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, Output, RestoreScope
from millstream.spi.batch import Columns, Rows
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.key_groups import key_group, subtask_of
from millstream.state.snapshots import StateChanges
from millstream.types.row import Row

NAMES = ["k", "v"]


class Recorder(Output):
    """Keeps what is emitted."""

    def __init__(self):
        self.results, self.late, self.watermarks = [], [], []

    def emit(self, batch):
        rows = batch.to_rows() if isinstance(batch, Columns) else batch
        self.results += zip(
            map(plain, rows.values), rows.timestamps or [None] * len(rows.values), strict=True
        )

    def emit_side(self, tag_id, batch):
        rows = batch.to_rows() if isinstance(batch, Columns) else batch
        self.late += zip(map(plain, rows.values), rows.timestamps, strict=True)

    def emit_watermark(self, timestamp_ms):
        self.watermarks.append(timestamp_ms)

    def emit_status(self, status):
        pass


def plain(value):
    return tuple(value.values() if isinstance(value, dict) else value)


def batch_of(records, form, stamps=True):
    """The records `(key, number, timestamp)` as a batch."""
    times = [time for *_, time in records] if stamps else None
    if form == "columns":
        columns = [pa.array([record[place] for record in records], pa.int64()) for place in (0, 1)]
        data = pa.RecordBatch.from_arrays(columns, NAMES)
        return Columns(data, None if times is None else pa.array(times, pa.int64()))
    make = {
        "rows": lambda k, v: Row(k=k, v=v),
        "dicts": lambda k, v: {"k": k, "v": v},
        "tuples": lambda *pair: pair,
    }[form]
    return Rows([make(key, number) for key, number, _ in records], times)


def is_of(index, parallelism, key):
    return subtask_of(key_group(key, 128), 128, parallelism) == index


class Subtasks:
    """All subtasks of one operator; records go where their keys belong."""

    def __init__(self, spec, parallelism=1, *, batch=False):
        self.spec = spec
        self.time = EpochTime(0)
        self.batch = batch
        self.saved = None
        self.start(parallelism)

    def start(self, parallelism, states=()):
        """Begin, from what each subtask before had."""
        self.recorders = [Recorder() for _ in range(parallelism)]
        self.operators = [self.spec.build() for _ in range(parallelism)]
        for index, (operator, recorder) in enumerate(zip(self.operators, self.recorders, strict=True)):
            context = OperatorContext(
                job_id="job",
                name="it",
                operator_id="it",
                subtask_index=index,
                parallelism=parallelism,
                max_parallelism=128,
                attempt=0,
                time=self.time,
                keyed_state=HeapKeyedStateBackend(),
                side_outputs=frozenset({"late"}),
                batch=self.batch,
            )
            operator.setup(context, recorder)
            for snapshot, entries in states:
                owns = partial(is_of, index, parallelism)
                operator.restore_state(snapshot, RestoreScope(0, index, parallelism, owns))
                for name, held in entries.items():
                    own = [(namespace, key, entry) for (namespace, key), entry in held.items() if owns(key)]
                    operator.restore_entries(name, own)
            operator.open()

    def add(self, records, form="columns", stamps=True):
        count = len(self.operators)
        for index, operator in enumerate(self.operators):
            own = [each for each in records if is_of(index, count, each[0])]
            if own:
                operator.process(batch_of(own, form, stamps))
        return self.take()

    def watermark(self, timestamp_ms):
        for operator in self.operators:
            operator.process_watermark(timestamp_ms)
        return self.take()

    def clock(self, now_ms):
        self.time.now_ms = now_ms
        for operator in self.operators:
            operator.on_processing_time()
        return self.take()

    def take(self):
        """What came out since the last time: results, and late records."""
        taken = []
        for name in ("results", "late"):
            taken.append(sorted((item for each in self.recorders for item in getattr(each, name)), key=repr))
            for each in self.recorders:
                setattr(each, name, [])
        return tuple(taken)

    def dropped(self):
        """How many late records were dropped since the last time."""
        report = OperatorReport()
        for operator in self.operators:
            operator.end_epoch(report, checkpoint=False)
        return report.counters.get("numLateRecordsDropped", 0)

    def checkpoint(self):
        """Make a checkpoint: changes to the one before where operators know them, as the runtime does."""
        before = self.saved or [None] * len(self.operators)
        self.saved = [self._saved(*each) for each in zip(self.operators, before, strict=True)]

    def _saved(self, operator, before):
        changes = StateChanges(128)
        if before is not None and operator.changed_entries(changes):
            entries = pickle.loads(pickle.dumps(before[1]))
            for name, namespaces in changes.dropped.items():
                kept = entries.get(name, {})
                entries[name] = {place: entry for place, entry in kept.items() if place[0] not in namespaces}
            for patch in changes.patches.values():
                assert not patch.cleared
                for name, places in patch.removed.items():
                    for place in places:
                        entries.get(name, {}).pop(place, None)
                for name, changed in patch.changed.items():
                    entries.setdefault(name, {}).update(
                        {(space, key): entry for space, key, entry in changed}
                    )
        else:
            entries = {}
            for name, namespace, held in operator.snapshot_entries():
                entries.setdefault(name, {}).update({(namespace, key): entry for key, entry in held})
        saved = pickle.loads(pickle.dumps((operator.snapshot_state(), entries)))
        operator.forget_changes()
        return saved

    def restart(self, parallelism):
        """Make a checkpoint and begin anew from it."""
        self.checkpoint()
        states, self.saved = self.saved, None
        self.start(parallelism, states)
