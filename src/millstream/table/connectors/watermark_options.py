"""Options of tables that say how their watermarks are made, named as Flink's.

| option | |
|---|---|
| `scan.watermark.emit.strategy` | `on-periodic`; `on-event` is refused |
| `scan.watermark.idle-timeout` | after how long without rows a split is not waited for |
| `scan.watermark.alignment.group`, `.max-drift`, `.update-interval` | sources that do not run ahead of each other |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.common.watermark_strategy import WatermarkAlignment
from millstream.table.connectors.options import WATERMARK_OPTIONS, ConnectorOptions

if TYPE_CHECKING:
    from millstream.table.catalog.resolved import ResolvedTable

__all__ = ["TableWatermarkOptions", "watermark_options"]

_STRATEGY, _GAP = "scan.watermark.emit.strategy", "scan.watermark.emit.on-event.gap"
_IDLE = "scan.watermark.idle-timeout"
_GROUP, _DRIFT = "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift"
_INTERVAL = "scan.watermark.alignment.update-interval"


@dataclass(frozen=True)
class TableWatermarkOptions:
    """What a table's options say of its watermarks.

    Attributes:
        idle_ms: After how long without rows a split counts as idle; None leaves it to the session.
        alignment: With which sources it is aligned; None with none.
    """

    idle_ms: int | None = None
    alignment: WatermarkAlignment | None = None


def watermark_options(table: ResolvedTable) -> TableWatermarkOptions:
    """Read the options of a table.

    Raises:
        ConfigurationError: If a value is wrong, one goes with another that is not there, or the table has no watermark.
        NotSupportedError: If a watermark is wanted behind each row.
    """
    given = [key for key in WATERMARK_OPTIONS if key in table.options]
    if not given:
        return TableWatermarkOptions()
    where = f"table \"{table.full_name}\" has the option '{given[0]}'"
    if table.watermark is None:
        raise ConfigurationError(
            f"{where}, and no watermark", hint="Declare WATERMARK FOR ... AS ..., or leave the option out."
        )
    options = ConnectorOptions(table)
    strategy = options.text(_STRATEGY, "on-periodic")
    if strategy == "on-event":
        raise NotSupportedError(
            f"table \"{table.full_name}\" has '{_STRATEGY}' = 'on-event'",
            detail="Watermarks of tables come behind each batch of a split's rows, not behind each row.",
            hint="Leave it out: a watermark that comes a little later makes no row late.",
        )
    if strategy != "on-periodic":
        raise options.error(_STRATEGY, str(strategy), "It is 'on-periodic' or 'on-event'.")
    if _GAP in options:
        raise ConfigurationError(
            f"table \"{table.full_name}\" has '{_GAP}', which is for '{_STRATEGY}' = 'on-event' only"
        )
    group, drift_ms = options.text(_GROUP), options.duration(_DRIFT)
    interval_ms = options.duration(_INTERVAL, 1_000)
    idle_ms = options.duration(_IDLE)
    if (group is None) != (drift_ms is None) or (group is None and _INTERVAL in options):
        raise ConfigurationError(
            f"{where}, but not all that watermark alignment needs",
            hint=f"Give both '{_GROUP}' and '{_DRIFT}', or none of them.",
        )
    if interval_ms is not None and interval_ms <= 0:
        raise options.error(_INTERVAL, f"{interval_ms} ms", "It has to be positive.")
    alignment = None
    if group is not None and drift_ms is not None:
        alignment = WatermarkAlignment(group, drift_ms, interval_ms or 1_000)
    return TableWatermarkOptions(idle_ms or None, alignment)
