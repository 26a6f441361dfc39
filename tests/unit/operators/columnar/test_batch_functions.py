"""Functions of batches: what they are given, what they may return, timestamps, state."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.base.errors import ConfigurationError, StateAccessError, TypeMismatchError
from millstream.common.batch_functions import KeyedBatchFunction
from millstream.common.functions import Function
from millstream.common.state import ValueStateDescriptor
from millstream.operators.base import EpochTime, OperatorContext, Output
from millstream.operators.columnar import forms
from millstream.operators.columnar.functions import FilterBatchesSpec, MapBatchesSpec, ProcessBatchesSpec
from millstream.operators.user_code import attached_element
from millstream.spi.batch import Columns, Rows
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.key_groups import key_group
from millstream.types.row import Row
from millstream.types.typeinfo import Types

DATA = pa.RecordBatch.from_pydict({"k": [1, 2, 1], "v": [1.5, 2.5, None]})
STAMPS = pa.array([10, 30, 20], pa.int64())


class Recorder(Output):
    def __init__(self):
        self.batches = []

    def emit(self, batch):
        self.batches.append(batch)

    def emit_side(self, tag_id, batch): ...

    def emit_watermark(self, timestamp_ms): ...

    def emit_status(self, status): ...


def run(spec, *batches):
    """What the operator of a spec emits for some batches."""
    operator, recorder = spec.build(), Recorder()
    context = OperatorContext("job", "it", "it", 0, 1, 128, 0, EpochTime(0), HeapKeyedStateBackend())
    operator.setup(context, recorder)
    operator.open()
    for batch in batches:
        operator.process(batch)
    operator.close()
    return recorder.batches


def mapped(function, batch=None, **options):
    spec = MapBatchesSpec(function, forms.form_of(function), **options)
    (result,) = run(spec, batch or Columns(DATA, STAMPS))
    return result


def of_record_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    assert type(batch) is pa.RecordBatch
    return batch.set_column(1, "v", pc.multiply(batch["v"], 2))


def of_table(table: pa.Table) -> pa.Table:
    assert type(table) is pa.Table
    return table.set_column(1, "v", pc.multiply(table["v"], 2))


def of_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    assert type(frame) is pd.DataFrame
    return frame.assign(v=frame.v * 2)


def of_arrays(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    assert type(columns["v"]) is np.ndarray
    return {**columns, "v": columns["v"] * 2}


def of_anything(batch: Any):
    assert type(batch) is pa.RecordBatch
    return of_arrays({name: batch[name].to_numpy(zero_copy_only=False) for name in batch.schema.names})


@pytest.mark.parametrize("function", [of_record_batch, of_table, of_pandas, of_arrays, of_anything])
def test_a_function_gets_the_form_that_it_is_annotated_with_and_returns_any(function):
    result = mapped(function)
    assert result.data["k"].to_pylist() == [1, 2, 1]
    assert [None if v is None or v != v else v for v in result.data["v"].to_pylist()] == [3.0, 5.0, None]
    assert result.timestamps == STAMPS


def test_polars_frames_come_and_go():
    polars = pytest.importorskip("polars")

    def of_polars(frame):
        assert type(frame) is polars.DataFrame
        return frame.with_columns(v=polars.col("v") * 2, name=polars.lit("x"))

    of_polars.__annotations__["frame"] = polars.DataFrame
    result = mapped(of_polars)
    assert result.data.to_pydict() == {"k": [1, 2, 1], "v": [3.0, 5.0, None], "name": ["x"] * 3}
    assert result.data.schema.field("name").type == pa.string()


def test_records_as_objects_are_made_columns():
    expected = {"k": [2, 3], "v": ["a", None]}
    seen = []
    for values in (
        [Row(k=2, v="a"), Row(v=None, k=3)],
        [{"k": 2, "v": "a"}, {"v": None, "k": 3}],
    ):
        mapped(lambda batch: seen.append(batch.to_pydict()) or batch, Rows(values))
    mapped(
        lambda batch: seen.append(batch.to_pydict()) or batch, Rows([(2, "a"), (3, None)]), names=("k", "v")
    )
    assert seen == [expected] * 3
    mapped(lambda batch: seen.append(batch.to_pydict()) or batch, Rows([5, 6]))
    assert seen[-1] == {"value": [5, 6]}


def test_results_that_are_as_many_as_rows_keep_timestamps_others_have_the_largest():
    assert mapped(lambda batch: batch).timestamps == STAMPS
    assert mapped(lambda batch: batch.slice(0, 2)).timestamps.to_pylist() == [30, 30]
    assert mapped(lambda batch: batch.slice(0, 2), Columns(DATA)).timestamps is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
def test_timestamps_come_from_a_field_if_it_is_named(kind):
    stamps = pa.array([5, 6], pa.int64())
    column = stamps.cast(kind) if pa.types.is_integer(kind) else stamps.cast(pa.timestamp("ms")).cast(kind)
    result = mapped(lambda batch: pa.RecordBatch.from_arrays([column], ["at"]), timestamp="at")
    assert result.timestamps.to_pylist() == [5, 6]


@pytest.mark.parametrize(
    ("column", "message"),
    [(pa.array(["x"]), "type string, not a timestamp"), (pa.array([None], pa.int64()), "is null in 1 rows")],
)
def test_a_timestamp_that_is_none_is_refused(column, message):
    with pytest.raises(TypeMismatchError, match=message):
        mapped(lambda batch: pa.RecordBatch.from_arrays([column], ["at"]), timestamp="at")
    with pytest.raises(TypeMismatchError, match="has no field 'when'"):
        mapped(lambda batch: batch, timestamp="when")


def test_none_and_empty_batches_give_nothing_and_none_comes_for_an_empty_batch():
    assert run(MapBatchesSpec(lambda batch: None), Columns(DATA)) == []
    assert run(MapBatchesSpec(lambda batch: batch.slice(0, 0)), Columns(DATA)) == []
    assert run(MapBatchesSpec(lambda batch: 1 / 0), Columns(DATA.slice(0, 0)), Rows([])) == []


def names_a_line(batch):
    return 5


LINE = names_a_line.__code__.co_firstlineno
TWO = [pa.array([1, 2, 3]), pa.array([4, 5, 6])]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (5, rf"names_a_line \(test_batch_functions.py:{LINE}\) returned 5 of type int, not a batch"),
        (pd.Series([1, 2, 3]), "returned a pandas.Series, not a batch"),
        (pa.array([1, 2, 3]), "returned a pyarrow.Int64Array, not a batch"),
        ({"a": 5}, "column 'a' of what .* returned is 5 of type int, which makes no column"),
        ({"a": np.zeros((3, 2))}, "column 'a' of what .* returned is a numpy.ndarray, which makes no column"),
        ({7: [1, 2, 3]}, "column named 7, which is no text"),
        (
            pd.DataFrame({"a": [1, "x", 2]}),
            "makes no batch: Conversion failed for column a .* Could not convert",
        ),
        (pa.RecordBatch.from_arrays(TWO, ["x", "x"]), "has 2 columns named 'x'"),
        (pa.table(TWO, ["x", "x"]), "has 2 columns named 'x'"),
    ],
)
def test_messages_tell_what_was_returned_where(monkeypatch, returned, message):
    function = lambda batch: returned  # noqa: E731
    function.__qualname__, function.__code__ = "names_a_line", function.__code__.replace(co_firstlineno=LINE)
    with pytest.raises(TypeMismatchError, match=message):
        mapped(function)


def test_texts_come_in_the_plain_type_whatever_the_library_makes_of_them():
    views = [pa.array(["a", None], kind) for kind in (pa.string_view(), pa.string())]
    for returned in (
        pa.RecordBatch.from_arrays(views, ["v", "s"]),
        pa.table(views, ["v", "s"]),
        pd.DataFrame({"v": ["a", None], "s": ["a", None]}),
    ):
        result = mapped(lambda batch, returned=returned: returned)
        assert result.data.schema.types == [pa.string(), pa.string()]
        assert result.take(pa.array([1, 0])).data["v"].to_pylist() == [None, "a"]


@pytest.mark.parametrize(
    "returned", [5, "text", [1, 2], {"a": [1], "b": [1, 2]}, {"a": 5}, pa.array([1]), {"a": [1, "x"]}]
)
def test_what_is_no_batch_is_refused_by_the_functions_name(returned):
    def gives_no_batch(batch):
        return returned

    with pytest.raises(TypeMismatchError, match="gives_no_batch"):
        mapped(gives_no_batch)


def test_an_error_of_the_function_has_the_rows_on_it():
    with pytest.raises(ZeroDivisionError) as raised:
        mapped(lambda batch: 1 / 0)
    seen = attached_element(raised.value)
    assert seen == "batch of 3 rows, a pyarrow.RecordBatch, the first: {'k': 1, 'v': 1.5}"


def test_what_was_emitted_stays_what_it_was_when_the_function_changes_its_arrays():
    held = np.array([1, 2, 3])
    frame = pd.DataFrame({"a": [1, 2, 3]})

    def arrays(batch):
        return {"a": held}

    def views(batch):
        view = held[:]
        view.flags.writeable = False
        return {"a": view}

    def series(batch):
        return {"a": pd.Series(held, copy=False)}

    def frames(batch):
        return frame

    results = [mapped(function) for function in (arrays, views, series, frames)]
    held[:] = 9
    frame.loc[:, "a"] = 9
    assert [result.data["a"].to_pylist() for result in results] == [[1, 2, 3]] * 4


def test_a_column_that_came_goes_out_without_a_copy():
    """Nothing can change it: numpy's array is of Arrow's memory."""
    (came,) = pa.record_batch({"a": [1, 2, 3]}).columns
    (result,) = run(
        MapBatchesSpec(lambda columns: columns, forms.BatchForm.ARRAYS), Columns(pa.record_batch({"a": came}))
    )
    assert result.data["a"].buffers()[1].address == came.buffers()[1].address


def wants_int(batch: int): ...


def wants_unknown(batch: Unknown): ...  # noqa: F821


def wants_nothing(): ...


def wants_two(batch, other): ...


def gives_some(batch):
    yield batch


class Gives:
    def __call__(self, batch):
        yield batch


async def gives_later(batch): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wants_int, "no form of a batch"),
        (wants_unknown, "cannot be resolved"),
        (wants_nothing, "cannot be called with a batch: too many positional arguments"),
        (wants_two, "cannot be called with a batch: missing a required argument: 'other'"),
        (gives_some, "is a generator"),
        (Gives(), "is a generator"),
        (gives_later, "is asynchronous"),
    ],
)
def test_an_annotation_that_is_no_form_of_a_batch_is_refused(function, message):
    with pytest.raises(TypeMismatchError, match=message):
        forms.form_of(function)


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigurationError, match="polars is not installed"):
        forms.in_form(DATA, forms.BatchForm.POLARS)


MASKS = [
    lambda batch: pc.greater(batch["k"], 1),
    lambda batch: np.array([False, True, False]),
    lambda batch: pd.Series([False, True, False]),
    lambda batch: [None, True, False],
    lambda batch: pa.chunked_array([[False], [True, None]]),
]


@pytest.mark.parametrize("function", MASKS)
@pytest.mark.parametrize("form", ["columns", "rows"])
def test_a_filter_keeps_the_rows_of_its_mask_in_their_form(function, form):
    batch = Columns(DATA, STAMPS)
    (result,) = run(FilterBatchesSpec(function), batch if form == "columns" else batch.to_rows())
    assert type(result) is (Columns if form == "columns" else Rows)
    assert result.to_rows() == Rows([Row(k=2, v=2.5)], [30])


def test_a_filter_by_polars_series():
    polars = pytest.importorskip("polars")
    (result,) = run(FilterBatchesSpec(lambda batch: polars.Series([False, True, False])), Columns(DATA))
    assert result.data["k"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True], "1 booleans for a batch of 3 rows"),
        ([1, 2, 3], "not booleans"),
        (True, "not booleans"),
        (None, "not booleans"),
        (pa.array([1, 2, 3]), "returned values of type int64, not booleans"),
        (DATA, "returned values of type struct<k: int64, v: double>, not booleans"),
        (DATA.to_pandas(), "returned a pandas.DataFrame, not booleans"),
        (pl.from_arrow(DATA), "returned a polars.DataFrame, not booleans"),
        (pl.col("v") > 1, "returned a polars.Expr, not booleans"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, message):
    with pytest.raises(TypeMismatchError, match=message):
        run(FilterBatchesSpec(lambda batch: mask), Columns(DATA))


def test_a_mask_of_nulls_alone_drops_all():
    assert run(FilterBatchesSpec(lambda batch: pa.nulls(3)), Columns(DATA)) == []


class Opened(Function):
    def open(self, runtime_context):
        self.calls = ["open", runtime_context.get_index_of_this_subtask()]

    def __call__(self, frame: pd.DataFrame):
        self.calls.append(len(frame))

    def close(self):
        self.calls.append("close")


def test_a_function_that_is_a_function_is_opened_and_closed():
    function = Opened()
    run(MapBatchesSpec(function, forms.form_of(function)), Columns(DATA))
    assert function.calls == ["open", 0, 3, "close"]


class Totals(KeyedBatchFunction):
    def __init__(self):
        self.groups = []

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))

    def process_batch(self, frame: pd.DataFrame, ctx):
        assert ctx.row_keys() == frame.k.tolist()
        assert {key_group(key, 128) for key in ctx.row_keys()} == {ctx.key_group}
        self.groups.append(ctx.key_group)
        sums = frame.groupby("k").v.sum()
        keys = sums.index.tolist()
        totals = [
            (before or 0) + new
            for before, new in zip(ctx.values(self.total, keys), sums.tolist(), strict=True)
        ]
        ctx.update(self.total, keys, totals)
        return {"k": keys, "total": totals}


def test_process_batches_calls_once_for_each_key_group_with_state_by_key():
    numbers = np.random.default_rng(1)
    function, model, found = Totals(), {}, {}
    batches = []
    for _ in range(4):
        keys, values = numbers.integers(0, 300, 500), numbers.integers(0, 9, 500).astype(float)
        batches.append(Columns(pa.RecordBatch.from_pydict({"k": keys, "v": values})))
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            model[key] = model.get(key, 0) + value
    for result in run(
        ProcessBatchesSpec(function, ("k",), forms.form_of(function.process_batch, "a context")), *batches
    ):
        found.update(zip(result.data["k"].to_pylist(), result.data["total"].to_pylist(), strict=True))
    assert found == model
    per_batch = len({key_group(key, 128) for key in range(300)})
    assert len(function.groups) <= 4 * per_batch and len(set(function.groups)) == per_batch


class Strays(Totals):
    def process_batch(self, batch, ctx):
        foreign = next(key for key in range(1_000) if key_group(key, 128) != ctx.key_group)
        ctx.set_current_key(foreign)


class Uneven(Totals):
    def process_batch(self, batch, ctx):
        ctx.update(self.total, ctx.row_keys(), [])


def test_state_of_another_key_group_is_refused_and_so_are_too_few_values():
    with pytest.raises(StateAccessError, match="belongs to|is of key group"):
        run(ProcessBatchesSpec(Strays(), ("k",)), Columns(DATA))
    with pytest.raises(ValueError, match="0 values were given"):
        run(ProcessBatchesSpec(Uneven(), ("k",)), Columns(DATA))
    with pytest.raises(TypeMismatchError, match="no field 'nope' for the key"):
        run(ProcessBatchesSpec(Totals(), ("nope",)), Columns(DATA))


def test_a_program_without_columns_loads_neither_pyarrow_nor_numpy():
    code = (
        "import sys, millstream.datastream, millstream.datastream.expressions;"
        "print({'numpy', 'pyarrow', 'pandas', 'polars'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "set()", out.stderr
