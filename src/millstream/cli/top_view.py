"""What `millstream top` shows of a job, and how: no terminal, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.cli.text import format_ms, format_size

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from millstream.runtime.control.gateway import JobGateway
    from millstream.runtime.control.views import JobView, MetricsView

__all__ = ["JobLine", "VertexLine", "look_at", "render"]

_MUCH = 500
"""Milliseconds in a second from which on a share of time is shown as much."""
_LATE_MS = 60_000


@dataclass(frozen=True, slots=True)
class VertexLine:
    """A vertex: the subtask that waits and works the most stands for it.

    Attributes:
        name: Its name.
        parallelism: Number of its subtasks.
        records_in: Records that came in, of all subtasks.
        records_out: Records that it sent.
        busy_ms: How long it worked in a second; None if that is not known, as the next.
        back_pressured_ms: How long it waited because others had not kept up.
        held: Records that wait at its input.
    """

    name: str
    parallelism: int
    records_in: int
    records_out: int
    busy_ms: int | None
    back_pressured_ms: int | None
    held: int


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job at one moment.

    Attributes:
        job_id: Of the job.
        name: Of the job.
        status: Flink's job status; "SILENT" if it does not answer.
        seen_ms: When it was seen.
        uptime_ms: Since when it runs.
        parallelism: Number of its slots.
        restarts: How often it was started again.
        records: Records that sources have read.
        per_second: Records that they read in a second.
        lag_ms: How far its watermark is behind the clock; None if it has none.
        completed: Checkpoints that were completed.
        failed: Checkpoints that failed.
        last_duration_ms: Of the last checkpoint; None if there is none, as the next.
        last_size: Of its state.
        vertices: Its vertices.
    """

    job_id: str
    name: str
    status: str
    seen_ms: int
    uptime_ms: int = 0
    parallelism: int = 0
    restarts: int = 0
    records: int = 0
    per_second: float = 0.0
    lag_ms: int | None = None
    completed: int = 0
    failed: int = 0
    last_duration_ms: int | None = None
    last_size: int | None = None
    vertices: tuple[VertexLine, ...] = ()

    @property
    def busiest(self) -> int | None:
        """How long the busiest vertex works in a second."""
        return max((each.busy_ms for each in self.vertices if each.busy_ms is not None), default=None)

    @property
    def most_pressed(self) -> int | None:
        """How long the vertex waits for others that waits the most."""
        found = [each.back_pressured_ms for each in self.vertices if each.back_pressured_ms is not None]
        return max(found, default=None)


def look_at(job: JobGateway, before: JobLine | None) -> JobLine:
    """Return how a job is; throughput is since `before`, else of the last minute.

    Raises:
        JobExecutionError: If it does not answer: it may have ended.
    """
    from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
    from millstream.runtime.control.views import CheckpointsView, JobView, MetricsView

    seen, checkpoints = job.view(JobView), job.view(CheckpointsView)
    watermark = seen.watermark_ms
    has_lag = watermark is not None and MIN_TIMESTAMP < watermark < MAX_TIMESTAMP
    latest = checkpoints.latest_completed
    since = None if before is None or before.status == "SILENT" else before
    if since is not None and seen.seen_ms > since.seen_ms:
        per_second = max(seen.records_read - since.records, 0) * 1000 / (seen.seen_ms - since.seen_ms)
    else:
        per_second = _rate(job.view(MetricsView), seen)
    return JobLine(
        job_id=seen.job_id,
        name=seen.name,
        status=seen.status,
        seen_ms=seen.seen_ms,
        uptime_ms=seen.duration_ms,
        parallelism=seen.parallelism,
        restarts=seen.restarts,
        records=seen.records_read,
        per_second=per_second,
        lag_ms=max(seen.seen_ms - watermark, 0) if has_lag and watermark is not None else None,
        completed=checkpoints.counts.completed,
        failed=checkpoints.counts.failed,
        last_duration_ms=None if latest is None else latest.duration_ms,
        last_size=None if latest is None else latest.state_size,
        vertices=tuple(
            VertexLine(
                vertex.name,
                len(vertex.subtasks),
                vertex.records_in,
                vertex.records_out,
                _most(each.busy_ms_per_second for each in vertex.subtasks),
                _most(each.back_pressured_ms_per_second for each in vertex.subtasks),
                sum(each.held_records for each in vertex.subtasks),
            )
            for vertex in seen.vertices
        ),
    )


