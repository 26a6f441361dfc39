"""Runs the compaction of a slot's state files beside the slot: in a process that ends with it."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
from typing import Protocol

from millstream.base.errors import MillstreamError
from millstream.base.pickling import dump_by_value
from millstream.files.file_systems import current
from millstream.files.stores import FileRef
from millstream.runtime.checkpoint.compaction import compact
from millstream.runtime.program.main_classes import registered_main_classes
from millstream.runtime.protocol.orders import Compacted, CompactionOrder

__all__ = ["Compactor", "InlineCompactor", "ProcessCompactor"]


class Compactor(Protocol):
    """Does one order at a time; the slot's thread calls it."""

    def start(self, order: CompactionOrder) -> None:
        """Begin; what was under way before is given up."""

    def poll(self) -> Compacted | None:
        """Return what became of the last order, once; None as long as nothing did."""

    def close(self) -> None:
        """Give up what is under way."""


class ProcessCompactor:
    """Has each order done by a process of its own."""

    def __init__(self) -> None:
        self._order: CompactionOrder | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failed: Compacted | None = None

    def start(self, order: CompactionOrder) -> None:
        """Start the process."""
        self.close()
        try:
            self._start(order)
        except OSError as error:
            self.close()
            self._failed = Compacted(order.through, None, f"no process could be started: {error}")

    def _start(self, order: CompactionOrder) -> None:
        process = self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "millstream.runtime.slot.compaction_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the driver's business
        )
        self._order = order
        assert process.stdin is not None
        main_classes = dump_by_value(registered_main_classes())
        # Through the pipe, not the environment: there are credentials in it.
        file_systems = pickle.dumps(current())
        for part in (pickle.dumps(sys.path), file_systems, main_classes, pickle.dumps(order)):
            process.stdin.write(len(part).to_bytes(8, "big") + part)
        process.stdin.flush()  # stays open: its end tells the process that this one is gone

    def poll(self) -> Compacted | None:
        """Return what became of the order."""
        if self._failed is not None:
            failed, self._failed = self._failed, None
            return failed
        order, process = self._order, self._process
        if order is None or process is None or process.poll() is None:
            return None
        assert process.stdout is not None
        answer = process.stdout.read()
        self.close()
        try:
            content = json.loads(answer)
        except ValueError:
            return Compacted(order.through, None, f"its process ended with {process.returncode}")
        if "error" in content:
            return Compacted(order.through, None, content["error"])
        return Compacted(order.through, FileRef(**content["file"]))

    def close(self) -> None:
        """End the process."""
        process, self._process, self._order = self._process, None, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.kill()
            process.wait()
            with contextlib.suppress(BrokenPipeError):  # what it did not read
                process.stdin.close()
            process.stdout.close()


class InlineCompactor:
    """Does an order at once, in the slot; its outcome is there at the next checkpoint. For simulations."""

    def __init__(self) -> None:
        self._outcome: Compacted | None = None

    def start(self, order: CompactionOrder) -> None:
        """Do it."""
        try:
            self._outcome = Compacted(order.through, compact(order))
        except MillstreamError as error:
            self._outcome = Compacted(order.through, None, error.message)
        except Exception as error:  # noqa: BLE001 - as in a process of its own
            self._outcome = Compacted(order.through, None, f"{type(error).__name__}: {error}")

    def poll(self) -> Compacted | None:
        """Return what became of the order."""
        outcome, self._outcome = self._outcome, None
        return outcome

    def close(self) -> None:
        """Nothing is ever under way."""
