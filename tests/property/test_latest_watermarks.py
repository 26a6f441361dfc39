"""Watermarks behind each record that is the latest so far: the same from rows and columns, however they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.base.time import Duration
from millstream.common import WatermarkStrategy
from millstream.operators.base import EpochTime
from millstream.operators.watermarks import SplitWatermarks
from millstream.spi.batch import Columns, Rows, Watermark
from millstream.testing.recorder import Record, Recorder
from millstream.types.row import rows_of

BOUND_MS = 5


def emitted(stamps, cuts, forms):
    """Return what becomes of records with these times, in batches that end at `cuts`."""
    bound = Duration.of_millis(BOUND_MS)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound, each_record=True)
    split, output = SplitWatermarks(strategy.with_timestamp_assigner("time"), EpochTime()), Recorder()
    told = None

    def advanced():
        nonlocal told
        if split.watermark_ms == told:
            return None
        told = split.watermark_ms
        return told

    bounds = [0, *sorted(set(cuts)), len(stamps)]
    for first, last, form in zip(bounds, bounds[1:], forms, strict=False):
        batch = Rows(rows_of(("time",), [(stamp,) for stamp in stamps[first:last]]))
        split.process(Columns.from_rows(batch) if form and len(batch) else batch, output, advanced)
    return [
        each.timestamp if isinstance(each, Record) else Watermark(each.timestamp_ms)
        for each in output.elements
    ]


@given(st.data())
def test_a_watermark_stands_behind_each_record_that_is_the_latest(data):
    stamps = data.draw(st.lists(st.integers(-20, 40), min_size=1, max_size=30))
    cuts = data.draw(st.lists(st.integers(1, len(stamps)), max_size=4))
    forms = data.draw(st.lists(st.booleans(), min_size=6, max_size=6))
    wanted, latest = [], None
    for stamp in stamps:
        wanted.append(stamp)
        if latest is None or stamp > latest:
            latest = stamp
            wanted.append(Watermark(stamp - BOUND_MS - 1))
    assert emitted(stamps, cuts, forms) == wanted
