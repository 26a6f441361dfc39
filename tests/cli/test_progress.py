import io

from millstream.base.clock import ManualClock
from millstream.cli.progress import ProgressMeter, showing_progress
from millstream.graph.launcher import EpochProgress, current_progress_listener


class Terminal(io.StringIO):
    def isatty(self):
        return True


def report(epoch, records, elapsed_s, watermark_ms=None):
    return EpochProgress(epoch, records, 1_357_017_300_000, watermark_ms, elapsed_s=elapsed_s, epoch_s=0.1)


def test_throughput_is_that_of_the_last_seconds():
    meter = ProgressMeter()
    for epoch, second in enumerate(range(1, 11), 1):
        meter.update(report(epoch, 1000 if second <= 5 else 1000 + (second - 5) * 50, float(second)))
    assert meter.records_per_second() == 50.0


def test_next_job_of_a_program_starts_over():
    meter = ProgressMeter()
    meter.update(report(9, 1_000_000, 50.0))
    meter.update(report(1, 10, 1.0))
    assert meter.records_per_second() == 10.0


def test_lines_are_spaced_and_the_last_report_is_always_written():
    stream, clock = io.StringIO(), ManualClock(0)
    with showing_progress(wanted=True, stream=stream, clock=clock):
        listener = current_progress_listener()
        for epoch in range(1, 6):
            listener(report(epoch, epoch * 10, epoch * 0.5))
            clock.advance(500)
    lines = stream.getvalue().splitlines()
    assert [line.split("epochs ")[1].split()[0] for line in lines] == ["1", "5"]
    assert "records 50  event time 2013-01-01 05:15:00  watermark -" in lines[-1]
    assert current_progress_listener() is None


def test_nothing_is_shown_on_a_stream_that_is_no_terminal_unless_asked():
    stream = io.StringIO()
    with showing_progress(wanted=None, stream=stream):
        assert current_progress_listener() is None
    with showing_progress(wanted=False, stream=Terminal()):
        assert current_progress_listener() is None
    assert stream.getvalue() == ""


def test_terminal_shows_the_last_report_when_the_job_has_ended():
    stream = Terminal()
    with showing_progress(wanted=None, stream=stream):
        current_progress_listener()(report(1, 10, 1.0))
        current_progress_listener()(report(2, 336_776, 2.0, watermark_ms=2**63 - 1))
    assert "336,776" in stream.getvalue()
    assert "end" in stream.getvalue()