def _rate(metrics: MetricsView, job: JobView) -> float:
    """Return how many records sources have emitted in a second of the last minute."""
    sources = {
        each.operator_id for vertex in job.plan.vertices for each in vertex.operators if each.is_source
    }
    return sum(
        float(each.value["rate"])
        for each in metrics.metrics
        if each.name == "numRecordsOutPerSecond" and each.operator_id in sources
    )


def _most(values: Iterable[int | None]) -> int | None:
    found = [each for each in values if each is not None]
    return max(found, default=None)


def render(lines: Sequence[JobLine], *, details: bool, title: str) -> RenderableType:
    """Return the view of some jobs.

    Args:
        lines: The jobs.
        details: Whether vertices are shown too.
        title: What stands above.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(title, style="bold")]
    if not lines:
        parts.append(Text("no job runs on this machine for this user", style="dim"))
    else:
        parts.append(_jobs(lines))
    if details:
        parts += [_vertices(line) for line in lines if line.vertices]
    return Group(*parts)


def _jobs(lines: Sequence[JobLine]) -> Table:
    table = _table(
        "job", "!name", "status", ">par", ">uptime", ">records", ">records/s", ">busy", ">pressed", ">lag",
        ">chk", ">failed", ">last", ">state", ">restarts",
    )  # fmt: skip
    for line in lines:
        table.add_row(
            line.job_id[:8],
            _cell(line.name),
            _cell(line.status, "green" if line.status == "RUNNING" else "yellow"),
            str(line.parallelism),
            format_ms(line.uptime_ms),
            f"{line.records:,}",
            f"{line.per_second:,.0f}",
            _share(line.busiest),
            _share(line.most_pressed),
            _cell(
                "-" if line.lag_ms is None else format_ms(line.lag_ms),
                "red" if (line.lag_ms or 0) >= _LATE_MS else "",
            ),
            f"{line.completed:,}",
            _cell(f"{line.failed:,}", "red" if line.failed else ""),
            "-" if line.last_duration_ms is None else format_ms(line.last_duration_ms),
            "-" if line.last_size is None else format_size(line.last_size),
            _cell(f"{line.restarts:,}", "yellow" if line.restarts else ""),
        )
    return table


def _vertices(line: JobLine) -> Table:
    table = _table("!vertex", ">par", ">in", ">out", ">waiting", ">busy", ">pressed")
    table.title = _cell(f"{line.job_id[:8]} {line.name}")
    table.title_justify = "left"
    for each in line.vertices:
        table.add_row(
            _cell(each.name),
            str(each.parallelism),
            f"{each.records_in:,}",
            f"{each.records_out:,}",
            f"{each.held:,}",
            _share(each.busy_ms),
            _share(each.back_pressured_ms),
        )
    return table


def _table(*heads: str) -> Table:
    """Return an empty table; heads begin with ">" at the right, with "!" where names may be cut."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim")
    for head in heads:
        at_right, is_name = head.startswith(">"), head.startswith("!")
        table.add_column(
            head.lstrip(">!"),
            justify="right" if at_right else "left",
            no_wrap=True,
            overflow="ellipsis" if is_name else "fold",
            ratio=1 if is_name else None,
        )
    return table


def _share(milliseconds: int | None) -> Text | str:
    if milliseconds is None:
        return "-"
    return _cell(f"{milliseconds / 10:.0f} %", "red" if milliseconds >= _MUCH else "")


def _cell(text: str, style: str = "") -> Text:
    """Return a user's text as it is: no markup in it counts, and what would steer the terminal is shown."""
    from rich.text import Text

    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text), style)
