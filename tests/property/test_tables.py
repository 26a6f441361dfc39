"""Tables through a stream: pyarrow says what is in them, whatever the epochs, parallelism and failures are."""

from __future__ import annotations

import datetime
from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.common import Configuration
from millstream.connectors.columns.table import TableSource
from millstream.datastream import MapFunction, StreamExecutionEnvironment
from millstream.types.arrow_typeinfo import row_type_of
from millstream.types.arrow_values import records_of

MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
SCALARS = st.sampled_from(
    [
        (pa.int8(), st.integers(-128, 127)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)),
        (pa.binary(), st.binary(max_size=3)),
        (pa.bool_(), st.booleans()),
        (pa.date32(), st.dates()),
        (pa.time64("us"), st.times()),
        (pa.timestamp("us"), MOMENTS),
        (pa.timestamp("us", "UTC"), MOMENTS.map(lambda at: at.replace(tzinfo=datetime.UTC))),
        (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    ]
)


def nested(inner):
    def lists(each):
        return pa.list_(each[0]), st.lists(st.none() | each[1], max_size=3)

    def maps(each):
        return pa.map_(pa.string(), each[0]), st.dictionaries(st.sampled_from("abc"), st.none() | each[1])

    def structs(parts):
        kinds = [pa.field(f"x{place}", kind) for place, (kind, _) in enumerate(parts)]
        values = {f"x{place}": st.none() | each for place, (_, each) in enumerate(parts)}
        return pa.struct(kinds), st.fixed_dictionaries(values)

    return inner.map(lists) | inner.map(maps) | st.lists(inner, min_size=1, max_size=3).map(structs)


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.recursive(SCALARS, nested, max_leaves=4), min_size=1, max_size=4))
    rows = draw(st.integers(0, 12))
    arrays = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for kind, values in kinds
    ]
    table = pa.table(arrays, [f"c{place}" for place in range(len(arrays))])
    cut = draw(st.integers(0, rows))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def environment(**options):
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", **options})
    )


@settings(max_examples=60)
@given(tables(), st.integers(1, 5), st.booleans())
def test_a_table_comes_back_as_it_went_in(table, records, as_rows):
    env = environment(**{"millstream.epoch.fixed-records": records})
    stream = env.from_arrow(table)
    result = (stream.filter(lambda row: True) if as_rows else stream).to_arrow()
    assert result.schema == table.schema
    assert result.to_pylist() == table.to_pylist()


@settings(max_examples=60)
@given(tables())
def test_every_value_is_of_the_type_that_is_declared(table):
    kind = row_type_of(table.schema)
    for batch in table.to_batches():
        rows = records_of(batch)
        assert kind.find_mismatch(rows) is None
        assert kind.conform(rows) == rows


class Failing(MapFunction):
    """Fails once at each of some records; all attempts are in this process."""

    left: set[int] = set()

    def map(self, value):
        if value.n in Failing.left:
            Failing.left.discard(value.n)
            raise RuntimeError("injected")
        return value


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(1, 3), st.integers(1, 7), st.sets(st.integers(0, 59), max_size=3))
def test_after_failures_every_row_was_read_once(tmp_path_factory, rows, parallelism, records, failing):
    table = pa.table({"n": range(rows), "s": list(map(str, range(rows)))})
    Failing.left = set(failing)
    env = environment(
        **{
            "parallelism.default": parallelism,
            "millstream.epoch.fixed-records": records,
            "execution.checkpointing.interval": "1 ms",
            "execution.checkpointing.dir": str(tmp_path_factory.mktemp("checkpoints")),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 10,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )

    class Parallel(TableSource):
        def max_parallelism(self):
            return None

    stream = env._from_columns(Parallel(table), None, "table", row_type_of(table.schema))
    read = stream.map(Failing(), row_type_of(table.schema)).to_arrow()
    assert Counter(read["n"].to_pylist()) == Counter(range(rows))
    assert read.sort_by("n").equals(table)
    assert Failing.left <= set(range(rows, 60))
