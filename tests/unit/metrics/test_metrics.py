from __future__ import annotations

import pickle
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError
from millstream.metrics import Counter, Distribution, Histogram, MetricGroup
from millstream.metrics.groups import MetricKind, MetricName, RateWindow


class Time:
    now_ms = 0

    def __call__(self):
        return self.now_ms


def values(group):
    return {".".join(name.path): value.value for name, value in group.collect_changes().items()}


def test_a_counter_goes_up_and_down():
    counter = MetricGroup(Time()).counter("c")
    counter.inc()
    counter.inc(5)
    counter.dec()
    counter.dec(2)
    assert counter.get_count() == 3


def test_a_name_gives_the_same_metric_again():
    group = MetricGroup(Time())
    assert group.counter("c") is group.counter("c")
    assert group.meter("m") is group.meter("m")
    assert group.distribution("d") is group.distribution("d")
    assert group.histogram("h") is group.histogram("h")
    assert group.counter("c") is not group.add_group("g").counter("c")


def test_a_name_that_is_taken_by_another_kind_is_refused():
    group = MetricGroup(Time())
    group.add_group("g").counter("x")
    with pytest.raises(ConfigurationError, match='"g.x" was asked for as a Meter') as failure:
        group.add_group("g").meter("x")
    assert failure.value.detail == "It is a Counter already."


@pytest.mark.parametrize(
    "make",
    [
        lambda group: group.meter("m", 0),
        lambda group: group.histogram("h", -1),
        lambda group: group.gauge("g", 5),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make):
    with pytest.raises(ConfigurationError):
        make(MetricGroup(Time()))


def test_groups_nest_and_key_value_groups_are_variables_as_well():
    group = MetricGroup(Time())
    group.add_group("a").add_group("shop", "7").add_group("b").counter("c").inc()
    assert list(group.collect_changes()) == [MetricName(("a", "shop", "7", "b", "c"), (("shop", "7"),))]
    assert group.add_group("a").add_group("shop", "7").get_scope_components() == ("a", "shop", "7")


def test_only_what_has_changed_is_reported():
    group = MetricGroup(Time())
    counter, still = group.counter("c"), group.counter("still")
    histogram, level = group.histogram("h"), [1]
    group.gauge("g", lambda: level[0])
    assert values(group) == {"c": 0, "still": 0, "h": (0, {}), "g": 1}
    assert values(group) == {}
    counter.inc()
    assert values(group) == {"c": 1}
    level[0] = 2
    histogram.update(1.5)
    changes = values(group)
    assert changes["g"] == 2
    assert changes["h"][0] == 1
    assert set(changes) == {"g", "h"}
    still.inc()
    still.dec()
    assert values(group) == {}


def test_a_group_without_metrics_reports_nothing():
    group = MetricGroup(Time())
    group.add_group("g")
    assert group.collect_changes() == {}


def test_a_gauge_that_raises_is_logged_once_by_name_and_the_others_are_reported(caplog):
    group, broken = MetricGroup(Time()), [True]

    def ask():
        if broken[0]:
            raise ZeroDivisionError
        return 5

    group.add_group("g").gauge("bad", ask)
    group.counter("c").inc()
    assert values(group) == {"c": 1}
    assert values(group) == {}
    assert [record.getMessage() for record in caplog.records] == ['metric "g.bad" could not be read']
    broken[0] = False
    assert values(group) == {"g.bad": 5}


def test_a_gauge_may_be_replaced():
    group = MetricGroup(Time())
    group.gauge("g", lambda: 1)
    group.gauge("g", lambda: 2)
    assert values(group) == {"g": 2}


class Level:
    def __repr__(self):
        return "level"


@pytest.mark.parametrize(
    ("value", "reported"), [(True, True), ("x", "x"), (None, None), (2.5, 2.5), (Level(), "level")]
)
def test_a_gauge_is_reported_as_plain_data(value, reported):
    group = MetricGroup(Time())
    group.gauge("g", lambda: value)
    (found,) = group.collect_changes().values()
    assert pickle.loads(pickle.dumps(found)) == (MetricKind.GAUGE, reported)


def test_a_meter_counts_events_and_gives_the_rate_of_its_span():
    #   time    0    10   20   30 s       span 20 s
    #   events  40        20
    now = Time()
    meter = MetricGroup(now).meter("m", 20)
    meter.mark_event(40)
    assert meter.get_rate() == 2.0
    now.now_ms = 19_000
    assert meter.get_rate() == 2.0
    now.now_ms = 20_000
    meter.mark_event()
    meter.mark_event(19)
    assert meter.get_count() == 60
    assert meter.get_rate() == 1.0
    now.now_ms = 40_000
    assert meter.get_rate() == 0.0


@given(
    events=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 100)), max_size=60),
    later=st.integers(0, 5_000),
)
def test_a_rate_window_gives_the_events_of_the_span_by_its_hundredth(events, later):
    window, now_ms, count, history = RateWindow(span_s=10), 0, 0, []
    for pause_ms, number in events:
        now_ms, count = now_ms + pause_ms, count + number
        history.append((now_ms, number))
        window.record(now_ms, count)
    now_ms += later
    rate = window.rate(now_ms)

    def marked(begin_ms):
        return sum(number for at_ms, number in history if begin_ms < at_ms <= now_ms) / 10

    # Samples closer than a hundredth of the span are kept as one, at the time of the last.
    assert marked(now_ms - 10_000) <= rate + 1e-9
    assert rate <= marked(now_ms - 10_000 - 200) + 1e-9


@given(st.lists(st.integers(-(10**6), 10**6), max_size=50))
def test_a_distribution_keeps_sum_count_and_extremes(numbers):
    distribution = Distribution()
    for number in numbers:
        distribution.update(number)
    expected = (sum(numbers), len(numbers), min(numbers, default=None), max(numbers, default=None))
    assert distribution.sample().value == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50), st.integers(2, 20))
def test_a_histogram_gives_statistics_of_its_last_values(numbers, size):
    histogram = Histogram(size)
    for number in numbers:
        histogram.update(number)
    last, found = sorted(numbers[-size:]), histogram.get_statistics()
    assert histogram.get_count() == len(numbers)
    assert (found.size(), found.get_min(), found.get_max()) == (len(last), last[0], last[-1])
    assert found.get_mean() == pytest.approx(statistics.mean(last), abs=1e-6)
    assert found.get_std_dev() == pytest.approx(statistics.stdev(last), abs=1e-6)
    for quantile in (0.01, 0.5, 0.75, 0.99, 1.0):
        value = found.get_quantile(quantile)
        assert sum(each <= value for each in last) >= quantile * len(last)
        assert sum(each < value for each in last) < quantile * len(last)


def test_a_histogram_without_values_has_no_figures():
    found = Histogram(10).get_statistics()
    assert (found.size(), found.get_std_dev()) == (0, 0.0)
    assert found.get_quantile(0.5) != found.get_quantile(0.5)
    assert Histogram(10).sample().value == (0, {})


def test_what_is_reported_pickles():
    group = MetricGroup(Time())
    group.counter("c")
    group.meter("m")
    group.distribution("d").update(1)
    group.histogram("h").update(1)
    changes = dict(group.collect_changes())
    assert pickle.loads(pickle.dumps(changes)) == changes


def test_a_counter_stands_for_itself():
    assert Counter().sample() == (MetricKind.COUNTER, 0)
