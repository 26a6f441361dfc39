"""Values in Delta tables: what is read is what was written, from rows and from columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from millstream.base.errors import TypeMismatchError
from millstream.base.time import Instant
from millstream.common import Row
from millstream.datastream.connectors.delta import DeltaSink
from millstream.formats.row_columns import RowColumns
from millstream.spi.batch import Columns, Rows
from millstream.spi.sink import WriterContext
from millstream.types.datatypes import DataTypes as T

FIELDS: list[tuple[str, Any, Any, Any]] = [
    ("text", T.STRING(), "Zürich 🚂", "Zürich 🚂"),
    ("flag", T.BOOLEAN(), True, True),
    ("tiny", T.TINYINT(), -128, -128),
    ("small", T.SMALLINT(), 32767, 32767),
    ("whole", T.INT(), -(2**31), -(2**31)),
    ("big", T.BIGINT(), 2**63 - 1, 2**63 - 1),
    ("half", T.FLOAT(), 0.5, 0.5),
    ("double", T.DOUBLE(), 1e300, 1e300),
    ("money", T.DECIMAL(20, 2), Decimal("123456789012345678.90"), Decimal("123456789012345678.90")),
    ("day", T.DATE(), dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    ("local", T.TIMESTAMP(), dt.datetime(2013, 1, 31, 5, 15, 0, 1), dt.datetime(2013, 1, 31, 5, 15, 0, 1)),
    (
        "moment",
        T.TIMESTAMP_LTZ(),
        dt.datetime(2013, 1, 31, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2013, 1, 31, 3, tzinfo=dt.UTC),
    ),
    ("instant", T.TIMESTAMP_LTZ(), Instant(5, 7000), dt.datetime(1970, 1, 1, 0, 0, 5, 7, tzinfo=dt.UTC)),
    ("blob", T.BYTES(), b"\0\xff", b"\0\xff"),
    ("list", T.ARRAY(T.STRING()), ["a", None], ["a", None]),
    ("map", T.MAP(T.STRING(), T.INT()), {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    (
        "row",
        T.ROW([T.FIELD("x", T.INT()), T.FIELD("y", T.ARRAY(T.DOUBLE()))]),
        Row(x=1, y=[2.5]),
        {"x": 1, "y": [2.5]},
    ),
]
KIND = T.ROW([T.FIELD(name, kind) for name, kind, _, _ in FIELDS])
FULL = Row(**{name: value for name, _, value, _ in FIELDS})
EMPTY = Row(**{name: None for name, _, _, _ in FIELDS})


def write(path: Any, kind: Any, batch: Any, *partitions: str) -> list[dict[str, Any]]:
    new = DeltaSink.builder().set_table(str(path))
    sink = (new if kind is None else new.set_row_type(kind).set_partition_columns(*partitions)).build()
    sink.check()
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    try:
        writer.write(batch, watermark_ms=0, now_ms=0)
        sink.build_committer().commit(writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True))
    finally:
        writer.close()
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist()


@pytest.mark.parametrize("form", ["rows", "columns", "columns of the table's types"])
@pytest.mark.parametrize("declared", [True, False])
def test_values_come_out_as_they_went_in(tmp_path, form, declared):
    batch: Any = Rows([FULL, EMPTY])
    if form == "columns":
        # Columns hold moments as datetimes, and their types are found from the values.
        batch = Columns.from_rows(Rows([Row(**FULL.as_dict() | {"instant": FIELDS[12][3]}), EMPTY]))
    elif form != "rows":
        batch = Columns(RowColumns(KIND).batch([FULL, EMPTY]))
    if not declared:
        DeltaTable.create(tmp_path, RowColumns(KIND).schema)
    found = write(tmp_path, KIND if declared else None, batch)
    assert found == [
        {name: read for name, _, _, read in FIELDS},
        {name: None for name, _, _, _ in FIELDS},
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (T.STRING(), ["a b/c", "x=y%20", "", None, "Zürich", ".", "a:b'\"", "__HIVE_DEFAULT_PARTITION__"]),
        (T.INT(), [0, -5, None]),
        (T.DATE(), [dt.date(2013, 1, 31), None]),
        (T.BOOLEAN(), [True, False, None]),
    ],
)
@pytest.mark.parametrize("form", ["rows", "columns"])
def test_partitions_are_read_as_they_were_written(tmp_path, kind, values, form):
    row_type = T.ROW([T.FIELD("p", kind), T.FIELD("n", T.INT())])
    rows = [Row(p=value, n=number) for number, value in enumerate(values * 2)]
    batch = Rows(rows) if form == "rows" else Columns(RowColumns(row_type).batch(rows))
    found = sorted(write(tmp_path, row_type, batch, "p"), key=lambda row: row["n"])
    # By Delta's protocol the empty text is null in a partition.
    assert found == [{"p": None if row.p == "" else row.p, "n": row.n} for row in rows]
    nulls = any(value in ("", None) for value in values)
    assert len(DeltaTable(str(tmp_path)).file_uris()) == len(set(values) - {"", None}) + nulls


def test_record_that_does_not_fit_names_its_column(tmp_path):
    kind = T.ROW([T.FIELD("a", T.INT(nullable=False))])
    with pytest.raises(TypeMismatchError, match="column 'a'"):
        write(tmp_path, kind, Rows([Row(a="x")]))
    with pytest.raises(TypeMismatchError, match="column 'a'"):
        write(tmp_path, kind, Columns(pa.RecordBatch.from_pydict({"a": pa.array([None], pa.int32())})))
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 0
