"""Windows of the Table API (PyFlink's `pyflink.table.window`): group windows, and windows of OVER."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from millstream.table.plan.bind.table_expressions import tree_of
from millstream.table.sql import ast

__all__ = [
    "GroupWindow",
    "Over",
    "OverWindow",
    "OverWindowPartitioned",
    "OverWindowPartitionedOrdered",
    "OverWindowPartitionedOrderedPreceding",
    "Session",
    "SessionWithGap",
    "SessionWithGapOnTime",
    "Slide",
    "SlideWithSize",
    "SlideWithSizeAndSlide",
    "SlideWithSizeAndSlideOnTime",
    "Tumble",
    "TumbleWithSize",
    "TumbleWithSizeOnTime",
]


class GroupWindow:
    """A window to group by, with the name that `group_by` refers to.

    Attributes:
        name: The name.
        call: The window as SQL's group window function.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Tumble
        >>> Tumble.over(lit(10).minutes).on(col("ts")).alias("w").name
        'w'
    """

    def __init__(self, name: str, call: ast.Function) -> None:
        self.name = name
        self.call = call


@dataclass(frozen=True)
class _Draft:
    kind: str
    sizes: tuple[ast.Expression, ...] = ()
    time: ast.Expression | None = None

    def named(self, alias: str) -> GroupWindow:
        assert self.time is not None, "a window without time"
        return GroupWindow(alias, ast.Function(self.kind, (self.time, *self.sizes)))


class Tumble:
    """Windows side by side: `Tumble.over(lit(10).minutes).on(col("ts")).alias("w")`.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Tumble
        >>> window = Tumble.over(lit(10).minutes).on(col("ts")).alias("w")
        >>> # orders.window(window).group_by(col("w"), col("shop")).select(col("shop"), col("w").end, col("cents").sum)
    """

    @classmethod
    def over(cls, size: Any) -> TumbleWithSize:
        """Say how long windows are."""
        return TumbleWithSize(_Draft("TUMBLE", (tree_of(size),)))


class TumbleWithSize:
    """Windows of a size.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Tumble
        >>> hours = Tumble.over(lit(1).hours)
        >>> by_order, by_payment = hours.on(col("ordered")).alias("w"), hours.on(col("paid")).alias("w")
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def on(self, time_field: Any) -> TumbleWithSizeOnTime:
        """Say which column is the time attribute."""
        return TumbleWithSizeOnTime(replace(self._draft, time=tree_of(time_field)))


class TumbleWithSizeOnTime:
    """Windows of a size by a time attribute.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Tumble
        >>> window = Tumble.over(lit(1).hours).on(col("ts")).alias("hour")  # group_by(col("hour"))
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def alias(self, alias: str) -> GroupWindow:
        """Give the window a name."""
        return self._draft.named(alias)


class Session:
    """Windows with a gap between them: `Session.with_gap(lit(10).minutes).on(col("ts")).alias("w")`.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Session
        >>> window = Session.with_gap(lit(30).minutes).on(col("ts")).alias("visit")
        >>> # clicks.window(window).group_by(col("visit"), col("user")).select(col("user"), col("page").count)
    """

    @classmethod
    def with_gap(cls, gap: Any) -> SessionWithGap:
        """Say how long nothing comes before a window ends."""
        return SessionWithGap(_Draft("SESSION", (tree_of(gap),)))


class SessionWithGap:
    """Sessions with a gap.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Session
        >>> half_an_hour = Session.with_gap(lit(30).minutes)
        >>> visits = half_an_hour.on(col("clicked")).alias("visit")
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def on(self, time_field: Any) -> SessionWithGapOnTime:
        """Say which column is the time attribute."""
        return SessionWithGapOnTime(replace(self._draft, time=tree_of(time_field)))


class SessionWithGapOnTime:
    """Sessions with a gap by a time attribute.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Session
        >>> Session.with_gap(lit(30).minutes).on(col("ts")).alias("visit").name
        'visit'
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def alias(self, alias: str) -> GroupWindow:
        """Give the window a name."""
        return self._draft.named(alias)


class Slide:
    """Windows that overlap: `Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("ts")).alias("w")`.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Slide
        >>> window = Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("ts")).alias("w")
        >>> # orders.window(window).group_by(col("w"), col("shop")).select(col("shop"), col("cents").avg)
    """

    @classmethod
    def over(cls, size: Any) -> SlideWithSize:
        """Say how long windows are."""
        return SlideWithSize(_Draft("HOP", (tree_of(size),)))


class SlideWithSize:
    """Windows of a size.

    Example:
        >>> from millstream.table.expressions import lit
        >>> from millstream.table.window import Slide
        >>> hours = Slide.over(lit(1).hours)
        >>> each_minute, each_quarter = hours.every(lit(1).minutes), hours.every(lit(15).minutes)
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def every(self, slide: Any) -> SlideWithSizeAndSlide:
        """Say how far apart windows begin."""
        return SlideWithSizeAndSlide(replace(self._draft, sizes=(tree_of(slide), *self._draft.sizes)))


