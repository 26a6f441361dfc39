from __future__ import annotations

import io

from millstream.base.clock import ManualClock
from millstream.cli.verify_progress import SeedProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, seeds, seconds_each):
    clock = ManualClock(0)
    progress = SeedProgress(seeds, stream, clock)
    progress.begin()
    for done in range(1, seeds + 1):
        clock.advance(int(seconds_each * 1000))
        progress.advance(done, failures=done // 10)
    progress.end()
    return stream.getvalue()


def test_where_there_is_no_terminal_a_line_comes_every_ten_seconds():
    assert shown(io.StringIO(), 30, 1).splitlines() == [
        "  10 of 30 seeds, 1 failed; 20 s left",
        "  20 of 30 seeds, 2 failed; 10 s left",
    ]


def test_short_runs_say_nothing():
    assert shown(io.StringIO(), 90, 0.1) == ""


def test_terminal_has_a_bar_that_is_gone_at_the_end():
    text = shown(Terminal(), 30, 1)
    assert "15/30" in text
    assert "15 s left" in text
    assert "\x1b[2K" in text  # taken away


def test_one_seed_has_no_bar():
    assert shown(Terminal(), 1, 1) == ""
