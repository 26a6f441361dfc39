"""The check of the flights job that both systems run: what is late on one of them counts like on the other."""

from __future__ import annotations

from programs.flights import figures_written, working_s

HOUR = ("hours", "UA,2013-01-01 05:00:00,2,20,18,1,100.5")
CANCELLED = ("cancelled", "2013-01-01 05:30:00,,UA,1545,EWR,IAH")


def test_a_late_flight_is_added_to_its_hour():
    late = ("late", "2013-01-01 05:40:00,16,UA,1714,LGA,IAH")
    together = ("hours", "UA,2013-01-01 05:00:00,3,36,18,2,101.0")
    assert set(figures_written([HOUR, late, CANCELLED], 4)) == set(figures_written([together, CANCELLED], 4))


def test_a_late_flight_whose_hour_had_no_other_makes_an_hour():
    late = ("late", "2013-01-01 07:40:00,-3,AA,1141,JFK,MIA")
    alone = ("hours", "AA,2013-01-01 07:00:00,1,-3,-3,0,102.5")
    assert set(figures_written([HOUR, late], 3)) == set(figures_written([HOUR, alone], 3))


def test_a_flight_that_is_missing_shows():
    assert set(figures_written([HOUR, CANCELLED], 3)) != set(figures_written([HOUR], 3))


def test_the_job_worked_from_the_first_hour_that_was_told_to_the_last():
    later = ("hours", "AA,2013-01-01 07:00:00,1,-3,-3,0,102.5")
    assert working_s([later, CANCELLED, HOUR]) == 2.0
