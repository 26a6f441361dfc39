"""Commits of a Delta table, read as the protocol has them: one file of JSON for each version.

::

    _delta_log/00000000000000000007.json     {"add": …}  {"remove": …}  {"cdc": …}  {"metaData": …}  {"protocol": …}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from millstream.base.errors import SourceError
from millstream.connectors.lake.open_file import open_below
from millstream.files.remote import without_parameters

__all__ = ["Commit", "file_path", "read_commit"]


@dataclass
class Commit:
    """What a version changes.

    Attributes:
        version: Its number.
        added: Actions `add` that bring other rows; those that only move rows into other files are left out.
        removed: Actions `remove`, the same.
        changes: Actions `cdc`: files of changed rows, with a column that tells the change.
        metadata: The action `metaData`, if there is one.
        protocol: The action `protocol`, if there is one.
    """

    version: int
    added: list[dict[str, Any]] = field(default_factory=list)
    removed: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None


def read_commit(address: str, version: int) -> Commit | None:
    """Return a version; None if it is not there: not yet, or no longer.

    Args:
        address: Of the table, with what it says of how to reach it.
        version: Its number.

    Raises:
        SourceError: If it cannot be read.
    """
    path = f"{without_parameters(address)}/_delta_log/{version:020}.json"
    try:
        with open_below(path, [address]) as file:
            lines = file.read().splitlines()
        actions = [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SourceError(
            f"entry {path!r} of a Delta table's log cannot be read", detail=str(error)
        ) from error
    commit = Commit(version)
    for action in actions:
        if "add" in action and action["add"]["dataChange"]:
            commit.added.append(action["add"])
        elif "remove" in action and action["remove"]["dataChange"]:
            commit.removed.append(action["remove"])
        elif "cdc" in action:
            commit.changes.append(action["cdc"])
        elif "metaData" in action:
            commit.metadata = action["metaData"]
        elif "protocol" in action:
            commit.protocol = action["protocol"]
    return commit


def file_path(address: str, path: str) -> str:
    """Return where a file is that the log names, without parameters.

    >>> file_path("/data/t", "shop=a%2520b/part-0.parquet")
    '/data/t/shop=a%20b/part-0.parquet'
    >>> file_path("/data/t", "s3://bucket/other/part-0.parquet")
    's3://bucket/other/part-0.parquet'
    """
    plain = unquote(path)
    if plain.startswith("file:/"):
        return "/" + plain[len("file:") :].lstrip("/")
    return plain if "://" in plain or plain.startswith("/") else f"{without_parameters(address)}/{plain}"
