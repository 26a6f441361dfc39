"""Spark's tasks: they start slots, and carry blocks between Spark's shuffles and the slots. They hold no logic.

What travels through a shuffle are frames of bytes, one letter and a payload:

=====  ==========================================================
``B``  blocks for the receiving slot, or nothing
``E``  a pickled error: passed on instead of running further levels
``R``  a slot's pickled report; the last level's result
=====  ==========================================================

No task ever fails because of a job's own error, so Spark retries only what it lost itself.

PySpark ends a task's input as if it were whole when Spark breaks it off: a shuffle file is lost, the task is killed,
the executor dies. Any other task's result would be thrown away then; here a slot would have run its level on a part of
its input. So each task sends each slot one frame, though there be nothing in it, and a task with fewer frames than
there are slots fails before it asks its slot.
"""

from __future__ import annotations

import functools
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.base.errors import InterpreterError, MillstreamError, SlotLostError
from millstream.runtime.protocol.deployment import load_dependencies
from millstream.runtime.slot.place import find_place, inspect_executor
from millstream.runtime.slot.process import SlotBoot, unpickle_address
from millstream.runtime.slot.versions import find_mismatch
from millstream.runtime.slot.wire import Request, SlotAddress, ask
from millstream.runtime.slot.workspace import open_workspace
from millstream.version import __version__

__all__ = ["BrokenInputError", "LevelShuttle", "SlotStarter", "pack_target", "prepare_worker_once"]

_prepared = False


class BrokenInputError(MillstreamError, EOFError):
    """Spark ended a task's input before it was whole; the task fails, and Spark runs it again if it still counts."""

    code = "BROKEN_INPUT"
    domain = "external"
    retryable = True


def prepare_worker_once() -> None:
    """Make a fresh worker of Spark's fast, and quiet at its end.

    Spark collects garbage after each task: what the worker has now is kept out of every collection. And when
    Spark stops, it closes the connections of idle workers, which then report that as an error into the closed
    connection and print that this failed: they are to end without a word.
    """
    global _prepared
    if _prepared:
        return
    _prepared = True
    gc.collect()
    gc.freeze()
    worker = sys.modules.get("pyspark.worker")
    if worker is not None:
        worker.main = functools.partial(_run_unless_closed, worker.main)  # type: ignore[attr-defined]


def _run_unless_closed(main: Callable[..., None], infile: Any, outfile: Any) -> None:
    """Run a task that Spark sends; end the worker if Spark has closed the connection instead."""
    if not infile.peek(1):
        os._exit(0)
    main(infile, outfile)


@dataclass(frozen=True)
class SlotStarter:
    """Starts one slot for each partition and yields its pickled address, or an error.

    Attributes:
        deployment: Broadcast of the pickled deployment.
        attempt: Number of the attempt.
        secret: Of the attempt.
        lease_s: Of the slots.
        tcp: Whether other hosts will ask.
        python_path: Where modules are looked for.
        workspace: Name of the attempt's workspace.
        python_version: Of the driver, major and minor.
        millstream_version: Of the driver.
    """

    deployment: Any
    attempt: int
    secret: bytes
    lease_s: float
    tcp: bool
    python_path: tuple[str, ...]
    workspace: str
    python_version: tuple[int, int]
    millstream_version: str = __version__

    def __call__(self, slot: int, items: Iterable[Any]) -> Iterator[bytes]:
        """Run in Spark's Python worker."""
        for _ in items:
            pass
        mismatch = find_mismatch(self.python_version, self.millstream_version)
        if mismatch is not None:
            yield pickle.dumps(mismatch)
            return
        prepare_worker_once()
        jvm_pid = _grandparent()
        executor = inspect_executor(jvm_pid)
        boot = SlotBoot(
            slot=slot,
            attempt=self.attempt,
            secret=self.secret,
            lease_s=self.lease_s,
            jvm_pid=jvm_pid,
            host=executor.host,
            tcp=self.tcp,
            deployment=self.deployment.value,
            python_path=self.python_path,
            workspace=self.workspace,
            python_version=self.python_version,
            millstream_version=self.millstream_version,
            place=find_place(),
            executor=executor.id,
            bind=executor.bind,
        )
        yield pickle.dumps(_start_in_workspace(boot))


def _start_in_workspace(boot: SlotBoot) -> SlotAddress | MillstreamError:
    """Lay the job's files out first: the slot's interpreter may be one of them."""
    try:
        workspace = open_workspace(load_dependencies(boot.deployment), boot.workspace)
    except MillstreamError as error:
        return error
    try:
        return start_slot(boot, workspace.executable)
    finally:
        workspace.close()


