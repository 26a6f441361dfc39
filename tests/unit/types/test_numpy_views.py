import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.types.numpy_views import as_numpy

KINDS = [
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("values", [[], [1], list(range(100))], ids=len)
@pytest.mark.parametrize("first", [0, 1, 3])
def test_numbers_are_those_of_pyarrow(kind, values, first):
    column = pa.array(values, kind)[first:]
    expected = column.to_numpy(zero_copy_only=False)
    found = as_numpy(column)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_truth_values_are_those_of_pyarrow(values, first, length):
    column = pa.array(values, pa.bool_()).slice(first, length)
    found = as_numpy(column)
    assert found.dtype == np.bool_
    assert found.tolist() == column.to_pylist()


def test_nulls_are_as_pyarrow_has_them():
    column = pa.array([1, None, 3])
    np.testing.assert_array_equal(as_numpy(column), column.to_numpy(zero_copy_only=False))


@pytest.mark.parametrize("chunks", [[], [[1, 2]], [[1], [], [2, 3]], [[1, None], [2]]], ids=str)
def test_chunks_are_joined(chunks):
    column = pa.chunked_array(chunks, pa.int64())
    np.testing.assert_array_equal(as_numpy(column), column.to_numpy())


def test_other_types_are_left_to_pyarrow():
    column = pa.array([0, 86_400_000], pa.timestamp("ms"))
    np.testing.assert_array_equal(as_numpy(column), column.to_numpy())
