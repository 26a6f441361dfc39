"""ORC files, beside pyarrow."""

from __future__ import annotations

import datetime
import io
import pickle
from decimal import Decimal

import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError, SourceError, TypeMismatchError
from millstream.common import Configuration, WatermarkStrategy
from millstream.datastream.connectors.file_system import FileSink, FileSource
from millstream.datastream.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat
from millstream.table import DataTypes
from millstream.testing import MiniCluster
from millstream.types.arrow_values import records_of
from millstream.types.row import Row

KIND = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.BIGINT(nullable=False)),
        DataTypes.FIELD("small", DataTypes.TINYINT()),
        DataTypes.FIELD("name", DataTypes.STRING()),
        DataTypes.FIELD("data", DataTypes.BYTES()),
        DataTypes.FIELD("price", DataTypes.DECIMAL(12, 3)),
        DataTypes.FIELD("day", DataTypes.DATE()),
        DataTypes.FIELD("at", DataTypes.TIMESTAMP()),
        DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
        DataTypes.FIELD("counts", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        DataTypes.FIELD("inner", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.DOUBLE())])),
    ]
)


def a_row(i):
    return Row(
        id=i,
        small=i % 100,
        name=None if i % 3 == 0 else f"n{i}",
        data=bytes(i % 5),
        price=Decimal(i) + Decimal("0.125"),
        day=datetime.date(1950, 1, 1) + datetime.timedelta(days=i % 20_000),
        at=datetime.datetime(2024, 1, 1, 0, 0, i % 60, 123456),
        tags=["a", None] * (i % 2),
        counts={"k": i} if i % 2 else None,
        inner=None if i % 4 else Row(x=i / 2),
    )


ROWS = [a_row(i) for i in range(3_000)]


def written(*batches, kind=KIND, **properties):
    file = io.BytesIO()
    writer = OrcBulkWriters.for_row_type(kind, properties or None).create(file)
    for batch in batches:
        writer.add_elements(batch)
    writer.finish()
    assert not file.closed
    return file.getvalue()


@pytest.fixture(scope="module")
def many_stripes():
    table = pa.orc.read_table(io.BytesIO(written(ROWS)))
    target = pa.BufferOutputStream()
    with pa.orc.ORCWriter(target, stripe_size=1_000, batch_size=100) as writer:
        for start in range(0, table.num_rows, 250):
            writer.write(table.slice(start, 250).take(pa.array(range(250))))
    return target.getvalue().to_pybytes()


def read_all(data, piece, kind=KIND, part=None, **options):
    fmt = OrcColumnarRowInputFormat(kind, **options)
    position, found = None, []
    while True:
        file = io.BytesIO(data)
        opened = (
            fmt.open(file, "x.orc", position)
            if part is None
            else fmt.open_part(file, "x.orc", position, part)
        )
        if opened.exhausted:
            assert opened.read(piece) == []
            assert opened.read_columns(piece).num_rows == 0
            return found
        found += opened.read(piece)
        position = pickle.loads(pickle.dumps(opened.position))


@pytest.mark.parametrize("codec", ["NONE", "ZLIB", "snappy", "LZ4", "ZSTD"])
def test_files_are_what_pyarrow_reads(codec):
    data = written(ROWS[:1], [], ROWS[1:], **{"orc.compress": codec})
    table = pa.orc.read_table(io.BytesIO(data))
    assert pa.orc.ORCFile(io.BytesIO(data)).compression == (
        "UNCOMPRESSED" if codec == "NONE" else codec.upper()
    )
    for name in ("id", "name", "price", "day", "data", "tags"):
        assert table.column(name).to_pylist() == [row[name] for row in ROWS]
    assert table.column("at").cast(pa.timestamp("us")).to_pylist() == [row.at for row in ROWS]
    assert read_all(data, 10_000) == ROWS


@pytest.mark.parametrize("piece", [7, 250, 10_000])
def test_reading_may_stop_anywhere(many_stripes, piece):
    assert pa.orc.ORCFile(io.BytesIO(many_stripes)).nstripes > 5
    assert read_all(many_stripes, piece) == ROWS


