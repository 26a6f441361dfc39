"""The operator of MATCH_RECOGNIZE: checkpoints, restores at other parallelisms, late rows; conditions row by row."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from match_queries import QUERIES, RECORDED, lines, plain, table
from sql_runs import INSERT, SqlRun

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment
from millstream.table.expressions.compiling import ExpressionProgram
from millstream.table.expressions.rex import InputRef, Literal, RowSchema
from millstream.table.functions.registry import build_call
from millstream.table.runtime.match.plain_values import column_of_plain, plain_column
from millstream.table.runtime.match.scalars import compile_scalar
from millstream.table.runtime.specs import MatchSpec
from millstream.types.datatypes import DataTypes

pytestmark = pytest.mark.filterwarnings("ignore::millstream.cep.GrowingStateWarning")

FLINK = json.loads(RECORDED.read_text())["results"]
RUN = [
    "v shape",
    "v shape, next row",
    "average below",
    "within",
    "first and last with offsets",
    "decimals and text",
]


def spec_of(query, directory):
    """Return the operator that a query is planned to."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    tables = StreamTableEnvironment.create(environment)
    tables.execute_sql(table(str(directory)))
    tables.to_data_stream(tables.sql_query(query))
    (found,) = [each.spec for each in environment._transformations if isinstance(each.spec, MatchSpec)]
    return found


def ticks():
    """Yield the table's rows as Python has them."""
    for line in lines():
        symbol, at, number, price, amount, fee, note = line.split(",")
        moment = datetime.datetime.fromisoformat(at)
        yield {
            "symbol": symbol,
            "rt": moment,
            "id": int(number),
            "price": None if price == "null" else int(price),
            "amount": float(amount),
            "fee": Decimal(fee),
            "note": note,
        }


def millis(moment):
    return int(moment.replace(tzinfo=datetime.UTC).timestamp() * 1000)


@pytest.mark.parametrize("name", RUN)
def test_restores_change_nothing(name, tmp_path):
    spec = spec_of(QUERIES[name], tmp_path)
    steps, seen = [], 0
    for row in ticks():
        steps.append((0, (INSERT, tuple(row[each] for each in spec.input.names))))
        seen = max(seen, millis(row["rt"]) - 3000)
        steps.append(seen)
    for seed in range(4):
        run = SqlRun(spec, [spec.input], [spec.clause.partition], Random(seed))
        rows = sorted((plain(row) for row in run.run(steps).elements()), key=repr)
        assert rows == FLINK[name]["rows"], f"seed {seed}"


def test_late_rows_are_dropped(tmp_path):
    spec = spec_of(QUERIES["overlapping"], tmp_path)
    run = SqlRun(spec, [spec.input], [spec.clause.partition], Random(1))
    rows = [
        tuple({**row, "price": 20}[each] for each in spec.input.names)
        for row in ticks()
        if row["symbol"] == "A"
    ]
    run.push(0, [(INSERT, rows[0]), (INSERT, rows[5])])
    last = max(millis(value) for value in rows[5] if isinstance(value, datetime.datetime))
    run.watermark(last)
    run.end_epoch()
    run.push(0, [(INSERT, rows[2])])
    run.harness.end_input()
    run.fold()
    ids = [(row[1], row[2]) for _, row in run.emitted]
    run.harness.close()
    place = spec.input.names.index("id")
    assert ids == [(rows[0][place], rows[5][place])]


def test_partial_matches_end_with_their_time(tmp_path):
    spec = spec_of(QUERIES["within"], tmp_path)
    run = SqlRun(spec, [spec.input], [spec.clause.partition], Random(1))
    row = next(ticks())
    run.push(0, [(INSERT, tuple(row[each] for each in spec.input.names))])
    run.watermark(millis(row["rt"]))
    run.end_epoch()
    assert "matches" in repr(run.harness.snapshot())
    run.watermark(millis(row["rt"]) + 7000)
    run.end_epoch()
    run.harness.end_input()
    run.fold()
    run.harness.close()
    assert run.emitted == []


TYPES = {"i": DataTypes.INT(), "l": DataTypes.BIGINT(), "d": DataTypes.DOUBLE(), "s": DataTypes.STRING()}


def expression(random, depth):
    """Return a random condition over two columns of each type."""
    names = list(TYPES)

    def column(name):
        return InputRef(2 * names.index(name) + random.randrange(2), TYPES[name])

    def number(deep):
        name = random.choice("ild")
        if deep and random.random() < 0.5:
            return build_call(random.choice("+-*"), [number(deep - 1), number(deep - 1)])
        if random.random() < 0.2:
            return build_call("COALESCE", [column(name), column(name)])
        if random.random() < 0.3:
            return Literal(random.randrange(-3, 4), DataTypes.INT(False))
        return column(name)

    if depth and random.random() < 0.6:
        name = random.choice(["AND", "OR", "NOT"])
        count = 1 if name == "NOT" else 2
        return build_call(name, [expression(random, depth - 1) for _ in range(count)])
    if random.random() < 0.2:
        return build_call(random.choice(["IS NULL", "IS NOT NULL"]), [column(random.choice(names))])
    comparison = random.choice(["=", "<>", "<", "<=", ">", ">="])
    if random.random() < 0.3:
        return build_call(comparison, [column("s"), column("s")])
    return build_call(comparison, [number(1), number(1)])


def test_conditions_row_by_row_are_those_of_columns():
    """The oracle is the program that computes columns, which is tested against Flink on its own."""
    random = Random(3)
    values = {
        "i": [None, -(2**31), 2**31 - 1, 0, 1, -2],
        "l": [None, -(2**63), 2**63 - 1, 0, 2, 3],
        "d": [None, 0.5, -1.0, float("inf"), 2.0, 1e300],
        "s": [None, "", "a", "b", "ü", "𝄞"],
    }
    names = [f"{name}{place}" for name in TYPES for place in range(2)]
    schema = RowSchema(tuple(names), tuple(TYPES[name[0]] for name in names))
    kinds = {"i": pa.int32(), "l": pa.int64(), "d": pa.float64(), "s": pa.string()}
    rows = [[random.choice(values[name[0]]) for name in names] for _ in range(40)]
    columns = [
        pa.array(each, kinds[name[0]]) for name, each in zip(names, zip(*rows, strict=True), strict=True)
    ]
    compiled = 0
    for _ in range(150):
        condition = expression(random, 2)
        scalar = compile_scalar(condition)
        if scalar is None:
            continue
        compiled += 1
        program = ExpressionProgram((condition,), schema)
        program.open()
        (wanted,) = program.evaluate(pa.RecordBatch.from_arrays(columns, names))
        assert [scalar(row) for row in rows] == wanted.to_pylist(), condition
    assert compiled > 50


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1.50"), None, Decimal("-3.25")], pa.decimal128(10, 2)),
        pa.array([1, None, 3], pa.timestamp("us")),
        pa.array([1, None, 3], pa.timestamp("ns", "UTC")),
        pa.array(["a", None, ""]),
        pa.array([True, None, False]),
        pa.array([[1], None, []], pa.list_(pa.int32())),
        pa.array([datetime.date(2024, 1, 1), None], pa.date32()),
    ],
    ids=lambda column: str(column.type),
)
def test_plain_values_are_columns_again(column):
    assert column_of_plain(plain_column(column), column.type).equals(column)
