"""What a table of files has: its partitions, and how it is emptied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from urllib.parse import unquote

from millstream.base.errors import NotSupportedError
from millstream.connectors.files.buckets import partition_text
from millstream.files.paths import local_path
from millstream.table.catalog.resolved import ResolvedTable

__all__ = ["list_partitions", "partition_directory", "truncate"]


def list_partitions(table: ResolvedTable, wanted: Mapping[str, str]) -> list[str]:
    """Return the partitions that have a directory, `key=value/key=value`, those only that have the wanted values.

    Raises:
        NotSupportedError: If the table is not of local files.
    """
    base = _local(table)
    if not os.path.isdir(base):
        return []
    found = [""]
    for key in table.partition_keys:
        found = [
            f"{parent}/{entry.name}".lstrip("/")
            for parent in found
            for entry in sorted(os.scandir(os.path.join(base, parent)), key=lambda each: each.name)
            if entry.is_dir() and entry.name.startswith(f"{key}=")
        ]
    return [each for each in found if _fits(each, wanted)]


def partition_directory(table: ResolvedTable, values: Mapping[str, str | None]) -> str:
    """Return the directory of a partition, whether it is there or not.

    Raises:
        NotSupportedError: If the table is not of local files.
    """
    default = table.options.get("partition.default-name", "__DEFAULT_PARTITION__")
    parts = [
        f"{partition_text(key)}={partition_text(values[key] or '') or default}"
        for key in table.partition_keys
    ]
    return os.path.join(_local(table), *parts)


def truncate(table: ResolvedTable) -> None:
    """Remove all files of a table.

    Raises:
        NotSupportedError: If the table is not of local files.
    """
    base = _local(table)
    if not os.path.isdir(base):
        return
    for entry in list(os.scandir(base)):
        if entry.is_dir():
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _fits(partition: str, wanted: Mapping[str, str]) -> bool:
    values = dict(part.split("=", 1) for part in partition.split("/"))
    return all(unquote(values.get(key, "")) == value for key, value in wanted.items())


def _local(table: ResolvedTable) -> str:
    path = local_path(table.options.get("path", "")) if table.connector == "filesystem" else None
    if path is None:
        raise NotSupportedError(
            f'table "{table.full_name}" with the connector "{table.connector}" is not of local files',
            detail="Partitions are listed, and tables emptied, of the connector filesystem on this machine only.",
        )
    return path
