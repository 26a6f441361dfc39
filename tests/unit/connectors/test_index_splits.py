"""Splits of indices: all that a subtask owns hold event time back from the start."""

from millstream.common import WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.index_splits import IndexEnumerator, IndexReader
from millstream.datastream.functions import ProcessFunction
from millstream.spi.batch import Rows
from millstream.spi.source import Boundedness, PlanRequest, RangeEnd, Source


def plan(enumerator: IndexEnumerator, records: int):
    planned = enumerator.plan(PlanRequest(parallelism=1, max_records=records, now_ms=0))
    return [(each.split_id, each.start, each.stop) for each in planned.ranges[0]]


def test_splits_that_the_budget_does_not_reach_are_open_too():
    enumerator = IndexEnumerator([], 1, [("0", range(10), 4), ("1", range(10, 20), 4)])
    assert plan(enumerator, 3) == [("0", 4, 7), ("1", 4, 4)]
    enumerator.advance([RangeEnd("0", 7, False, 3), RangeEnd("1", 4, False, 0)])
    assert plan(enumerator, 5) == [("0", 7, 10), ("1", 4, 6)]


class TwoSplits(Source):
    """0 to 99 twice, as a subtask has them that goes on with the splits of two."""

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        return IndexEnumerator([range(100), range(100)], parallelism, restored)

    def build_reader(self, subtask_index, parallelism):
        return IndexReader(lambda indices: Rows(list(indices)))


class Itself(TimestampAssigner):
    """A record is its own time."""

    def extract_timestamp(self, value, record_timestamp):
        return value


class Lateness(ProcessFunction):
    """Tells of each record whether the watermark had passed it."""

    def process_element(self, value, ctx):
        yield ctx.timer_service().current_watermark() >= ctx.timestamp()


def test_what_is_read_of_one_split_does_not_make_the_next_one_late(new_environment):
    env = new_environment("local", 1, {"millstream.epoch.fixed-records": 10})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    late = env.from_source(TwoSplits(), strategy, "numbers").process(Lateness())
    assert list(late.execute_and_collect()) == [False] * 200
