"""The resident process of a slot: started beside a Spark executor, lives as long as the attempt.

Threads: the main thread runs the operators and nothing else does; one thread for each socket accepts connections; one
thread for each connection has the other end prove itself, reads a request, has the main thread run it or answers it
itself (ping, stack, cancel, kill, hold), and sends the answer; the watch thread ends the process when the executor's
JVM is gone or the lease has run out.

The process is started with its `SlotBoot` pickled on standard input and answers with one line on standard output:
its address, pickled and in hexadecimal digits, or what went wrong.
"""

from __future__ import annotations

import os
import pickle
import queue
import select
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from millstream.base.clock import SystemClock
from millstream.base.errors import JobExecutionError, MillstreamError
from millstream.base.interrupts import JobInterrupted
from millstream.base.pyflink_names import install
from millstream.files.file_systems import install as install_file_systems
from millstream.files.scratch import remove_all, sweep
from millstream.runtime.connect.channel import Channel
from millstream.runtime.protocol.deployment import load_dependencies, load_deployment_and_main
from millstream.runtime.protocol.report import EpochHeader, LogLine
from millstream.runtime.slot.cancel import GRACE_S, INTERRUPT_AGAIN_S, CancelWatch
from millstream.runtime.slot.capture import capture_output
from millstream.runtime.slot.core import SlotCore
from millstream.runtime.slot.doors import Doors, name_slot
from millstream.runtime.slot.garbage import collect_rarely
from millstream.runtime.slot.tasks import SlotTasks
from millstream.runtime.slot.versions import find_mismatch
from millstream.runtime.slot.wire import Answer, Request, SlotAddress, receive, send
from millstream.runtime.slot.workspace import Workspace, open_workspace
from millstream.runtime.task.closing import call_all
from millstream.runtime.task.failures import describe_failure, user_frames
from millstream.runtime.task.interrupting import MainThreadInterrupter
from millstream.version import __version__

__all__ = ["SlotBoot", "main"]

_ENDS = ("close", "abort")


@dataclass(frozen=True, slots=True)
class SlotBoot:
    """What a slot is started with.

    Attributes:
        slot: Its index.
        attempt: Number of the attempt.
        secret: Of the attempt.
        lease_s: It ends itself when nobody asks for so long.
        jvm_pid: The executor's JVM, with which it ends.
        host: Name or address at which other hosts reach this one.
        tcp: Whether other hosts will ask.
        deployment: The pickled deployment.
        python_path: Where modules are looked for.
        workspace: Name of the attempt's workspace.
        python_version: Of the driver, major and minor: pickled functions load in no other.
        millstream_version: Of the driver: what it pickles loads in no other.
        place: Who shares it talks through the Unix socket, see `slot.place`.
        executor: Spark's id of the executor beside which it lives; None in local mode.
        bind: Address of this host at which others may ask; empty for all it has.
    """

    slot: int
    attempt: int
    secret: bytes
    lease_s: float
    jvm_pid: int
    host: str
    tcp: bool
    deployment: bytes
    python_path: tuple[str, ...]
    workspace: str = "unnamed"
    python_version: tuple[int, int] = sys.version_info[:2]
    place: str = ""
    executor: str | None = None
    bind: str = ""
    millstream_version: str = __version__


@dataclass(slots=True)
class _Work:
    request: Request
    bundles: list[bytes]
    done: queue.SimpleQueue[Answer]


