"""Watermark alignment in a whole job: a source whose event time runs ten times as fast waits for the other."""

from __future__ import annotations

from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream.connectors.datagen import DataGeneratorSource


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def largest_lead(environment, strategy):
    """Return how far the fast source was ahead of the slow one, in seconds, and all that was read."""
    fast = DataGeneratorSource(lambda index: ("fast", 10_000 * index), 30)
    slow = DataGeneratorSource(lambda index: ("slow", 1_000 * index), 300)
    streams = [environment.from_source(source, strategy, "source") for source in (fast, slow)]
    with streams[0].union(streams[1]).execute_and_collect() as results:
        arrived = list(results)
    newest, lead = {"fast": 0, "slow": 0}, 0
    for name, stamp in arrived:
        newest[name] = stamp
        lead = max(lead, newest["fast"] - newest["slow"])
    return lead // 1000, sorted(arrived)


def test_source_that_is_ahead_waits_and_nothing_is_lost(new_environment):
    options = {"millstream.epoch.fixed-records": 1}
    alone = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    aligned = alone.with_watermark_alignment("group", Duration.of_seconds(20))
    free_lead, everything = largest_lead(new_environment("local", 1, options), alone)
    lead, also_everything = largest_lead(new_environment("local", 1, options), aligned)
    assert free_lead > 200
    # The drift, and one epoch of one record on top.
    assert 20 <= lead <= 31
    assert also_everything == everything
