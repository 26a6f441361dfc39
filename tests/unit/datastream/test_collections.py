"""What from_collection takes for a collection of records, and what it says of the rest."""

from __future__ import annotations

from array import array

import pandas
import pyarrow
import pytest

from millstream.base.errors import TypeMismatchError
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment


def environment():
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )


FRAME = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})


class SparkFrame:
    """Named and placed as Spark's, which needs a JVM to make one."""

    __module__ = "pyspark.sql.classic.dataframe"


SparkFrame.__name__ = "DataFrame"

# PyFlink 2.3 makes ['a'] of a frame, chunks of a table, characters of a text and the keys of a dict.
REFUSED = [
    (FRAME, "a pandas DataFrame", "df.itertuples(index=False, name=None)"),
    (pyarrow.table({"a": [1]}), "an Arrow Table", "table.to_pylist()"),
    (pyarrow.record_batch({"a": [1]}), "an Arrow RecordBatch", "batch.to_pylist()"),
    (pyarrow.array([1]), "an Arrow Array", "array.to_pylist()"),
    (pyarrow.chunked_array([[1]]), "an Arrow ChunkedArray", "array.to_pylist()"),
    (SparkFrame(), "a Spark DataFrame", "df.collect()"),
    ("abc", "a str", "list(text)"),
    (b"abc", "a bytes", "[data]"),
    (bytearray(b"abc"), "a bytearray", "[data]"),
    ({"a": 1}, "a dict", "list(d.items())"),
    (5, "a int", "a list of records"),
    (None, "a NoneType", "a list of records"),
]


@pytest.mark.parametrize(("given", "what", "call"), REFUSED, ids=lambda value: str(type(value).__name__))
def test_what_is_no_collection_of_records_is_refused_with_the_right_call(given, what, call):
    with pytest.raises(TypeMismatchError) as caught:
        environment().from_collection(given)
    assert what in caught.value.message
    assert call in caught.value.hint


@pytest.mark.parametrize(
    "given",
    [[1, 2], (1, 2), range(1, 3), (n for n in (1, 2)), {1, 2}, {1: 0, 2: 0}.keys(), array("i", [1, 2])],
    ids=lambda value: type(value).__name__,
)
def test_iterables_of_records_are_taken(given):
    with environment().from_collection(given).execute_and_collect() as results:
        assert list(results) == [1, 2]


def test_the_calls_that_are_named_give_records():
    env = environment()
    with env.from_collection(FRAME.itertuples(index=False, name=None)).execute_and_collect() as results:
        assert list(results) == [(1, "x"), (2, "y")]
    with env.from_collection(pyarrow.Table.from_pandas(FRAME).to_pylist()).execute_and_collect() as results:
        assert list(results) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    with env.from_collection(FRAME["a"]).execute_and_collect() as results:
        assert list(results) == [1, 2]
