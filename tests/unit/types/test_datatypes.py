from __future__ import annotations

import datetime
import pickle
from decimal import Decimal

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.table import DataTypes

GOOD = [
    (DataTypes.STRING(), "x", "x"),
    (DataTypes.TINYINT(), "-128", -128),
    (DataTypes.SMALLINT(), "32767", 32767),
    (DataTypes.INT(), " 5 ", 5),
    (DataTypes.BIGINT(), "9223372036854775807", 2**63 - 1),
    (DataTypes.FLOAT(), "1e3", 1000.0),
    (DataTypes.DOUBLE(), "-0.5", -0.5),
    (DataTypes.BOOLEAN(), "False", False),
    (DataTypes.DATE(), "2013-01-31", datetime.date(2013, 1, 31)),
    (DataTypes.TIME(), "05:15:00", datetime.time(5, 15)),
    (DataTypes.TIMESTAMP(), "2013-01-31T05:15:00", datetime.datetime(2013, 1, 31, 5, 15)),
    (DataTypes.DECIMAL(5, 2), "123.455", Decimal("123.46")),
]
BAD = [
    (DataTypes.TINYINT(), "128"),
    (DataTypes.INT(), "2147483648"),
    (DataTypes.BIGINT(), "1.0"),
    (DataTypes.DOUBLE(), "1_0"),
    (DataTypes.BOOLEAN(), "yes"),
    (DataTypes.DATE(), "31.1.2013"),
    (DataTypes.TIMESTAMP(), "2013-01-31T05:15:00Z"),
    (DataTypes.DECIMAL(4, 2), "123.4"),
    (DataTypes.VARCHAR(2), "abc"),
    (DataTypes.BYTES(), "x"),
]


@pytest.mark.parametrize(("data_type", "text", "value"), GOOD, ids=lambda x: str(x))
def test_text_is_read_and_the_value_fits_its_type(data_type, text, value):
    assert data_type.parse(text) == value
    assert data_type.parse_column([text, text]) == [value, value]
    data_type.check(value)
    assert pickle.loads(pickle.dumps(data_type)) == data_type


@pytest.mark.parametrize(("data_type", "text"), BAD, ids=lambda x: str(x))
def test_text_that_does_not_fit_is_refused_alone_and_in_a_column(data_type, text):
    with pytest.raises(ValueError):
        data_type.parse(text)
    with pytest.raises(ValueError):
        data_type.parse_column(["", text])


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (DataTypes.INT(), True),
        (DataTypes.TINYINT(), 128),
        (DataTypes.INT(nullable=False), None),
        (DataTypes.DATE(), datetime.datetime(2013, 1, 1)),
        (DataTypes.ARRAY(DataTypes.INT()), [1, "x"]),
        (DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]), ("x",)),
        (DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]), (1, 2)),
    ],
    ids=lambda x: str(x),
)
def test_value_that_does_not_fit_is_refused(data_type, value):
    with pytest.raises(TypeMismatchError, match="does not fit type"):
        data_type.check(value)


def test_row_type_has_distinct_names():
    with pytest.raises(ConfigurationError, match="two fields named 'a'"):
        DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("a", DataTypes.INT())])
