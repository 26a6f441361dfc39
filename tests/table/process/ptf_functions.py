"""Process table functions that the tests call."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Annotated

from millstream.common import Instant
from millstream.table import ChangelogMode, ListView, MapView
from millstream.table.process_functions import (
    ArgumentHint,
    ArgumentTrait,
    ChangelogFunction,
    ProcessTableFunction,
    StateHint,
)
from millstream.types.row import Row, RowKind

ROWS = ArgumentTrait.ROW_SEMANTIC_TABLE
SET = ArgumentTrait.SET_SEMANTIC_TABLE
A = ArgumentHint
T = ArgumentTrait


class CountState:
    def __init__(self):
        self.counter = 0
        self.last = None


def shown(value):
    """Java's text of a value."""
    if value is None:
        return "null"
    if isinstance(value, Instant):
        return f"{shown(datetime.datetime.fromtimestamp(value.to_epoch_milli() / 1000, datetime.UTC))[:-6]}Z"
    if isinstance(value, datetime.datetime):
        digits = "minutes" if not value.second and not value.microsecond else "seconds"
        digits = (
            digits
            if not value.microsecond
            else "microseconds"
            if value.microsecond % 1000
            else "milliseconds"
        )
        return value.isoformat(timespec=digits)
    return str(value)


def row_text(row):
    """Java's text of a row: its kind and values."""
    return f"{row.get_row_kind()}[{', '.join(map(shown, row))}]"


def mode_text(mode):
    names = ["INSERT"] + ["UPDATE_BEFORE"] * mode.mode.before
    names += ["UPDATE_AFTER"] * mode.mode.updates + ["DELETE"] * mode.mode.deletes
    return f"[{', '.join(names)}]"


class Greeting(ProcessTableFunction[str]):
    def eval(self, input: Annotated[Row, A(ROWS)]):
        self.collect(f"Hello {shown(input['name'])}")


class Memory(ProcessTableFunction[str]):
    def eval(self, state: Annotated[CountState, StateHint()], input: Annotated[Row, A(SET)]):
        state.counter += 1
        yield f"Hello {shown(input['name'])} {state.counter} after {shown(state.last)}"
        state.last = f"{shown(input['name'])}/{shown(input[1])}"


class OptionalMemory(ProcessTableFunction[str]):
    def eval(
        self,
        state: Annotated[CountState, StateHint()],
        input: Annotated[Row, A(SET, T.OPTIONAL_PARTITION_BY)],
    ):
        state.counter += 1
        self.collect(f"{shown(input['name'])} {state.counter}")


class RowState(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<what STRING, n BIGINT>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        memory: Annotated[Row, StateHint(type="ROW<`count` BIGINT, seen STRING>")],
        input: Annotated[Row, A(SET)],
        most: Annotated[int, A(type="INT")],
    ):
        n = (memory["count"] or 0) + 1
        memory["count"] = n
        memory["seen"] = row_text(input)
        self.collect(Row(row_text(memory), n))
        if n == most:
            ctx.clear_all_state()


class Viewing(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<l STRING, m STRING>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        list: Annotated[ListView[str], StateHint()],
        map: Annotated[MapView[str, int], StateHint()],
        input: Annotated[Row, A(SET)],
    ):
        v = shown(input[1])
        if v == "0":
            ctx.clear_state("list")
        elif v == "9":
            ctx.clear_state("map")
        else:
            list.add(v)
            map.put(v, (map.get(v) or 0) + 1)
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(map.items()))
        self.collect((f"[{', '.join(list.get())}]", f"{{{pairs}}}"))


class PassRow(ProcessTableFunction[str]):
    def eval(self, input: Annotated[Row, A(ROWS, T.PASS_COLUMNS_THROUGH)], n: Annotated[int, A(type="INT")]):
        for i in range(n):
            self.collect(f"copy {i}")


class PassSet(ProcessTableFunction[str]):
    def eval(
        self, s: Annotated[CountState, StateHint()], input: Annotated[Row, A(SET, T.PASS_COLUMNS_THROUGH)]
    ):
        s.counter += 1
        self.collect(f"nr {s.counter}")


class FollowUp(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<what STRING, t STRING, wm STRING, twm STRING>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        state: Annotated[CountState, StateHint()],
        input: Annotated[Row, A(SET, T.REQUIRE_ON_TIME)],
    ):
        state.counter += 1
        time = ctx.time_context(datetime.datetime)
        millis = ctx.time_context(int)
        marks = shown(millis.current_watermark()), shown(millis.table_watermark())
        self.collect(Row(f"row {state.counter}", shown(time.time()), *marks))
        time.register_on_time(time.time() + datetime.timedelta(seconds=10))
        time.register_on_time("named", time.time() + datetime.timedelta(seconds=5))

    def on_timer(self, ctx: ProcessTableFunction.OnTimerContext, state):
        time = ctx.time_context(datetime.datetime)
        mark = shown(ctx.time_context(int).current_watermark())
        self.collect(
            Row(f"timer {shown(ctx.current_timer())} {state.counter}", shown(time.time()), mark, "null")
        )


