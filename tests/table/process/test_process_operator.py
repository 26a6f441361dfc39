"""Process table functions under random epochs, checkpoints, restores and parallelisms, against plain Python."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any

import pytest
from sql_runs import INSERT, SqlRun

from millstream.table import ListView, MapView
from millstream.table.expressions.rex import Literal, RowSchema, SortKey
from millstream.table.functions.process_definition import process_definition
from millstream.table.plan.changes import INSERT_ONLY
from millstream.table.plan.processing import ProcessClause, TableInput
from millstream.table.process_functions import ArgumentHint, ArgumentTrait, ProcessTableFunction, StateHint
from millstream.table.runtime.process.process_spec import ProcessTableSpec
from millstream.types.datatypes import DataTypes as D
from millstream.types.row import Row

SET = ArgumentTrait.SET_SEMANTIC_TABLE
EVENTS = RowSchema(("k", "v", "ts"), (D.STRING(), D.BIGINT(), D.TIMESTAMP(3)), frozenset({2}))
EPOCH = datetime.datetime(1970, 1, 1)


def time_of(millis: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=millis)


def spec_of(
    function: ProcessTableFunction,
    tables: list[TableInput],
    *,
    on_time: bool,
    values: dict[str, Any] | None = None,
    ttl_ms: int | None = None,
    inputs: int = 1,
) -> ProcessTableSpec:
    declared = process_definition(function, "f")
    signature = declared.process
    given = tuple((values or {}).get(each.name) for each in signature.arguments)
    tables = [
        TableInput(argument, each.partition, each.order, each.time)
        for argument, each in zip(signature.tables, tables, strict=True)
    ]
    clause = ProcessClause(declared, tuple(tables), given, "f", on_time)
    names: list[str] = []
    types: list[Any] = []
    for table in tables:
        names += [EVENTS.names[place] for place in table.partition]
        types += [EVENTS.types[place] for place in table.partition]
    names += declared.row_type.field_names()
    types += declared.row_type.field_types()
    if on_time:
        names.append("rowtime")
        types.append(D.TIMESTAMP(3))
    output = RowSchema(tuple(f"{name}{place}" for place, name in enumerate(names)), tuple(types))
    schemas = (EVENTS,) * inputs
    return ProcessTableSpec(schemas, (INSERT_ONLY,) * inputs, clause, output, INSERT_ONLY, ttl_ms)


@dataclass
class Seen:
    n: int = 0
    first: int | None = None
    by_value: dict[int, int] = field(default_factory=dict)


class Sessions(ProcessTableFunction):
    """Rows of a key until none came for a while."""

    def get_result_type(self) -> str:
        return "ROW<n BIGINT, `first` BIGINT, most BIGINT>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        seen: Annotated[Seen, StateHint()],
        input: Annotated[Row, ArgumentHint(SET)],
        gap: int,
    ) -> None:
        seen.n += 1
        seen.first = input["v"] if seen.first is None else seen.first
        seen.by_value[input["v"]] = seen.by_value.get(input["v"], 0) + 1
        time = ctx.time_context()
        time.register_on_time("end", time.time() + gap)

    def on_timer(self, ctx: ProcessTableFunction.OnTimerContext, seen: Any) -> Any:
        yield seen.n, seen.first, max(seen.by_value.values())
        ctx.clear_all()


def steps_of(random: Random, count: int = 150) -> list[Any]:
    """Rows whose times are not behind the watermark, and watermarks."""
    steps: list[Any] = []
    watermark = 0
    for _ in range(count):
        if random.random() < 0.12:
            watermark += random.randint(1, 40)
            steps.append(watermark)
        else:
            time = watermark + random.randint(1, 60)
            steps.append((0, (INSERT, (random.choice(["a", "b", "c", None]), random.randint(0, 3), time))))
    return steps


def timed(steps: list[Any]) -> list[Any]:
    """The rows with their times as columns have them."""
    return [
        step if isinstance(step, int) else (step[0], (INSERT, (*step[1][1][:2], time_of(step[1][1][2]))))
        for step in steps
    ]


def sessions(steps: list[Any], gap: int) -> Counter[Any]:
    held: dict[Any, list[Any]] = {}
    found: Counter[Any] = Counter()
    for step in [*steps, 1 << 60]:
        if isinstance(step, int):
            for key, (end, values) in list(held.items()):
                if end <= step:
                    found[(key, len(values), values[0], max(Counter(values).values()), time_of(end))] += 1
                    del held[key]
        else:
            key, value, time = step[1][1]
            values = held[key][1] if key in held else []
            held[key] = [time + gap, [*values, value]]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_state_and_a_named_timer(seed: int) -> None:
    random = Random(seed)
    steps = steps_of(random)
    spec = spec_of(
        Sessions(), [TableInput(None, (0,), (), 2)], on_time=True, values={"gap": Literal(25, D.BIGINT())}
    )
    run = SqlRun(spec, [EVENTS], [(0,)], random)
    assert run.run(timed(steps)) == sessions(steps, 25)


class InOrder(ProcessTableFunction):
    """The values before each row, as far as they are kept."""

    def get_result_type(self) -> str:
        return "ROW<v BIGINT, before STRING, often BIGINT>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        last: Annotated[ListView[int], StateHint()],
        often: Annotated[MapView[int, int], StateHint()],
        input: Annotated[Row, ArgumentHint(SET)],
    ) -> None:
        value = input["v"]
        often[value] = (often.get(value) or 0) + 1
        self.collect(Row(value, ",".join(map(str, last)), often[value]))
        last.add(value)
        if len(last.get_list()) == 4:
            ctx.clear_state("last")


def in_order(steps: list[Any]) -> Counter[Any]:
    held: list[Any] = []
    last: dict[Any, list[int]] = defaultdict(list)
    often: Counter[Any] = Counter()
    found: Counter[Any] = Counter()
    for step in [*steps, 1 << 60]:
        if not isinstance(step, int):
            held.append(step[1][1])
            continue
        due = sorted((row for row in held if row[2] <= step), key=lambda row: (row[2], -row[1]))
        held = [row for row in held if row[2] > step]
        for key, value, _ in due:
            often[key, value] += 1
            found[(key, value, ",".join(map(str, last[key])), often[key, value])] += 1
            last[key] = [] if len(last[key]) == 3 else [*last[key], value]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_rows_in_an_order_with_views(seed: int) -> None:
    random = Random(seed)
    steps = steps_of(random)
    spec = spec_of(
        InOrder(), [TableInput(None, (0,), (SortKey(2), SortKey(1, True, False)), None)], on_time=False
    )
    assert SqlRun(spec, [EVENTS], [(0,)], random).run(timed(steps)) == in_order(steps)


def test_late_rows_are_dropped_where_there_is_an_order() -> None:
    spec = spec_of(InOrder(), [TableInput(None, (0,), (SortKey(2),), None)], on_time=False)
    steps = [(0, (INSERT, ("a", 1, 10))), 20, (0, (INSERT, ("a", 2, 20))), (0, (INSERT, ("a", 3, 21)))]
    assert SqlRun(spec, [EVENTS], [(0,)], Random(1)).run(timed(steps)) == Counter(
        {("a", 1, "", 1): 1, ("a", 3, "1", 1): 1}
    )


class Sums(ProcessTableFunction):
    """Sums of two tables, when time has come."""

    def get_result_type(self) -> str:
        return "ROW<l BIGINT, r BIGINT>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        sums: Annotated[Row, StateHint(type="ROW<l BIGINT, r BIGINT>")],
        a: Annotated[Row, ArgumentHint(SET)],
        b: Annotated[Row, ArgumentHint(SET)],
    ) -> None:
        assert (a is None) != (b is None)
        side, row = ("l", a) if a is not None else ("r", b)
        sums[side] = (sums[side] or 0) + row["v"]
        ctx.time_context().register_on_time(1_000_000)

    def on_timer(self, sums: Any) -> None:
        self.collect((sums["l"], sums["r"]))


@pytest.mark.parametrize("seed", range(4))
def test_two_tables(seed: int) -> None:
    random = Random(seed)
    steps = [step if isinstance(step, int) else (random.randint(0, 1), step[1]) for step in steps_of(random)]
    tables = [TableInput(None, (0,), (), 2)] * 2
    run = SqlRun(spec_of(Sums(), tables, on_time=True, inputs=2), [EVENTS] * 2, [(0,)] * 2, random)
    sums: dict[Any, list[Any]] = defaultdict(lambda: [None, None])
    for step in steps:
        if not isinstance(step, int):
            key, value, _ = step[1][1]
            sums[key][step[0]] = (sums[key][step[0]] or 0) + value
    assert run.run(timed(steps)) == Counter(
        (key, key, *each, time_of(1_000_000)) for key, each in sums.items()
    )


class Counting(ProcessTableFunction):
    """How many rows a key had, of two state entries that live for different times."""

    def get_result_type(self) -> str:
        return "ROW<short BIGINT, default_ BIGINT, always BIGINT>"

    def eval(
        self,
        short: Annotated[Row, StateHint(type="ROW<n BIGINT>", ttl="1 s")],
        usual: Annotated[Row, StateHint(type="ROW<n BIGINT>")],
        always: Annotated[ListView[int], StateHint(ttl=0)],
        input: Annotated[Row, ArgumentHint(SET)],
    ) -> None:
        if input["v"]:  # what is not changed does not live longer
            short["n"] = (short["n"] or 0) + 1
            usual["n"] = (usual["n"] or 0) + 1
            always.add(1)
        self.collect((short["n"], usual["n"], len(always.get_list())))


def test_times_to_live() -> None:
    spec = spec_of(Counting(), [TableInput(None, (0,), (), None)], on_time=False, ttl_ms=5_000)
    run = SqlRun(spec, [EVENTS], [(0,)], Random(0), disturbed=False)
    for now_ms, value in ((0, 1), (900, 1), (1_800, 0), (1_950, 0), (6_000, 1), (6_500, 0), (11_500, 0)):
        run.now_ms = now_ms
        run.harness.set_processing_time(now_ms)
        run.push(0, [(INSERT, ("a", value, EPOCH))])
        run.end_epoch()
    run.harness.close()
    assert [row for _, row in run.emitted] == [
        ("a", 1, 1, 1),
        ("a", 2, 2, 2),
        ("a", 2, 2, 2),
        ("a", None, 2, 2),
        ("a", 1, 1, 3),
        ("a", 1, 1, 3),
        ("a", None, None, 3),
    ]