def start_slot(boot: SlotBoot, executable: str | None = None) -> SlotAddress | MillstreamError:
    """Start a slot process in a session of its own and wait for its address.

    Args:
        boot: What it is started with.
        executable: Its interpreter; None for this one. Another one brings millstream itself.
    """
    environment = dict(os.environ)
    if executable is None:
        source = str(Path(__file__).parents[3])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH")]))
    try:
        process = _popen(executable or sys.executable, environment)
    except OSError as error:
        return InterpreterError(
            f'slot {boot.slot} did not start on {boot.host}: interpreter "{executable}" does not run',
            detail=str(error),
            hint="Check set_python_executable(...); a relative path must lead into an archive of the job.",
        )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        process.stdin.write(pickle.dumps(boot))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended before it read everything: standard error tells why, below
    line = process.stdout.readline()
    process.stdout.close()
    if line:
        process.stderr.close()
        process.wait()
        address: SlotAddress = unpickle_address(line)
        return address
    complaint = process.stderr.read().decode(errors="replace").strip()
    process.wait()
    if executable is not None:
        said = complaint.splitlines()[-1] if complaint else f"nothing, and ended with {process.returncode}"
        return InterpreterError(
            f'slot {boot.slot} did not start on {boot.host}: interpreter "{executable}" cannot run it',
            detail=f"It said: {said}",
            hint="python.executable names it: let it be a Python of the program's version, with the same millstream "
            f"and what that needs ({executable} -m pip install millstream).",
        )
    return SlotLostError(
        f"slot {boot.slot} did not start on {boot.host}",
        detail=complaint or f"The process ended with code {process.returncode} and said nothing.",
        hint="Check that millstream is installed in the Python that Spark's workers run.",
    )


def _popen(executable: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: nothing is imported from the working directory, where others may write, unless the driver does so too.
        [executable, "-P", "-m", "millstream.runtime.slot.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )


def _grandparent() -> int:
    """Return the executor's JVM: the parent of the daemon that forked this worker."""
    status = Path(f"/proc/{os.getppid()}/stat")
    if status.exists():
        return int(status.read_text().rpartition(")")[2].split()[1])
    return os.getppid()


@dataclass(frozen=True)
class LevelShuttle:
    """Has slot i run one level of an epoch, for partition i, and yields what comes back.

    Between levels it yields target and frame in turn, as Spark's pairwise shuffle wants them.

    Attributes:
        level: The level, from 0.
        is_last: Whether the result goes to the driver.
        headers: By slot, pickled.
        addresses: By slot.
        secret: Of the attempt.
        timeout_s: How long a slot may be silent.
    """

    level: int
    is_last: bool
    headers: Mapping[int, bytes]
    addresses: Mapping[int, SlotAddress]
    secret: bytes
    timeout_s: float

    def __call__(self, slot: int, frames: Iterable[Any]) -> Iterator[bytes]:
        """Run in Spark's Python worker; the input is always drained, or Spark would discard the worker."""
        prepare_worker_once()
        bundles, error = self._sort(frames)
        if error is None and slot in self.addresses:
            try:
                request = Request("level", self.headers[slot], self.level)
                answer = ask(
                    self.addresses[slot],
                    self.secret,
                    request,
                    bundles,
                    here=find_place(),
                    timeout_s=self.timeout_s,
                )
                if answer.error is None and answer.output is not None:
                    output = answer.output
                    return self._results(output.bundles, output.report)
                error = pickle.dumps((answer.error, answer.logs))
            except MillstreamError as lost:
                error = pickle.dumps((lost, []))
        return self._failures(error)

    def _results(self, bundles: Mapping[int, bytes], report: bytes | None) -> Iterator[bytes]:
        if self.is_last:
            assert report is not None
            yield b"R" + report
            return
        for target in self.addresses:
            yield pack_target(target)
            yield b"B" + bundles.get(target, b"")

    def _failures(self, error: bytes | None) -> Iterator[bytes]:
        if error is None:
            return
        if self.is_last:
            yield b"E" + error
            return
        for target in self.addresses:
            yield pack_target(target)
            yield b"E" + error

    def _sort(self, frames: Iterable[Any]) -> tuple[list[bytes], bytes | None]:
        """Return what other slots sent, and the first error; raises `BrokenInputError` if some is missing."""
        bundles: list[bytes] = []
        error: bytes | None = None
        count = 0
        for frame in frames:
            if self.level == 0:
                continue  # the anchor's own items
            count += 1
            if frame[:1] == b"E":
                error = error or frame[1:]
            elif len(frame) > 1:
                bundles.append(frame[1:])
        if self.level and count != len(self.addresses):
            raise BrokenInputError(
                f"Spark broke off a task's input: {count} of {len(self.addresses)} frames came"
            )
        return bundles, error


def pack_target(slot: int) -> bytes:
    """Return a shuffle key: eight bytes, as Spark's `PythonPartitioner` reads them."""
    return slot.to_bytes(8, "big")
