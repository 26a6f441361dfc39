"""Looks at sinks with a reader's eyes, after every step of a simulation.

At any moment a reader may come. So what is seen has to be right always, not only at the end: nothing unfinished,
nothing twice, and nothing that was seen once goes away or changes. When the job has ended well, nothing staged is left.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from millstream.spi.sink import Sink
from millstream.verify.compare import shorten_text

__all__ = ["Check", "FilesWatch", "SinkWatch", "SyncingSink", "VerifiableSink", "Violation", "Watch"]

Check = Callable[[str, Counter[str]], "str | None"]
"""Told of a sink (its label) and what readers see in it, whenever that has changed; returns what is wrong or None."""


@runtime_checkable
class VerifiableSink(Protocol):
    """A sink that `millstream verify` runs itself, instead of putting one that records in its place."""

    def at(self, directory: str) -> Sink:
        """Return the same sink with all that it writes, staged and published, below a directory of the simulation.

        The directory may not be there yet; it is another one in each simulation. What is returned has `visible` and
        `staged` as well.
        """

    def visible(self) -> Iterable[str]:
        """Return the records that readers see at present, as text; called on the driver, at any time."""

    def staged(self) -> Iterable[str]:
        """Return what is staged and not published at present, as text; called when the job has ended."""


@runtime_checkable
class SyncingSink(Protocol):
    """A `VerifiableSink` that syncs its files, so that power loss may strike them."""

    def at(self, directory: str) -> SyncingSink:
        """Return the same sink below a directory of the simulation; see `VerifiableSink`."""

    def synced(self) -> Iterable[str]:
        """Return the directories in which it syncs all files and names that it relies on."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What was wrong for a moment, or is left.

    Attributes:
        sink: Label of the sink; empty for the job's checkpoints.
        what: What is wrong.
        step: Where the simulation was.
    """

    sink: str
    what: str
    step: str

    def __str__(self) -> str:
        where = f'sink "{self.sink}"' if self.sink else "checkpoints"
        return f"{where}: {self.what}, at {self.step}"


class Watch(ABC):
    """What readers see of one sink; the simulation's threads call it, one at a time.

    Args:
        label: Names the sink.
        directory: Where it writes.
        expected: What it is to have at the end; None if that is not known.
        check: A further check of what is seen.
    """

    def __init__(
        self, label: str, directory: Path, expected: Counter[str] | None, check: Check | None
    ) -> None:
        self.label = label
        self.directory = directory
        self._expected = expected
        self._check = check
        self._signature: object = None
        self._seen: Counter[str] = Counter()

    def look(self) -> list[str]:
        """Return what is wrong with what readers see now and did not see before."""
        signature = self._sign()
        if signature == self._signature:
            return []
        self._signature = signature
        before, wrong = self._seen, self._altered()
        now = self._seen = self.records()
        if gone := before - now:
            wrong.append(f"readers had seen what is gone: {_some(gone)}")
        if self._expected is not None and (added := now - self._expected):
            wrong.append(f"readers see what is twice or should not be there: {_some(added)}")
        if self._check is not None and (complaint := self._check(self.label, now)) is not None:
            wrong.append(complaint)
        return wrong

    def forget(self) -> None:
        """Forget what was seen: whoever saw it is gone."""
        self._signature, self._seen = None, Counter()

    def _altered(self) -> list[str]:
        """Return what has changed that never may; called before `records`."""
        return []

    @abstractmethod
    def _sign(self) -> object:
        """Return something that is another whenever readers may see something else."""

    @abstractmethod
    def records(self) -> Counter[str]:
        """Return the records that readers see now."""

    @abstractmethod
    def staged(self) -> list[str]:
        """Return what is staged."""


class SinkWatch(Watch):
    """Looks at a sink that says itself what readers see."""

    def __init__(
        self,
        label: str,
        directory: Path,
        expected: Counter[str] | None,
        check: Check | None,
        sink: VerifiableSink,
    ) -> None:
        super().__init__(label, directory, expected, check)
        self._sink = sink

    def _sign(self) -> object:
        return [
            (path, entry.stat().st_mtime_ns, entry.stat().st_size) for path, entry in _files(self.directory)
        ]

    def records(self) -> Counter[str]:
        """Ask the sink."""
        return Counter(self._sink.visible())

    def staged(self) -> list[str]:
        """Ask the sink."""
        return sorted(self._sink.staged())


class FilesWatch(Watch):
    """Looks at the files of a file sink: lines, or rows of Parquet files."""

    def __init__(
        self, label: str, directory: Path, expected: Counter[str] | None, check: Check | None
    ) -> None:
        super().__init__(label, directory, expected, check)
        self._read: dict[str, tuple[tuple[int, int], Counter[str]]] = {}
        self._found: dict[str, tuple[int, int]] = {}

    def forget(self) -> None:
        """Forget the files as well."""
        super().forget()
        self._read = {}

    def _sign(self) -> object:
        self._found = {
            path: ((stat := entry.stat()).st_size, stat.st_mtime_ns)
            for path, entry in _files(self.directory)
            if not entry.name.startswith(".")
        }
        return self._found

    def _altered(self) -> list[str]:
        found = self._found
        wrong = [f"finished file {path} is gone" for path in self._read if path not in found]
        wrong += [
            f"finished file {path} was changed"
            for path, (stamp, _) in self._read.items()
            if path in found and found[path] != stamp
        ]
        return wrong

    def records(self) -> Counter[str]:
        """Read the finished files that were not there before."""
        self._sign()
        read = {}
        for path, stamp in self._found.items():
            known = self._read.get(path)
            read[path] = (stamp, read_records(path)) if known is None or known[0] != stamp else known
        self._read = read
        records: Counter[str] = Counter()
        for _, each in read.values():
            records.update(each)
        return records

    def staged(self) -> list[str]:
        """Return the hidden files."""
        return sorted(path for path, entry in _files(self.directory) if entry.name.startswith("."))


def read_records(path: str) -> Counter[str]:
    """Return the records of a finished file."""
    data = Path(path).read_bytes()
    if data[:4] == b"PAR1":
        from pyarrow import parquet  # optional, and slow to import

        return Counter(repr(row) for row in parquet.read_table(path).to_pylist())
    return Counter(data.decode("utf-8", errors="replace").splitlines())


def _files(directory: str | Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _files(entry.path)
        else:
            yield entry.path, entry


def _some(records: Counter[str]) -> str:
    shown = ", ".join(shorten_text(record) for record in sorted(records)[:3])
    return f"{records.total()} records ({shown})"