class SlideWithSizeAndSlide:
    """Windows of a size that begin every slide.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Slide
        >>> each_minute = Slide.over(lit(1).hours).every(lit(1).minutes)
        >>> window = each_minute.on(col("ts")).alias("w")
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def on(self, time_field: Any) -> SlideWithSizeAndSlideOnTime:
        """Say which column is the time attribute."""
        return SlideWithSizeAndSlideOnTime(replace(self._draft, time=tree_of(time_field)))


class SlideWithSizeAndSlideOnTime:
    """Windows of a size that begin every slide, by a time attribute.

    Example:
        >>> from millstream.table.expressions import col, lit
        >>> from millstream.table.window import Slide
        >>> Slide.over(lit(1).hours).every(lit(1).minutes).on(col("ts")).alias("w").name
        'w'
    """

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft

    def alias(self, alias: str) -> GroupWindow:
        """Give the window a name."""
        return self._draft.named(alias)


class OverWindow:
    """The rows around a row, with the name that `over` refers to.

    Attributes:
        name: The name.
        window: The window as SQL's.

    Example:
        >>> from millstream.table.expressions import col
        >>> from millstream.table.window import Over
        >>> Over.partition_by(col("shop")).order_by(col("ts")).alias("w").name
        'w'
    """

    def __init__(self, name: str, window: ast.WindowSpec) -> None:
        self.name = name
        self.window = window


class Over:
    """Windows of OVER: `Over.partition_by(col("k")).order_by(col("ts")).preceding(UNBOUNDED_RANGE).alias("w")`.

    Example:
        >>> from millstream.table.expressions import UNBOUNDED_RANGE, col
        >>> from millstream.table.window import Over
        >>> window = Over.partition_by(col("shop")).order_by(col("ts")).preceding(UNBOUNDED_RANGE).alias("w")
        >>> # orders.over_window(window).select(col("shop"), col("cents").sum.over(col("w")))
    """

    @classmethod
    def order_by(cls, order_by: Any) -> OverWindowPartitionedOrdered:
        """Say which column rows are ordered by."""
        return OverWindowPartitionedOrdered((), tree_of(order_by))

    @classmethod
    def partition_by(cls, *partition_by: Any) -> OverWindowPartitioned:
        """Say which columns rows are parted by."""
        return OverWindowPartitioned(tuple(map(tree_of, partition_by)))


class OverWindowPartitioned:
    """Rows parted by columns.

    Example:
        >>> from millstream.table.expressions import col
        >>> from millstream.table.window import Over
        >>> window = Over.partition_by(col("shop"), col("currency")).order_by(col("ts")).alias("w")
    """

    def __init__(self, partition: tuple[ast.Expression, ...]) -> None:
        self._partition = partition

    def order_by(self, order_by: Any) -> OverWindowPartitionedOrdered:
        """Say which column rows are ordered by."""
        return OverWindowPartitionedOrdered(self._partition, tree_of(order_by))


class OverWindowPartitionedOrdered:
    """Rows parted and ordered; all rows up to the current one, unless `preceding` says otherwise.

    Example:
        >>> from millstream.table.expressions import col, row_interval
        >>> from millstream.table.window import Over
        >>> ordered = Over.partition_by(col("shop")).order_by(col("ts"))
        >>> so_far, last_ten = ordered.alias("w"), ordered.preceding(row_interval(9)).alias("w")
    """

    def __init__(self, partition: tuple[ast.Expression, ...], order: ast.Expression) -> None:
        self._window = ast.WindowSpec(partition, (ast.OrderItem(order),))

    def alias(self, alias: str) -> OverWindow:
        """Give the window a name."""
        return OverWindow(alias, self._window)

    def preceding(self, preceding: Any) -> OverWindowPartitionedOrderedPreceding:
        """Say how far back the window goes: rows, an interval, UNBOUNDED_ROW or UNBOUNDED_RANGE."""
        return OverWindowPartitionedOrderedPreceding(self._window, preceding)


class OverWindowPartitionedOrderedPreceding:
    """Rows parted and ordered, from a bound on.

    Example:
        >>> from millstream.table.expressions import CURRENT_RANGE, col, lit
        >>> from millstream.table.window import Over
        >>> last_hour = Over.partition_by(col("shop")).order_by(col("ts")).preceding(lit(1).hours)
        >>> window = last_hour.following(CURRENT_RANGE).alias("w")
    """

    def __init__(self, window: ast.WindowSpec, preceding: Any, following: Any = None) -> None:
        self._window = window
        self._preceding = preceding
        self._following = following

    def alias(self, alias: str) -> OverWindow:
        """Give the window a name."""
        rows, lower = frame_bound(self._preceding, following=False)
        upper = ast.FrameBound(None, current=True)
        if self._following is not None:
            _, upper = frame_bound(self._following, following=True)
        return OverWindow(alias, replace(self._window, rows=rows, lower=lower, upper=upper))

    def following(self, following: Any) -> OverWindowPartitionedOrderedPreceding:
        """Say how far ahead the window goes: CURRENT_ROW, CURRENT_RANGE, rows or an interval."""
        return OverWindowPartitionedOrderedPreceding(self._window, self._preceding, following)


_WORDS = {
    "UNBOUNDED_ROW": (True, False),
    "UNBOUNDED_RANGE": (False, False),
    "CURRENT_ROW": (True, True),
    "CURRENT_RANGE": (False, True),
}
"""Whether a word means rows, and the current one."""


def frame_bound(bound: Any, *, following: bool) -> tuple[bool, ast.FrameBound]:
    """Return whether a bound counts rows, and the bound."""
    tree = tree_of(bound)
    if isinstance(tree, ast.Function) and tree.name.upper() in _WORDS:
        rows, current = _WORDS[tree.name.upper()]
        return rows, ast.FrameBound(None, following=following, current=current)
    if isinstance(tree, ast.Function) and tree.name.upper() in ("ROW_INTERVAL", "ROWS"):
        return True, ast.FrameBound(tree.arguments[0], following=following)
    return isinstance(tree, ast.LiteralValue), ast.FrameBound(tree, following=following)