class _Process:
    """One slot, from start to end."""

    def __init__(self, boot: SlotBoot) -> None:
        self._boot = boot
        self._workspace = _enter_workspace(boot)
        self._clock = SystemClock()
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._last_asked = self._clock.monotonic()
        self._busy = False
        self._logs: list[LogLine] = []
        self._cancelled = threading.Event()
        self._interrupter = MainThreadInterrupter()

    def start(self) -> SlotAddress:
        """Listen; the operators are built later, by the first request."""
        boot = self._boot
        name = name_slot(boot.workspace, boot.attempt, boot.slot)
        self._doors = Doors(name, boot.secret, self._converse, self._clock)
        unix = self._doors.open_unix(boot.place)
        tcp = (boot.host, self._doors.open_tcp(boot.bind)) if boot.tcp else None
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        return SlotAddress(boot.slot, boot.host, os.getpid(), unix, tcp, boot.place, boot.executor, name)

    def run(self) -> None:
        """Build and open the operators, then serve until the attempt ends."""
        self._logs = capture_output(self._boot.slot)
        work = self._work.get()
        self._busy = True
        try:
            deployment, main = load_deployment_and_main(self._boot.deployment, self._workspace.cached_files)
            main.install()
            install_file_systems(deployment.file_systems)
            for base in {None, deployment.keyed_state.local_directory}:
                threading.Thread(target=sweep, args=(base,), name="sweep", daemon=True).start()
            tasks = SlotTasks(deployment, self._boot.slot, self._cancelled.is_set)
            core = SlotCore(tasks, self._boot.attempt, count_modules=lambda: len(sys.modules))
            self._interrupter.run(tasks.open)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the driver is told
            self._workspace.close()
            self._rest()
            work.done.put(self._failed(error))
            self._serve_end_only()
            return
        self._rest()
        collect_rarely()
        work.done.put(Answer(logs=self._take_logs()))
        self._serve(tasks, core)

    def _serve(self, tasks: SlotTasks, core: SlotCore) -> None:
        while True:
            work = self._work.get()
            self._busy = True
            kind = work.request.kind
            try:
                if kind == "level":
                    assert work.request.header is not None
                    header: EpochHeader = pickle.loads(work.request.header)
                    level = partial(core.run_level, header, work.request.level)
                    output = self._interrupter.run(partial(level, work.bundles, self._logs))
                    at_most = work.request.at_most
                    fits = at_most is None or output.size_bytes <= at_most
                    answer = Answer(output=output if fits else None)
                elif kind == "query":
                    assert work.request.question is not None
                    answer = Answer(value=tasks.query(work.request.question))
                elif kind == "abort":
                    call_all([tasks.abort, tasks.close])
                    answer = Answer(logs=self._take_logs())
                else:
                    tasks.close(work.request.completed_checkpoint)
                    answer = Answer(logs=self._take_logs())
            except BaseException as error:  # noqa: BLE001 - whatever it is, the driver is told
                answer = self._failed(error)
            self._rest()
            ends = kind not in ("level", "query")
            if ends:
                self._workspace.close()
            work.done.put(answer)
            if ends:
                return

    def _rest(self) -> None:
        """Be busy no more; the lease begins anew: pings may have found the interpreter's lock taken."""
        self._last_asked = self._clock.monotonic()
        self._busy = False

    def _serve_end_only(self) -> None:
        while True:
            work = self._work.get()
            work.done.put(Answer())
            if work.request.kind not in ("level", "query"):
                return

    def _failed(self, error: BaseException) -> Answer:
        if isinstance(error, JobInterrupted):
            error = JobExecutionError("the job was cancelled")
        described = error if isinstance(error, MillstreamError) else describe_failure(error, self._boot.slot)
        return Answer(error=described, logs=self._take_logs())

    def _take_logs(self) -> list[LogLine]:
        taken, self._logs[:] = list(self._logs), []
        return taken

    def _converse(self, channel: Channel) -> None:
        """Answer one request after another, until the one who asks has gone; whoever asks again gets the same."""
        with suppress(OSError, EOFError):
            while True:
                request, bundles = receive(channel)
                self._last_asked = self._clock.monotonic()
                if request.kind == "hold":
                    channel.poll(None)  # until the one who holds it lets go
                    return
                send(channel, self._answer(request, bundles))
                if request.kind in _ENDS:
                    channel.close()
                    self.exit(0)

    def exit(self, code: int) -> NoReturn:
        """End the process; what it leaves, and what processes left that were killed, is removed."""
        self._doors.close()
        self._workspace.close()
        remove_all()
        sweep()
        os._exit(code)

    def _answer(self, request: Request, bundles: list[bytes]) -> Answer:
        if request.kind == "ping":
            return Answer(text="pong")
        if request.kind == "cancel":
            self._cancel()
            return Answer()
        if request.kind == "stack":
            return Answer(text=_user_stack() if self._interrupter.is_running else "")
        if request.kind == "kill":
            self.exit(1)
        work = _Work(request, bundles, queue.SimpleQueue())
        self._work.put(work)
        return work.done.get()

    def _cancel(self) -> None:
        """Have operators that wait give up, and soon interrupt what still runs."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            CancelWatch(
                self._cancelled.is_set,
                tell=lambda: None,
                kill=self._interrupter.interrupt,
                grace_s=GRACE_S,
                poll_s=0,
                again_s=INTERRUPT_AGAIN_S,
            ).start()

    def _watch(self) -> None:
        jvm = _pidfd(self._boot.jvm_pid)
        while True:
            if jvm is None:
                self._clock.wait(1.0)
                gone = not _is_alive(self._boot.jvm_pid)
            else:
                gone = bool(select.select([jvm], [], [], 1.0)[0])
            idle_s = self._clock.monotonic() - self._last_asked
            if gone or (idle_s > self._boot.lease_s and not self._busy):
                self.exit(3)


def _enter_workspace(boot: SlotBoot) -> Workspace:
    """Have the job's files at hand before anything of the user's is unpickled."""
    dependencies = load_dependencies(boot.deployment)
    if dependencies.pyflink_names:
        install()
    workspace = open_workspace(dependencies, boot.workspace)
    workspace.enter()
    return workspace


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except AttributeError:
        return None  # not Linux: the watch thread asks for the process every second
    except ProcessLookupError:
        os._exit(3)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _user_stack() -> str:
    """Return where the main thread is, which runs the functions: from the first frame on that is not millstream's."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return (
        "" if frame is None else "".join(traceback.format_list(user_frames(traceback.extract_stack(frame))))
    )


def main() -> None:
    """Start a slot: leave the process that started it, tell the address, serve."""
    boot: SlotBoot = pickle.load(sys.stdin.buffer)
    mismatch = find_mismatch(boot.python_version, boot.millstream_version)
    if mismatch is not None:
        sys.exit(f"{mismatch.message}. {mismatch.detail}")
    if os.fork():
        os._exit(0)  # so that the slot is nobody's child and leaves no zombie
    os.environ.pop("PYTHONSAFEPATH", None)  # of Spark's workers, not for what functions start
    for entry in boot.python_path:
        if entry not in sys.path:
            sys.path.append(entry)
    process = _Process(boot)
    address = process.start()
    os.write(1, pickle.dumps(address).hex().encode() + b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    process.run()
    # The connection's thread sends the last answer and then ends the process; wait for it, but not for ever.
    SystemClock().wait(5.0)
    process.exit(0)


def unpickle_address(line: bytes) -> Any:
    """Return the address from the line that a slot printed."""
    return pickle.loads(bytes.fromhex(line.decode().strip()))


if __name__ == "__main__":
    main()
