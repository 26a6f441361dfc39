"""Frames as tables; the libraries themselves say what is in them."""

from __future__ import annotations

import datetime
import sys

import pandas as pd
import pyarrow as pa
import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.connectors.columns.frames import arrow_table, pandas_table, plain_table, polars_table


def test_in_frames_of_pandas_what_is_missing_is_null():
    frame = pd.DataFrame(
        {
            "f": [1.5, float("nan")],
            "i": pd.array([2**60 + 1, None], "Int64"),
            "at": pd.to_datetime(["2024-01-01 10:00", None]),
            "zoned": pd.to_datetime(["2024-01-01 10:00", None]).tz_localize("Asia/Tokyo"),
            "s": ["a", None],
            "c": pd.Categorical(["x", None]),
            "o": [datetime.date(2024, 1, 1), pd.NaT],
            "d": pd.to_timedelta(["1 day", None]),
            "l": [[1, 2], None],
        },
        index=["p", "q"],
    )
    first, second = plain_table(pandas_table(frame)).to_pylist()
    assert first == {
        "f": 1.5,
        "i": 2**60 + 1,
        "at": datetime.datetime(2024, 1, 1, 10),
        "zoned": datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.UTC),
        "s": "a",
        "c": "x",
        "o": datetime.date(2024, 1, 1),
        "d": datetime.timedelta(days=1),
        "l": [1, 2],
    }
    assert set(second.values()) == {None}


def test_columns_of_mixed_values_are_named():
    with pytest.raises(TypeMismatchError, match="column mixed with type object") as error:
        pandas_table(pd.DataFrame({"mixed": [1, "x"]}))
    assert "astype" in str(error.value)


def test_a_frame_with_a_name_twice_is_refused():
    with pytest.raises(TypeMismatchError, match="2 columns named 'b'") as error:
        pandas_table(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]))
    assert "Rename" in str(error.value)


def test_periods_are_refused_rather_than_read_as_their_numbers():
    frame = pd.DataFrame({"month": pd.period_range("2024-01", periods=2, freq="M")})
    with pytest.raises(
        TypeMismatchError, match=r"column 'month' of the frame is of type period\[M\]"
    ) as error:
        pandas_table(frame)
    assert "to_timestamp" in str(error.value)
    frame["month"] = frame["month"].dt.to_timestamp()  # as it says
    assert plain_table(pandas_table(frame))["month"][1].as_py() == datetime.datetime(2024, 2, 1)


def test_integers_of_polars_that_arrow_has_not_are_named():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeMismatchError, match="Arrow has no type for") as error:
        polars_table(polars.DataFrame({"n": polars.Series([1], dtype=polars.Int128)}))
    assert "n (Int128)" in error.value.detail


def test_nanoseconds_are_cut():
    table = pa.table({"at": pa.array([1_999, -1], pa.int64()).view(pa.timestamp("ns"))})
    epoch = datetime.datetime(1970, 1, 1)
    assert plain_table(table)["at"].to_pylist()[0] == epoch.replace(microsecond=1)


def test_values_that_cannot_be_cast_are_named():
    table = pa.table({"t": pa.array([2**62], pa.int64()).view(pa.timestamp("s"))})
    with pytest.raises(TypeMismatchError, match=r"column 't' of type timestamp\[s\] cannot be read"):
        plain_table(table)


def test_tables_batches_readers_and_streams_are_arrow():
    table = pa.table({"n": [1, 2]})
    (batch,) = table.to_batches()

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    for source in (table, batch, pa.RecordBatchReader.from_batches(batch.schema, [batch]), Stream()):
        assert arrow_table(source).equals(table)


@pytest.mark.parametrize("make", [pandas_table, arrow_table])
def test_what_is_no_table_is_refused(make):
    with pytest.raises(TypeMismatchError, match="was given a list, not a"):
        make([1])


def test_frames_of_polars_are_read_as_they_are():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "n": [2**63, None],
            "s": ["a", None],
            "c": polars.Series(["x", None], dtype=polars.Categorical),
            "at": [datetime.datetime(2024, 1, 1), None],
            "t": [datetime.time(1, 2, 3), None],
            "l": [[1], None],
            "p": [{"x": 1}, None],
        },
        schema_overrides={"n": polars.UInt64},
    )
    assert plain_table(polars_table(frame)).to_pylist() == frame.to_dicts()
    with pytest.raises(TypeMismatchError, match="Call collect"):
        polars_table(frame.lazy())
    with pytest.raises(TypeMismatchError, match="column 'o' of the frame holds Python objects"):
        polars_table(polars.DataFrame({"o": [object()]}))


@pytest.mark.parametrize(
    ("make", "library"), [(pandas_table, "pandas"), (polars_table, "polars"), (arrow_table, "pyarrow")]
)
def test_without_the_library_its_extra_is_named(monkeypatch, make, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigurationError, match=f"need.? the package {library}") as error:
        make(None)
    extra = "parquet" if library == "pyarrow" else library
    assert f'pip install "millstream[{extra}]"' in str(error.value)
