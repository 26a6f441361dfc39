"""Members of `Expression` that make intervals, and functions of times."""

from __future__ import annotations

from typing import Any, Self

from millstream.table.expressions.building import Built, interval, literal_node
from millstream.table.expressions.units import TimeIntervalUnit
from millstream.table.sql import ast
from millstream.types import datatypes as t

__all__ = ["TimesMembers"]


class TimesMembers(Built):
    """Functions of times."""

    def _interval(self, unit: str) -> Self:
        node, length, months = interval(self, unit)
        if not isinstance(node, ast.IntervalLiteral):
            return self._of(node, f"times({self}, {length})")
        return self._of(node, str(node.value) if not months else f"{node.value} months")

    @property
    def year(self) -> Self:
        """Return an interval of so many years."""
        return self._interval("YEAR")

    @property
    def years(self) -> Self:
        """Return an interval of so many years."""
        return self._interval("YEAR")

    @property
    def quarter(self) -> Self:
        """Return an interval of so many quarters."""
        return self._interval("QUARTER")

    @property
    def quarters(self) -> Self:
        """Return an interval of so many quarters."""
        return self._interval("QUARTER")

    @property
    def month(self) -> Self:
        """Return an interval of so many months."""
        return self._interval("MONTH")

    @property
    def months(self) -> Self:
        """Return an interval of so many months."""
        return self._interval("MONTH")

    @property
    def week(self) -> Self:
        """Return an interval of so many weeks."""
        return self._interval("WEEK")

    @property
    def weeks(self) -> Self:
        """Return an interval of so many weeks."""
        return self._interval("WEEK")

    @property
    def day(self) -> Self:
        """Return an interval of so many days."""
        return self._interval("DAY")

    @property
    def days(self) -> Self:
        """Return an interval of so many days."""
        return self._interval("DAY")

    @property
    def hour(self) -> Self:
        """Return an interval of so many hours."""
        return self._interval("HOUR")

    @property
    def hours(self) -> Self:
        """Return an interval of so many hours."""
        return self._interval("HOUR")

    @property
    def minute(self) -> Self:
        """Return an interval of so many minutes."""
        return self._interval("MINUTE")

    @property
    def minutes(self) -> Self:
        """Return an interval of so many minutes."""
        return self._interval("MINUTE")

    @property
    def second(self) -> Self:
        """Return an interval of so many seconds."""
        return self._interval("SECOND")

    @property
    def seconds(self) -> Self:
        """Return an interval of so many seconds."""
        return self._interval("SECOND")

    @property
    def milli(self) -> Self:
        """Return an interval of so many milliseconds."""
        return self._interval("MILLI")

    @property
    def millis(self) -> Self:
        """Return an interval of so many milliseconds."""
        return self._interval("MILLI")

    @property
    def to_date(self) -> Self:
        """Return a text of the form `2024-02-29` as DATE."""
        return self._of(ast.Cast(self.node, t.DateType()), f"cast({self}, DATE)")

    @property
    def to_time(self) -> Self:
        """Return a text of the form `12:30:00` as TIME."""
        return self._of(ast.Cast(self.node, t.TimeType(0)), f"cast({self}, TIME(0))")

    @property
    def to_timestamp(self) -> Self:
        """Return a text of the form `2024-02-29 12:30:00` as TIMESTAMP(3)."""
        return self._of(ast.Cast(self.node, t.TimestampType(3)), f"cast({self}, TIMESTAMP(3))")

    def extract(self, time_interval_unit: TimeIntervalUnit) -> Self:
        """Return a part of a time."""
        unit = time_interval_unit.name
        return self._of(ast.Function("EXTRACT", (literal_node(unit), self.node)), f"extract({unit}, {self})")

    def _rounded(self, name: str, unit: TimeIntervalUnit | None) -> Self:
        if unit is None:
            return self._call(name.upper(), name, self)
        node = ast.Function(name.upper(), (self.node, literal_node(unit.name)))
        return self._of(node, f"{name}({self}, {unit.name})")

    def floor(self, time_interval_unit: TimeIntervalUnit | None = None) -> Self:
        """Return the next lower whole number, or the time at which its unit began."""
        return self._rounded("floor", time_interval_unit)

    def ceil(self, time_interval_unit: TimeIntervalUnit | None = None) -> Self:
        """Return the next higher whole number, or the time at which the next unit begins."""
        return self._rounded("ceil", time_interval_unit)

    # --- windows

    @property
    def start(self) -> Self:
        """Return the start of a window, inclusive."""
        return self._call("START", "start", self)

    @property
    def end(self) -> Self:
        """Return the end of a window, exclusive."""
        return self._call("END", "end", self)

    @property
    def rowtime(self) -> Self:
        """Declare a column an event-time attribute, or return a window's."""
        return self._call("ROWTIME", "rowtime", self)

    @property
    def proctime(self) -> Self:
        """Declare a column a processing-time attribute, or return a window's."""
        return self._call("PROCTIME", "proctime", self)

    def over(self, alias: Any) -> Self:
        """Return an aggregate over the rows of an over window, which `alias` names."""
        name = alias.node.parts[-1] if isinstance(alias, Built) else alias  # type: ignore[attr-defined]
        assert isinstance(self.node, ast.Function), "over stands behind an aggregate"
        node = ast.Function(
            self.node.name,
            self.node.arguments,
            self.node.distinct,
            self.node.filter,
            self.node.order,
            name,
            self.node.nulls,
            self.node.star,
            self.node.clauses,
        )
        return self._of(node, f"over({self}, {alias})")
