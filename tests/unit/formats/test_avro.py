"""Avro messages and files, beside fastavro."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import uuid
from decimal import Decimal

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    SourceError,
    TypeMismatchError,
)
from millstream.base.time import Instant
from millstream.common import Types, WatermarkStrategy
from millstream.datastream.connectors.file_system import FileSink, FileSource
from millstream.datastream.formats.avro import (
    AvroBulkWriters,
    AvroFormat,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from millstream.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from millstream.table import DataTypes
from millstream.testing import MiniCluster
from millstream.types.arrow_values import records_of
from millstream.types.row import Row

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}
ALL = {
    "type": "record",
    "name": "All",
    "namespace": "org.example",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": ["null", "long"], "default": None},
        {"name": "ratio", "type": "double"},
        {"name": "text", "type": ["string", "null"]},
        {"name": "data", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "hour", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "inner", "type": ["null", INNER]},
        {"name": "inners", "type": {"type": "array", "items": "Inner"}},
    ],
}
SCHEMA = AvroSchema.parse_string(json.dumps(ALL))
NAMES = tuple(field["name"] for field in ALL["fields"])


def a_row(i=0):
    return Row(
        flag=bool(i % 2),
        small=i,
        large=None if i % 3 else i << 40,
        ratio=i / 4,
        text=None if i % 5 else f"t{i} \U0001f600",
        data=b"\x00" * (i % 4),
        hash=b"abcd",
        color="RED" if i % 2 else "BLUE",
        price=Decimal(i) / 4 + Decimal("0.25") * 0,
        day=datetime.date(2024, 1, 1) + datetime.timedelta(days=i),
        hour=datetime.time(10, 0, i % 60, 17),
        at=datetime.datetime(2024, 1, 1, 0, 0, i % 60, 123456),
        local=None if i % 2 else datetime.datetime(1960, 1, 1, 0, 0, i % 60),
        tags=["a"] * (i % 3),
        counts={"k": i},
        inner=None if i % 2 else Row(x=1.5),
        inners=[Row(x=float(i))] * (i % 2),
    )


def rounded(row):
    row["price"] = row["price"].quantize(Decimal("0.01"))
    return row


ROWS = [rounded(a_row(i)) for i in range(200)]


def to_dict(row):
    """What fastavro would be given for a row."""
    record = row.as_dict(recursive=True)
    record["at"] = record["at"].replace(tzinfo=datetime.UTC)
    return record


def test_messages_are_what_fastavro_writes_and_reads():
    writes = AvroRowSerializationSchema(avro_schema_string=json.dumps(ALL))
    reads = AvroRowDeserializationSchema(avro_schema_string=json.dumps(ALL))
    parsed = fastavro.parse_schema(ALL)
    messages = [writes.serialize(row) for row in ROWS]
    for row, message in zip(ROWS, messages, strict=True):
        expected = io.BytesIO()
        fastavro.schemaless_writer(expected, parsed, to_dict(row))
        assert message == expected.getvalue()
        assert fastavro.schemaless_reader(io.BytesIO(message), parsed, None) == to_dict(row)
    assert reads.deserialize_all(messages) == ROWS
    assert pickle.loads(pickle.dumps(reads)).deserialize(messages[3]) == ROWS[3]
    assert pickle.loads(pickle.dumps(writes)).serialize(ROWS[3]) == messages[3]


def test_rows_may_be_given_as_dicts_tuples_and_rows_in_another_order():
    writes = AvroRowSerializationSchema(avro_schema_string=json.dumps(ALL))
    row = ROWS[7]
    backwards = Row(**dict(reversed(row.as_dict().items())))
    expected = writes.serialize(row)
    assert writes.serialize(row.as_dict()) == expected
    assert writes.serialize(row.as_dict(recursive=True)) == expected
    assert writes.serialize(tuple(row)) == expected
    assert writes.serialize(backwards) == expected


def test_types_are_those_of_flink():
    kind = SCHEMA.type_info()
    assert kind == AvroRowDeserializationSchema(avro_schema_string=json.dumps(ALL)).get_produced_type()
    types = dict(zip(kind.get_field_names(), kind.get_field_types(), strict=True))
    assert types["large"] == Types.LONG()
    assert types["data"] == types["hash"] == Types.PRIMITIVE_ARRAY(Types.BYTE())
    assert types["color"] == Types.STRING()
    assert types["price"] == Types.BIG_DEC()
    assert types["day"] == Types.SQL_DATE()
    assert types["at"] == types["local"] == Types.SQL_TIMESTAMP()
    assert types["inners"] == Types.OBJECT_ARRAY(Types.ROW_NAMED(["x"], [Types.DOUBLE()]))
    assert kind.find_mismatch(ROWS) is None
    sql = dict(zip(SCHEMA.row_type().field_names(), SCHEMA.row_type().field_types(), strict=True))
    assert str(sql["large"]) == "BIGINT"
    assert str(sql["small"]) == "INT NOT NULL"
    assert str(sql["price"]) == "DECIMAL(10, 2) NOT NULL"


def test_schema_of_sql_types_writes_and_reads_their_rows():
    kind = DataTypes.ROW(
        [
            DataTypes.FIELD("a", DataTypes.INT(nullable=False)),
            DataTypes.FIELD("b", DataTypes.ARRAY(DataTypes.DECIMAL(8, 3))),
            DataTypes.FIELD("c", DataTypes.ROW([DataTypes.FIELD("at", DataTypes.TIMESTAMP())])),
            DataTypes.FIELD("d", DataTypes.MAP(DataTypes.STRING(), DataTypes.TIME())),
        ]
    )
    schema = AvroSchema.for_row_type(kind)
    at, hour = datetime.datetime(1900, 2, 3, 4, 5, 6, 7), datetime.time(23, 59)
    rows = [
        Row(a=1, b=None, c=None, d=None),
        Row(a=2, b=[None, Decimal("1.125")], c=Row(at=at), d={"x": hour}),
    ]
    writes = AvroRowSerializationSchema(avro_schema_string=str(schema))
    reads = AvroRowDeserializationSchema(avro_schema_string=str(schema))
    assert reads.deserialize_all(writes.serialize_all(rows)) == rows
    assert str(schema.row_type()).startswith("ROW<a INT NOT NULL, b ARRAY<DECIMAL(8, 3)>")
    with pytest.raises(NotSupportedError, match="no Avro form"):
        AvroSchema.for_row_type(
            DataTypes.ROW([DataTypes.FIELD("a", DataTypes.MAP(DataTypes.INT(), DataTypes.INT()))])
        )


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 31), (1 << 31) - 1),
            st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            st.binary(),
            st.floats(allow_nan=False),
            st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)),
            st.lists(st.none() | st.booleans()),
        ),
        min_size=1,
    ),
    st.integers(1, 50),
)
def test_whatever_is_written_is_read(tuples, piece):
    names = ["a", "b", "c", "d", "e", "f", "g"]
    kinds = [
        DataTypes.INT(nullable=False),
        DataTypes.BIGINT(),
        DataTypes.STRING(),
        DataTypes.BYTES(),
        DataTypes.DOUBLE(),
        DataTypes.TIMESTAMP_LTZ(),
        DataTypes.ARRAY(DataTypes.BOOLEAN()),
    ]
    schema = AvroSchema.for_row_type(
        DataTypes.ROW([DataTypes.FIELD(*each) for each in zip(names, kinds, strict=True)])
    )
    rows = [Row(**dict(zip(names, values, strict=True))) for values in tuples]
    writes = AvroRowSerializationSchema(avro_schema_string=str(schema))
    reads = AvroRowDeserializationSchema(avro_schema_string=str(schema))
    assert reads.deserialize_all(writes.serialize_all(rows)) == rows
    data = written(schema, [rows], codec="deflate")
    assert read_all(AvroFormat.for_rows(schema), data, piece) == rows


def test_instants_and_moments_without_zone_are_utc():
    text = (
        '{"type": "record", "name": "a", "fields": '
        '[{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'
    )
    writes, reads = AvroRowSerializationSchema(None, text), AvroRowDeserializationSchema(None, text)
    moment = datetime.datetime(2024, 7, 1, 12)
    zoned = moment.replace(tzinfo=datetime.UTC).astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    seconds = int(moment.replace(tzinfo=datetime.UTC).timestamp())
    for given_as in (moment, zoned, Instant(seconds, 0)):
        assert reads.deserialize(writes.serialize(Row(at=given_as))) == Row(at=moment)


def test_uuids_are_text_and_records_may_hold_themselves():
    tree = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "next", "type": ["null", "Node"]},
        ],
    }
    text = json.dumps(tree)
    one, two = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
    rows = [Row(id=one, next=Row(id=two, next=None))]
    writes, reads = AvroRowSerializationSchema(None, text), AvroRowDeserializationSchema(None, text)
    assert reads.deserialize_all(writes.serialize_all(rows)) == rows
    assert reads.get_produced_type() is None
    with pytest.raises(NotSupportedError, match="'Node' holds itself"):
        AvroSchema.parse_string(text).type_info()


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"x": 1, "z": 2}, "has no field 'z'"),
        ((1, 2), "is no Avro record"),
        (5, "is no Avro record"),
        ({"x": "text"}, "does not fit the Avro schema|is no int"),
        ({"x": 1 << 31}, "is no int of Avro"),
        ({"x": True}, "is no int of Avro"),
        ({}, "does not fit the Avro schema"),
    ],
)
def test_what_does_not_fit_is_named(value, match):
    text = '{"type": "record", "name": "a", "fields": [{"name": "x", "type": "int"}]}'
    with pytest.raises(TypeMismatchError, match=match):
        AvroRowSerializationSchema(None, text).serialize(value)


@pytest.mark.parametrize("message", [b"", b"\x80", b"\x02\x06ab", b"\x04"])
def test_messages_that_do_not_parse_are_named(message):
    text = '{"type": "record", "name": "a", "fields": [{"name": "x", "type": ["null", "string"]}]}'
    with pytest.raises(MalformedRecordError, match="is no record of the Avro schema"):
        AvroRowDeserializationSchema(None, text).deserialize(message)


def test_arguments_are_checked():
    with pytest.raises(NotSupportedError, match="record class"):
        AvroRowSerializationSchema(record_class="org.example.User")
    with pytest.raises(ConfigurationError, match="no Avro schema was given"):
        AvroRowDeserializationSchema()
    for text in ("{", "5", '{"type": "nothing"}'):
        with pytest.raises(ConfigurationError, match="is no Avro schema"):
            AvroSchema.parse_string(text)
    with pytest.raises(ConfigurationError, match="describes no record"):
        AvroRowDeserializationSchema(avro_schema_string='"long"')
    with pytest.raises(ConfigurationError, match="codec 'zip'"):
        AvroBulkWriters.for_generic_record(SCHEMA, "zip")
    with pytest.raises(SourceError, match="cannot be read"):
        AvroSchema.parse_file("/no/such/file.avsc")


# ---- files ----


def written(schema, batches, codec="null"):
    file = io.BytesIO()
    writer = AvroBulkWriters.for_generic_record(schema, codec).create(file)
    for batch in batches:
        writer.add_elements(batch)
    writer.finish()
    return file.getvalue()


def read_all(fmt, data, piece, part=None):
    """Read in pieces, opening the file anew behind each."""
    position, found = None, []
    while True:
        file = io.BytesIO(data)
        opened = (
            fmt.open(file, "x.avro", position)
            if part is None
            else fmt.open_part(file, "x.avro", position, part)
        )
        if opened.exhausted:
            assert opened.read(piece) == []
            return found
        found += opened.read(piece)
        position = pickle.loads(pickle.dumps(opened.position))


@pytest.fixture(scope="module")
def many_blocks():
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA.parsed, map(to_dict, ROWS), sync_interval=500)
    return file.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy"])
def test_files_are_what_fastavro_writes_and_reads(codec):
    data = written(SCHEMA, [ROWS[:50], [], ROWS[50:]], codec)
    assert list(fastavro.reader(io.BytesIO(data))) == list(map(to_dict, ROWS))
    assert read_all(AvroFormat.for_rows(SCHEMA), data, 1_000) == ROWS
    assert read_all(AvroFormat.for_rows(), data, 1_000) == ROWS
    naive = [row.as_dict(recursive=True) for row in ROWS]
    assert read_all(AvroFormat.for_generic_record(), data, 1_000) == naive


@pytest.mark.parametrize("piece", [1, 7, 20, 1_000])
def test_reading_may_stop_anywhere(many_blocks, piece):
    assert read_all(AvroFormat.for_rows(SCHEMA), many_blocks, piece) == ROWS


@pytest.mark.parametrize("size", [1, 100, 499, 1_000, 5_000, 100_000])
def test_parts_have_every_record_once(many_blocks, size):
    found = []
    for start in range(0, len(many_blocks), size):
        part = (start, min(start + size, len(many_blocks)))
        found += read_all(AvroFormat.for_rows(), many_blocks, 13, part)
    assert found == ROWS


def test_columns_are_the_rows(many_blocks):
    opened = AvroFormat.for_rows(SCHEMA).open(io.BytesIO(many_blocks), "x", None)
    found = []
    while not opened.exhausted:
        found += records_of(opened.read_columns(33))
    assert found == ROWS


def test_files_are_read_by_another_schema_than_they_were_written_with(many_blocks):
    wanted = AvroSchema.parse_string(
        json.dumps(
            {
                "type": "record",
                "name": "All",
                "namespace": "org.example",
                "fields": [
                    {"name": "new", "type": "string", "default": "none"},
                    {"name": "small", "type": "double"},
                    {"name": "words", "aliases": ["text"], "type": ["string", "null"]},
                ],
            }
        )
    )
    expected = [Row(new="none", small=float(row.small), words=row.text) for row in ROWS]
    assert read_all(AvroFormat.for_rows(wanted), many_blocks, 50) == expected
    other = AvroSchema.parse_string(
        '{"type": "record", "name": "org.example.All", "fields": [{"name": "missing", "type": "long"}]}'
    )
    with pytest.raises(MalformedRecordError, match=r"block at byte \d+"):
        read_all(AvroFormat.for_rows(other), many_blocks, 50)


def test_what_is_no_avro_file_or_is_cut_is_an_error(many_blocks):
    for data in (b"", b"Obj", b"{}" * 50):
        with pytest.raises(SourceError, match=r"'x\.avro' is no Avro file"):
            read_all(AvroFormat.for_rows(), data, 10)
    with pytest.raises(MalformedRecordError, match=r"file 'x\.avro', block at byte \d+"):
        read_all(AvroFormat.for_rows(), many_blocks[:-30], 10)


def test_empty_files_have_no_records():
    data = written(SCHEMA, [])
    assert list(fastavro.reader(io.BytesIO(data))) == []
    assert read_all(AvroFormat.for_rows(), data, 10) == []


# ---- Parquet ----


def test_parquet_files_are_read_and_written_as_generic_records():
    pq = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    writer = AvroParquetWriters.for_generic_record(SCHEMA).create(file)
    writer.add_elements([row.as_dict(recursive=True) for row in ROWS])
    writer.finish()
    table = pq.read_table(io.BytesIO(file.getvalue()))
    assert table.column("at").to_pylist() == [row.at for row in ROWS]
    assert table.column("inner").to_pylist() == [row.inner and {"x": 1.5} for row in ROWS]
    fmt = AvroParquetReaders.for_generic_record(SCHEMA)
    assert read_all(fmt, file.getvalue(), 33) == [row.as_dict(recursive=True) for row in ROWS]


# ---- types and jobs ----


def test_generic_record_type_tells_what_fits():
    kind = GenericRecordAvroTypeInfo(SCHEMA)
    records = [row.as_dict(recursive=True) for row in ROWS]
    assert kind.find_mismatch(records) is None
    assert kind.find_mismatch([records[0], {**records[1], "small": "x"}]) == 1
    assert kind.find_mismatch([5]) == 0
    assert kind.describe() == "GENERIC_RECORD<org.example.All>"
    assert pickle.loads(pickle.dumps(kind)) == kind


USER = '{"type": "record", "name": "User", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}'


def test_jobs_write_and_read_avro_files(tmp_path):
    schema = AvroSchema.parse_string(USER)
    out = str(tmp_path / "out")
    with MiniCluster(parallelism=2) as cluster:
        env = cluster.environment()
        users = env.from_collection(
            [{"n": n, "s": str(n)} for n in range(500)], GenericRecordAvroTypeInfo(schema)
        )
        users.sink_to(FileSink.for_bulk_format(out, AvroBulkWriters.for_generic_record(schema)).build())
        env.execute()
        env = cluster.environment()
        read = env.create_input(AvroInputFormat(out, schema)).map(json.dumps)
        assert sorted(cluster.collect(read)) == sorted(json.dumps({"n": n, "s": str(n)}) for n in range(500))
        rows = FileSource.for_bulk_file_format(AvroFormat.for_rows(schema), out).set_split_size(1_000).build()
        env = cluster.environment()
        stream = env.from_source(rows, WatermarkStrategy.no_watermarks(), "users")
        assert sorted(row.n for row in cluster.collect(stream)) == list(range(500))