class TimerPlay(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<what STRING>"

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        state: Annotated[CountState, StateHint()],
        input: Annotated[Row, A(SET, T.REQUIRE_ON_TIME)],
    ):
        t = ctx.time_context()
        v = input["v"]
        if v == 1:
            t.register_on_time("b", 20000)
            t.register_on_time("a", 20000)
            t.register_on_time(20000)
            t.register_on_time(20000)
            t.register_on_time("z", 19000)
        if v == 2:
            t.clear_timer("b")
            t.register_on_time("a", 21000)
        if v == 3:
            t.clear_timer(20000)
        if v == 4:
            ctx.clear_all_timers()
        if v == 5:
            t.register_on_time("late", 1)
            t.register_on_time(2)
        if v == 6:
            ctx.clear_all()
        if v == 7:
            t.register_on_time("again", 5000)
        state.counter += 1
        self.collect(Row(f"row {v} {state.counter}"))

    def on_timer(self, ctx: ProcessTableFunction.OnTimerContext, state):
        t = ctx.time_context()
        name = ctx.current_timer()
        self.collect(Row(f"timer {shown(name)}@{t.time()} {state.counter}"))
        if name == "again" and t.time() < 9000:
            t.register_on_time("again", t.time() + 1000)
            t.register_on_time("late", t.time() - 3000)
        if name == "late":
            ctx.clear_all_state()


class _Kinds(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<what STRING>"

    def give(self, ctx, input):
        mode = ctx.table_semantics_for("input").changelog_mode()
        self.collect(Row(f"{row_text(input)} {mode_text(mode)}"))


class Kinds(_Kinds):
    def eval(self, ctx: ProcessTableFunction.Context, input: Annotated[Row, A(SET, T.SUPPORT_UPDATES)]):
        self.give(ctx, input)


class KindsBefore(_Kinds):
    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        input: Annotated[Row, A(SET, T.SUPPORT_UPDATES, T.REQUIRE_UPDATE_BEFORE)],
    ):
        self.give(ctx, input)


class KindsFull(_Kinds):
    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        input: Annotated[Row, A(SET, T.SUPPORT_UPDATES, T.REQUIRE_FULL_DELETE)],
    ):
        self.give(ctx, input)


class KindsRow(_Kinds):
    def eval(self, ctx: ProcessTableFunction.Context, input: Annotated[Row, A(ROWS, T.SUPPORT_UPDATES)]):
        self.give(ctx, input)


@dataclass
class Last:
    last: int | None = None


class Retracting(ProcessTableFunction, ChangelogFunction):
    def get_result_type(self):
        return "ROW<v INT>"

    def get_changelog_mode(self, changelog_context):
        return ChangelogMode.all()

    def eval(
        self,
        ctx: ProcessTableFunction.Context,
        s: Annotated[Last, StateHint()],
        input: Annotated[Row, A(SET)],
    ):
        v = input[1]
        if s.last is not None and v == 0:
            self.collect(Row.of_kind(RowKind.DELETE, s.last))
            ctx.clear_all_state()
            return
        if s.last is not None:
            self.collect(Row.of_kind(RowKind.UPDATE_BEFORE, s.last))
            self.collect(Row.of_kind(RowKind.UPDATE_AFTER, v))
        else:
            self.collect(Row.of_kind(RowKind.INSERT, v))
        s.last = v


class Upserting(ProcessTableFunction, ChangelogFunction):
    def get_result_type(self):
        return "ROW<v INT>"

    def get_changelog_mode(self, changelog_context):
        return ChangelogMode.upsert()

    def eval(self, ctx: ProcessTableFunction.Context, input: Annotated[Row, A(SET)]):
        v = input[1]
        self.collect(Row.of_kind(RowKind.UPDATE_AFTER if v else RowKind.DELETE, v))


@dataclass
class Sides:
    left: str | None = None
    right: str | None = None


class Both(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<what STRING, x STRING, y STRING>"

    def eval(
        self, ctx, s: Annotated[Sides, StateHint()], a: Annotated[Row, A(SET)], b: Annotated[Row, A(SET)]
    ):
        if a is not None:
            s.left = str(a[1])
        if b is not None:
            s.right = str(b[1])
        self.collect(Row("a" if a is not None else "b", s.left, s.right))


class Gen(ProcessTableFunction[Annotated[int, "INT"]]):
    def get_result_type(self):
        return "INT"

    def eval(self, n: Annotated[int, A(type="INT")]):
        for i in range(n):
            self.collect(i)


class Sorted(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<s STRING>"

    def eval(self, ctx: ProcessTableFunction.Context, input: Annotated[Row, A(SET)]):
        t = ctx.time_context()
        self.collect(Row(f"{input['v']} wm {shown(t.current_watermark())} twm {shown(t.table_watermark())}"))


class SortTimers(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<what STRING, t STRING>"

    def eval(self, ctx: ProcessTableFunction.Context, input: Annotated[Row, A(SET, T.REQUIRE_ON_TIME)]):
        t = ctx.time_context(datetime.datetime)
        self.collect(Row(f"row {input['v']}", shown(t.time())))
        later = t.time() + datetime.timedelta(seconds=3)
        t.register_on_time(later)
        t.register_on_time(f"n{input['v']}", later)

    def on_timer(self, ctx: ProcessTableFunction.OnTimerContext):
        time = ctx.time_context(datetime.datetime).time()
        self.collect(Row(f"timer {shown(ctx.current_timer())}", shown(time)))


class Typed(ProcessTableFunction):
    def get_result_type(self):
        return "ROW<s STRING>"

    def eval(self, input: Annotated[Row, A(SET, type="ROW<name STRING, v BIGINT>")], k: int | None = None):
        self.collect(Row(f"{row_text(input)} {shown(k)}"))


@dataclass
class Cart:
    content: dict = field(default_factory=dict)


FUNCTIONS = {
    each.__name__: each
    for each in (
        Greeting, Memory, OptionalMemory, RowState, Viewing, PassRow, PassSet, FollowUp, TimerPlay, Kinds, KindsBefore,
        KindsFull, KindsRow, Retracting, Upserting, Both, Gen, Sorted, SortTimers, Typed,
    )
}  # fmt: skip
