"""Timestamps that are seconds, where milliseconds are expected."""

from __future__ import annotations

import logging

import pytest

from millstream.common import WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.runtime.control.views import WatermarkFact
from millstream.runtime.watermarks.advice import advise

IN_2023_S = 1_700_000_000


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())


@pytest.mark.parametrize(
    ("begin", "step", "warnings"),
    [(IN_2023_S, 1, 1), (IN_2023_S * 1000, 1000, 0), (0, 1_000_000, 0)],
)
def test_the_log_says_once_that_timestamps_look_like_seconds(new_environment, caplog, begin, step, warnings):
    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 100})
    stamps = environment.from_collection([begin + number * step for number in range(1_000)])
    stamps.assign_timestamps_and_watermarks(STRATEGY).map(lambda value: value).print()
    with caplog.at_level(logging.WARNING):
        environment.execute()
    assert caplog.text.count("seconds that are taken for milliseconds") == warnings
    if warnings:
        assert "timestamps are around 1970-01-20" in caplog.text
        assert "seconds * 1000" in caplog.text


def test_explain_watermark_names_it_and_says_what_to_do():
    fact = WatermarkFact(
        1, "Source: a", 0, "a-1", watermark_ms=IN_2023_S, event_time_ms=IN_2023_S, stamped=True
    )
    told = advise(
        fact,
        STRATEGY,
        is_source=True,
        holds_back=True,
        ahead_ms=IN_2023_S,
        smallest_window_ms=None,
        started_ms=IN_2023_S * 1000,
        now_ms=IN_2023_S * 1000,
    )
    assert "1970-01-20" in told.reason
    assert "as seconds it is 2023-11-14" in told.reason
    assert "seconds * 1000" in told.hint
