"""Programs with columns: keys by name, functions of batches, aggregates by expression."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common import Configuration, Duration, Row, Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import OutputTag, StreamExecutionEnvironment
from millstream.datastream.expressions import (
    Aggregate,
    count,
    first,
    last,
    max,
    mean,
    min,
    quantile,
    sum,
    sum_,
)
from millstream.datastream.functions import KeyedBatchFunction
from millstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class Sale(NamedTuple):
    shop: str
    user: int
    price: float
    time: int


SALES = [Sale("abc"[n % 3], n % 7, n / 4, n * 10 + (n % 4) * -25) for n in range(400)]
FORMS = {
    "named tuples": lambda sale: sale,
    "dicts": lambda sale: sale._asdict(),
    "rows": lambda sale: Row(**sale._asdict()),
}
TYPE = Types.ROW_NAMED(
    ["shop", "user", "price", "time"], [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.LONG()]
)


def environment(parallelism=2, **options):
    settings = {"execution.target": "local", **options}
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(settings)
    ).set_parallelism(parallelism)


def collected(stream):
    with stream.execute_and_collect() as results:
        return [tuple(row) for row in results]


def sales(env, form="rows"):
    return env.from_collection(list(map(FORMS[form], SALES)))


class SaleTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["time"] if isinstance(value, dict) else value.time


TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SaleTime())


def totals(keys):
    made: dict = {}
    for sale in SALES:
        made.setdefault(tuple(getattr(sale, key) for key in keys), []).append(sale.price)
    return {(*key, builtin_sum(prices), len(prices)) for key, prices in made.items()}


def builtin_sum(numbers):
    total = 0
    for number in numbers:
        total += number
    return total


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keys", [("user",), ("shop", "user")])
def test_running_aggregates_end_with_those_of_all_records(form, keys):
    stream = sales(environment(), form).key_by(*keys).aggregate(total=sum_("price"), n=count())
    last_of_each = {row[: len(keys)]: row for row in collected(stream)}
    assert set(last_of_each.values()) == totals(keys)


@pytest.mark.parametrize("records_in_batch", [1, 2, 10])
def test_decimals_are_added_whatever_digits_those_of_a_batch_have(records_in_batch):
    prices = [Decimal(text) for text in ("1.5", "10.55", "3", "0.125", "1000", "-7.75")]
    env = environment(1, **{"millstream.epoch.fixed-records": records_in_batch})
    stream = env.from_collection([Row(k=1, v=price) for price in prices]).key_by("k")
    *_, (key, total, typical) = collected(stream.aggregate(total=sum_("v"), typical=mean("v")))
    expected = math.fsum(prices)  # exact: these have few digits
    assert (key, float(total), typical) == (1, expected, expected / len(prices))


def test_in_batch_mode_only_the_last_ones_come():
    env = environment(**{"execution.runtime-mode": "BATCH"})
    rows = collected(sales(env).key_by("shop", "user").aggregate(total=sum_("price"), n=count()))
    assert len(rows) == len(set(rows)) and set(rows) == totals(("shop", "user"))


def test_a_declared_type_names_the_fields_of_tuples():
    env = environment()
    tuples = env.from_collection([tuple(sale) for sale in SALES], TYPE)
    rows = collected(tuples.key_by("shop").aggregate(total=sum_("price"), n=count()))
    assert set({row[0]: row for row in rows}.values()) == totals(("shop",))
    plain = env.from_collection([(1, 2.0), (1, 3.0)], Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
    assert collected(plain.key_by("f0").aggregate(total=sum_("f1")))[-1] == (1, 5.0)


def windows(size, slide):
    model: dict = {}
    for sale in SALES:
        newest = sale.time - sale.time % slide
        for start in range(newest, sale.time - size, -slide):
            model.setdefault((sale.user, start, start + size), []).append(sale.price)
    return {(*key, builtin_sum(prices), len(prices), prices[0]) for key, prices in model.items()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("assigner", "size", "slide"),
    [(TumblingEventTimeWindows.of(300), 300, 300), (SlidingEventTimeWindows.of(300, 100), 300, 100)],
)
def test_windows_give_one_row_for_each_key_and_window(form, assigner, size, slide):
    stream = sales(environment(), form).assign_timestamps_and_watermarks(TIMED)
    late = OutputTag("late")
    results = stream.key_by("user").window(assigner).allowed_lateness(100_000).side_output_late_data(late)
    rows = collected(results.aggregate(total=sum("price"), n=count(), first=first("price")))
    latest = {row[:3]: row for row in rows}  # late records make a window fire again
    assert {row[:-1] for row in latest.values()} == {row[:-1] for row in windows(size, slide)}


def sessions(sales, gap):
    model: list = []
    for sale in sorted(sales, key=lambda sale: sale.time):
        if model and sale.time <= model[-1][1]:
            model[-1] = (model[-1][0], sale.time + gap, [*model[-1][2], sale.price])
        else:
            model.append((sale.time, sale.time + gap, [sale.price]))
    return [(start, end, builtin_sum(prices), len(prices)) for start, end, prices in model]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gap", [30, 75])
def test_sessions_give_one_row_for_each_key_and_session(form, gap):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    timed = sales(environment(), form).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner("time")
    )
    results = timed.key_by("user").window(EventTimeSessionWindows.with_gap(gap))
    rows = collected(results.aggregate(total=sum("price"), n=count()))
    expected = [
        (user, *session)
        for user in range(7)
        for session in sessions([sale for sale in SALES if sale.user == user], gap)
    ]
    assert sorted(map(tuple, rows)) == expected


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_windows_of_all_records_give_one_row_each(mode):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    timed = sales(environment(3, **{"execution.runtime-mode": mode})).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner("time")
    )
    results = timed.window_all(TumblingEventTimeWindows.of(500)).aggregate(total=sum("price"), n=count())
    model: dict = {}
    for sale in SALES:
        model.setdefault(sale.time // 500 * 500, []).append(sale.price)
    expected = [(start, start + 500, builtin_sum(model[start]), len(model[start])) for start in sorted(model)]
    assert collected(results) == expected
    by_session = timed.window_all(EventTimeSessionWindows.with_gap(12)).aggregate(
        total=sum("price"), n=count()
    )
    assert collected(by_session) == sessions(SALES, 12)


@pytest.mark.parametrize("form", FORMS)
def test_windows_of_so_many_records_give_one_row_each(form):
    keyed = sales(environment(), form).key_by("user").count_window(9)
    rows = collected(keyed.aggregate(total=sum("price"), first=first("price")))
    expected = []
    for user in range(7):
        prices = [sale.price for sale in SALES if sale.user == user]
        for number in range(len(prices) // 9):
            held = prices[number * 9 : (number + 1) * 9]
            expected.append((user, number, builtin_sum(held), held[0]))
    assert sorted(map(tuple, rows)) == expected
    of_all = collected(
        sales(environment(), form).count_window_all(150).aggregate(n=count(), last=last("price"))
    )
    assert of_all == [(0, 150, SALES[149].price), (1, 150, SALES[299].price)]


def test_windows_of_all_records_are_of_one_subtask():
    windows = sales(environment(3)).window_all(TumblingEventTimeWindows.of(500))
    with pytest.raises(ConfigurationError, match="parallelism"):
        windows.aggregate(n=count()).set_parallelism(2)


@pytest.mark.parametrize("combine", ["ALWAYS", "NEVER", "AUTO"])
@pytest.mark.parametrize("held", [None, 7])
def test_windows_are_the_same_whether_they_begin_before_the_exchange(combine, held):
    options = {} if held is None else {"millstream.epoch.hold-after": held}
    env = environment(3, **{"millstream.exchange.combine": combine, **options})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    timed = sales(env).map_batches(lambda batch: batch).set_parallelism(2)
    timed = timed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner("time"))
    results = timed.key_by("shop").window(SlidingEventTimeWindows.of(300, 100))
    rows = collected(results.aggregate(n=count(), users=sum("user"), dearest=max("price"), mean=mean("user")))
    model: dict = {}
    for sale in SALES:
        for start in range(sale.time - sale.time % 100, sale.time - 300, -100):
            model.setdefault((sale.shop, start, start + 300), []).append(sale)
    assert sorted(rows) == sorted(
        (
            *window,
            len(held),
            builtin_sum(sale.user for sale in held),
            sorted(sale.price for sale in held)[-1],
            builtin_sum(sale.user for sale in held) / len(held),
        )
        for window, held in model.items()
    )


def test_the_option_for_combining_is_checked():
    with pytest.raises(ConfigurationError, match="millstream.exchange.combine"):
        collected(sales(environment(**{"millstream.exchange.combine": "SOON"})))


def test_results_are_rows_with_names_and_times():
    stream = sales(environment(1)).assign_timestamps_and_watermarks(TIMED).key_by("shop")
    results = stream.window(TumblingEventTimeWindows.of(100_000)).aggregate(
        low=min("price"),
        high=max("price"),
        typical=mean("price"),
        end=last("time"),
        middle=quantile("price", 0.5),
    )
    with results.execute_and_collect() as rows:
        rows = [row for row in rows if row.window_start == 0]  # some records are before 1970
    names = ["shop", "window_start", "window_end", "low", "high", "typical", "end", "middle"]
    assert [row._fields for row in rows] == [tuple(names)] * 3
    of_a = next(row for row in rows if row.shop == "a")
    assert (of_a.low, of_a.high, of_a.window_end) == (0.0, 99.75, 100_000)
    assert abs(of_a.middle - 49.5) < 0.5


def test_functions_of_batches_in_a_program():
    def marked(frame: pd.DataFrame):  # the annotation is a text, of a name that the function does not use
        return frame.assign(mark=1)

    stream = (
        sales(environment())
        .map_batches(marked)
        .filter_batches(lambda batch: pc.greater_equal(batch["price"], 50.0))
    )
    doubled = stream.map_batches(lambda batch: batch.append_column("twice", pc.multiply(batch["price"], 2)))
    rows = collected(doubled.map(lambda row: (row.price, row.twice)))
    assert sorted(rows) == sorted((sale.price, sale.price * 2) for sale in SALES if sale.price >= 50)


class CountUsers(KeyedBatchFunction):
    def process_batch(self, batch: pa.RecordBatch, ctx):
        return {"group": [ctx.key_group], "rows": [batch.num_rows]}


def test_process_batches_in_a_program():
    rows = collected(sales(environment()).key_by("user").process_batches(CountUsers()))
    assert builtin_sum(count for _, count in rows) == len(SALES)


def test_keys_by_name_are_keys_for_all_functions():
    stream = sales(environment()).key_by("shop", "user").map(lambda sale: (sale.shop, sale.user, sale.price))
    reduced = sales(environment()).key_by("shop").reduce(lambda a, b: a if a.price > b.price else b)
    assert len(collected(stream)) == len(SALES)
    assert {row[0]: row for row in collected(reduced)}["a"] == (*SALES[399],)


class TooFew(KeyedBatchFunction):
    def process_batch(self, batch): ...


class Opened:
    def __call__(self, batch): ...


def test_what_cannot_be_is_refused_where_it_is_declared():
    stream = sales(environment())
    keyed, by_function = stream.key_by("user"), stream.key_by(lambda sale: sale.user)
    tumbling = TumblingEventTimeWindows.of(10)
    declared = stream.map(Row, Types.ROW_NAMED(["shop", "price"], [Types.STRING(), Types.DOUBLE()]))
    for call, error, message in (
        (lambda: by_function.aggregate(n=count()), ConfigurationError, "key is a function's result"),
        (
            lambda: by_function.window(tumbling).aggregate(n=count()),
            ConfigurationError,
            "key is a function's result",
        ),
        (lambda: by_function.process_batches(CountUsers()), ConfigurationError, "key is a function's result"),
        (
            lambda: keyed.process_batches(len),
            TypeMismatchError,
            "not a KeyedBatchFunction\nHint: Derive a class",
        ),
        (
            lambda: keyed.process_batches(CountUsers),
            TypeMismatchError,
            r"not a KeyedBatchFunction\nHint: Give it an object of the class: CountUsers\(\)",
        ),
        (
            lambda: keyed.process_batches(TooFew()),
            TypeMismatchError,
            "cannot be called with a batch and a context",
        ),
        (lambda: keyed.aggregate(), TypeMismatchError, "aggregate was given nothing to compute"),
        (
            lambda: keyed.window(tumbling).aggregate(),
            TypeMismatchError,
            "aggregate was given nothing to compute",
        ),
        (lambda: keyed.aggregate(user=count()), ConfigurationError, "name of another column"),
        (lambda: keyed.aggregate(n=len), TypeMismatchError, "not an aggregate"),
        (lambda: keyed.window(tumbling).aggregate(window_end=count()), ConfigurationError, "name of another"),
        (
            lambda: keyed.window(EventTimeSessionWindows.with_dynamic_gap(len)).aggregate(n=count()),
            NotSupportedError,
            "DynamicEventTimeSessionWindows",
        ),
        (
            lambda: stream.window_all(GlobalWindows.create()).aggregate(n=count()),
            NotSupportedError,
            "GlobalWindows",
        ),
        (
            lambda: keyed.window(tumbling).evictor(CountEvictor.of(3)).aggregate(n=count()),
            NotSupportedError,
            "trigger or an evictor",
        ),
        (
            lambda: keyed.count_window(4, 2).aggregate(n=count()),
            NotSupportedError,
            "CountSlidingWindowAssigner",
        ),
        (
            lambda: keyed.count_window(4).trigger(CountTrigger.of(3)).aggregate(n=count()),
            NotSupportedError,
            "trigger or an evictor",
        ),
        (lambda: keyed.count_window(4).aggregate(window_id=count()), ConfigurationError, "name of another"),
        (
            lambda: stream.window_all(tumbling).aggregate(window_start=count()),
            ConfigurationError,
            "name of another",
        ),
        (
            lambda: keyed.window(tumbling).trigger(CountTrigger.of(3)).aggregate(n=count()),
            NotSupportedError,
            "trigger or an evictor",
        ),
        (lambda: keyed.window(tumbling).aggregate(len, n=count()), TypeMismatchError, "one or the other"),
        (lambda: stream.map_batches(5), TypeMismatchError, "not a function of a batch"),
        (lambda: stream.filter_batches(dict), TypeMismatchError, "not a function of a batch"),
        (lambda: stream.key_by("a", 5), TypeMismatchError, "5"),
        (lambda: stream.key_by(len, "a"), TypeMismatchError, "one or the other"),
        (lambda: stream.map_batches(Opened), TypeMismatchError, "was given the class Opened, not a function"),
        (lambda: stream.map_batches(CountUsers()), TypeMismatchError, "not a function of a batch"),
        (lambda: stream.map_batches(len, timestamp=5), TypeMismatchError, "was given 5 as timestamp"),
        (lambda: keyed.process_batches(CountUsers(), timestamp=5), TypeMismatchError, "5 as timestamp"),
        (lambda: declared.key_by("shop", "usr"), TypeMismatchError, "key_by names the field 'usr'"),
        (
            lambda: declared.key_by("shop").aggregate(n=count("prize")),
            TypeMismatchError,
            r"n=count\(prize\) names the field 'prize', which the records do not have",
        ),
        (
            lambda: declared.key_by("shop").window(tumbling).aggregate(n=count("prize")),
            TypeMismatchError,
            "names the field 'prize'",
        ),
        (lambda: sum_(3), TypeMismatchError, "sum was given 3"),
        (lambda: quantile("a", "x"), ConfigurationError, "quantile 'x'"),
        (lambda: quantile("a", 1.5), ConfigurationError, "quantile 1.5"),
        (lambda: quantile("a", 0.5, 0), ConfigurationError, "relative error of 0"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert str(quantile("a", 0.25)) == "quantile(a, 0.25, 0.01)" and isinstance(count(), Aggregate)


@pytest.mark.parametrize(
    ("records", "aggregate", "message"),
    [
        ([Row(k=1, v=2)], sum_("w"), "no field 'w'"),
        ([Row(k=1, v="x")], sum_("v"), "sum"),
        ([Row(k=1, v=2**62)] * 3, sum_("v"), "more than 64 bits hold"),
        ([Row(k=1, v="x"), Row(k=1, v=1)], last("v"), "'v'"),
        ([(1, 2)], sum_("v"), "has no field"),
        ([Row(k=1, v=Decimal("9" * 38))] * 2, sum_("v"), "sum(v) is more than decimal128(38, 0) holds"),
        ([Row(k=1, v=[1])], min("v"), "min(v) was asked of values of type list<item: int64>"),
        ([Row(k=1, v=Row(a=1))], max("v"), "max(v) was asked of values of type struct<a: int64>"),
    ],
)
def test_records_that_do_not_fit_fail_the_job_in_the_users_words(records, aggregate, message):
    with pytest.raises(Exception) as raised:
        collected(environment(1).from_collection(records).key_by("k").aggregate(total=aggregate))
    assert message in "".join(map(str, [raised.value, raised.value.__cause__]))
