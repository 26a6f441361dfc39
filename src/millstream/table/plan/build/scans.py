"""Scans of tables and streams, with normalization of upserts behind them."""

from __future__ import annotations

from typing import Any

from millstream.table.errors import ValidationError
from millstream.table.expressions.rex import RowSchema
from millstream.table.plan import physical as p
from millstream.table.plan.changes import INSERT_ONLY
from millstream.table.plan.logical import Scan, StreamScan
from millstream.table.plan.settings import PlanSettings

__all__ = ["scan_of", "stream_scan_of"]


def scan_of(node: Scan, settings: PlanSettings) -> p.PhysicalNode:
    """Return what reads a table.

    Raises:
        ValidationError: If upserts come without a primary key.
    """
    from millstream.table.connectors.registry import find_connector

    table: Any = node.table
    connector = find_connector(table)
    mode = connector.scan_mode()
    names = table.schema.names
    places = [names.index(name) for name in node.schema.names]
    upserts = mode.updates and not mode.before
    if not upserts and not (settings.duplicates and not mode.insert_only and table.primary_key):
        return p.TableScan(node.schema, table, tuple(places), mode, connector.is_bounded())
    if not table.primary_key:
        raise ValidationError(
            f'table "{table.full_name}" gives updates by key, but declares no PRIMARY KEY',
            hint="Declare PRIMARY KEY (...) NOT ENFORCED.",
        )
    return _normalized(node, table, places, mode, connector.is_bounded(), settings)


def _normalized(
    node: Scan, table: Any, places: list[int], mode: Any, bounded: bool, settings: PlanSettings
) -> p.PhysicalNode:
    """Return a scan of upserts as changes; the key is read even if nobody else wants it."""
    from millstream.table.plan.build.calcs import kept_columns

    names = table.schema.names
    wanted = list(places)
    places += [names.index(each) for each in table.primary_key if names.index(each) not in places]
    schema = RowSchema(
        tuple(names[each] for each in places), tuple(table.schema.types[each] for each in places)
    )
    scan = p.TableScan(schema, table, tuple(places), mode, bounded)
    key = tuple(schema.names.index(each) for each in table.primary_key)
    normalized = p.ChangelogNormalize(schema, scan, key, settings.ttl_ms, settings.duplicates)
    return kept_columns(normalized, range(len(wanted)), node.schema.names)


def stream_scan_of(node: StreamScan) -> p.PhysicalNode:
    """Return what reads a DataStream.

    Raises:
        ValidationError: If upserts come without a primary key.
    """
    from millstream.table.plan.build.calcs import kept_columns

    stream: Any = node.stream
    names: tuple[str, ...] = stream.schema.names
    places = tuple(names.index(name) for name in node.schema.names)
    mode = getattr(stream, "mode", INSERT_ONLY)
    key: tuple[str, ...] = getattr(stream, "primary_key", ())
    scan: p.PhysicalNode = p.DataStreamScan(node.schema, stream, places, mode)
    if mode.updates and not mode.before:
        if not key:
            raise ValidationError(
                "a stream gives updates by key, but its schema declares no primary key",
                hint="Declare it: Schema.new_builder()....primary_key(...).",
            )
        # The key is read, though nobody else asks for it.
        read = (*node.schema.names, *(name for name in key if name not in node.schema.names))
        places = tuple(map(names.index, read))
        schema = RowSchema(read, tuple(stream.schema.types[place] for place in places), node.schema.rowtime)
        scan = p.DataStreamScan(schema, stream, places, mode)
        normalized = p.ChangelogNormalize(schema, scan, tuple(map(read.index, key)))
        return kept_columns(normalized, range(len(node.schema)), node.schema.names)
    return scan