@pytest.mark.parametrize("size", [100, 4_999, 20_000, 1_000_000])
def test_parts_have_every_row_once(many_stripes, size):
    found = []
    for start in range(0, len(many_stripes), size):
        found += read_all(many_stripes, 999, part=(start, min(start + size, len(many_stripes))))
    assert found == ROWS


def test_columns_are_the_rows(many_stripes):
    opened = OrcColumnarRowInputFormat(KIND).open(io.BytesIO(many_stripes), "x", None)
    found = []
    while not opened.exhausted:
        found += records_of(opened.read_columns(333))
    assert found == ROWS


def test_slices_of_columns_are_written_as_their_rows():
    whole = OrcColumnarRowInputFormat(KIND).open(io.BytesIO(written(ROWS)), "x", None).read_columns(10_000)
    file = io.BytesIO()
    writer = OrcBulkWriters.for_row_type(KIND).create(file)
    for start in range(0, 3_000, 70):
        writer.add_columns(whole.slice(start, 70))
    writer.finish()
    assert read_all(file.getvalue(), 10_000) == ROWS
    file = io.BytesIO()
    writer = OrcBulkWriters.for_row_type(KIND).create(file)
    writer.add_columns(whole.slice(7, 13))
    writer.finish()
    assert read_all(file.getvalue(), 10_000) == ROWS[7:20]


def test_only_wanted_columns_are_read_in_the_declared_order_and_type():
    kind = DataTypes.ROW(
        [DataTypes.FIELD("NAME", DataTypes.STRING()), DataTypes.FIELD("small", DataTypes.INT())]
    )
    data = written(ROWS)
    assert read_all(data, 50, kind, is_case_sensitive=False) == [
        Row(NAME=r.name, small=r.small) for r in ROWS
    ]
    with pytest.raises(SourceError, match="has no column 'NAME'"):
        read_all(data, 50, kind)
    wrong = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.INT())])
    with pytest.raises(SourceError, match="column 'name': type string does not fit int32"):
        read_all(data, 50, wrong)


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            st.none() | st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
            st.none() | st.decimals(-999, 999, places=2),
            st.none() | st.lists(st.none() | st.booleans()),
        )
    )
)
def test_whatever_is_written_is_read(tuples):
    names = ["a", "b", "c", "d", "e"]
    kinds = [
        DataTypes.BIGINT(),
        DataTypes.STRING(),
        DataTypes.TIMESTAMP(),
        DataTypes.DECIMAL(8, 2),
        DataTypes.ARRAY(DataTypes.BOOLEAN()),
    ]
    kind = DataTypes.ROW([DataTypes.FIELD(*each) for each in zip(names, kinds, strict=True)])
    rows = [Row(**dict(zip(names, values, strict=True))) for values in tuples]
    assert read_all(written(rows, kind=kind), 7, kind) == rows


def test_what_does_not_fit_is_an_error():
    with pytest.raises(TypeMismatchError):
        written([Row(id="x", **dict.fromkeys(KIND.field_names()[1:]))])
    with pytest.raises(ConfigurationError, match=r"TIME\(0\) cannot be written to ORC"):
        OrcBulkWriters.for_row_type(DataTypes.ROW([DataTypes.FIELD("t", DataTypes.ARRAY(DataTypes.TIME()))]))
    with pytest.raises(ConfigurationError, match=r"'orc\.compress' of ORC writers was given 'LZO'"):
        OrcBulkWriters.for_row_type(KIND, {"orc.compress": "LZO"})
    for data in (b"", b"ORC", b"{}" * 100):
        with pytest.raises(SourceError, match=r"'x\.orc' is no ORC file"):
            read_all(data, 5)


def test_jobs_write_and_read_orc_files(tmp_path):
    out = str(tmp_path / "out")
    properties = Configuration.from_dict({"orc.compress": "ZSTD"})
    with MiniCluster(parallelism=2) as cluster:
        env = cluster.environment()
        sink = FileSink.for_bulk_format(out, OrcBulkWriters.for_row_type(KIND, properties)).build()
        env.from_collection(ROWS[:500]).sink_to(sink)
        env.execute()
        source = (
            FileSource.for_bulk_file_format(OrcColumnarRowInputFormat(KIND), out)
            .set_split_size(1_000)
            .build()
        )
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "orc")
        assert sorted(row.id for row in cluster.collect(stream)) == list(range(500))
