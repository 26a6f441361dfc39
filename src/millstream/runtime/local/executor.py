"""The inline executor: all slots in this process and thread, no JVM; reference semantics, tests, debugging."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from millstream.base.errors import NotSupportedError
from millstream.config.configuration import Configuration
from millstream.runtime.protocol.blocks import Block
from millstream.runtime.protocol.deployment import Deployment, dump_deployment, load_deployment
from millstream.runtime.protocol.executor import Executor, OnLogs, SlotPlace
from millstream.runtime.protocol.questions import AnyQuestion
from millstream.runtime.protocol.report import EpochHeader, SlotReport
from millstream.runtime.slot.cancel import GRACE_S, INTERRUPT_AGAIN_S, CancelWatch
from millstream.runtime.slot.garbage import RareCollections
from millstream.runtime.slot.tasks import SlotTasks
from millstream.runtime.slot.workspace import Workspace, open_workspace, workspace_name
from millstream.runtime.task.closing import call_all
from millstream.runtime.task.interrupting import ThreadInterrupter

__all__ = ["LocalExecutor", "build_local"]

_COLLECTIONS = RareCollections()  # of the process, as what it steers


class LocalExecutor(Executor):
    """Runs the same slots, subtasks and blocks as the Spark executor, one after the other."""

    def __init__(self) -> None:
        self._slots: list[SlotTasks] = []
        self._workspace: Workspace | None = None
        self._came_from: tuple[list[str], str] | None = None
        self._interrupter = ThreadInterrupter()
        self._cancel_watch: CancelWatch | None = None
        self._abandoned = False
        self._collects_rarely = False

    def deploy(self, deployment: Deployment) -> None:
        """Build the slots, each from its own copy of the job, and open them."""
        payload = dump_deployment(deployment, on_this_machine=True)
        cached_files = self._enter_workspace(deployment)
        self._cancel_watch = CancelWatch(
            self._is_cancelled,
            tell=lambda: None,
            kill=self._interrupter.interrupt,
            grace_s=GRACE_S,
            again_s=INTERRUPT_AGAIN_S,
        )
        self._cancel_watch.start()
        self._interrupter.run(partial(self._open, payload, cached_files, deployment.plan.slots))
        self._collects_rarely = True
        _COLLECTIONS.begin()

    def _open(self, payload: bytes, cached_files: dict[str, str], slots: int) -> None:
        for slot in range(slots):
            self._slots.append(SlotTasks(load_deployment(payload, cached_files), slot, self._is_cancelled))
        for tasks in self._slots:
            tasks.open()

    def places(self) -> Sequence[SlotPlace]:
        """Return this very process for each slot."""
        return [SlotPlace(tasks.slot, socket.gethostname(), os.getpid()) for tasks in self._slots]

    def run_epoch(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        """Run level after level, in each slot after slot."""
        return self._interrupter.run(partial(self._run_levels, headers))

    def _run_levels(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        travelling: dict[int, list[Block]] = defaultdict(list)
        for level in range(self._slots[0].level_count):
            arriving, travelling = travelling, defaultdict(list)
            for tasks in self._slots:
                for block in tasks.run_level(headers[tasks.slot], level, arriving[tasks.slot]):
                    travelling[block.target].append(block)
        return [tasks.report(headers[tasks.slot]) for tasks in self._slots]

    def finish(self, completed_checkpoint: int | None = None) -> None:
        """Close the operators."""
        if self._cancel_watch is not None:
            self._cancel_watch.stop()
        slots, self._slots = self._slots, []
        if self._collects_rarely:
            self._collects_rarely = False
            _COLLECTIONS.end()
        try:
            call_all(partial(tasks.close, completed_checkpoint) for tasks in slots)
        finally:
            self._leave_workspace()

    def abort(self) -> None:
        """Remove what was staged and close the operators."""
        if self._abandoned:
            return  # another thread does
        call_all([*(tasks.abort for tasks in self._slots), self.finish])

    def abandon(self) -> bool:
        """Abort the slots though a function of theirs has not returned: it may never do."""
        if not self._interrupter.is_running:
            return False
        self._abandoned = True
        call_all([*(tasks.abort for tasks in self._slots), self.finish])
        return True

    def keep_alive(self) -> None:
        """Nothing to do: the slots live in this process."""

    def query(self, slot: int, question: AnyQuestion) -> bytes:
        """Ask a slot."""
        return self._slots[slot].query(question)

    def release(self) -> None:
        """Nothing to do."""

    def _enter_workspace(self, deployment: Deployment) -> dict[str, str]:
        """Have the job's files at hand in this very process, until the attempt ends."""
        dependencies = deployment.dependencies
        _check_executable(dependencies.executable)
        self._workspace = open_workspace(dependencies, workspace_name(deployment.job_id, deployment.attempt))
        self._came_from = (list(self._workspace.python_path), os.getcwd())
        self._workspace.enter()
        return self._workspace.cached_files

    def _leave_workspace(self) -> None:
        workspace, self._workspace = self._workspace, None
        if workspace is None or self._came_from is None:
            return
        added, directory = self._came_from
        for entry in added:
            if entry in sys.path:
                sys.path.remove(entry)
        if workspace.working_directory is not None:
            os.chdir(directory)
        workspace.close()


def _check_executable(executable: str | None) -> None:
    found = None if executable is None else shutil.which(executable)
    if executable is None or (found and _is_this_interpreter(found)):
        return
    raise NotSupportedError(
        f'functions cannot run in "{executable}" where execution.target is "local"',
        detail=f"The local executor runs them in the program's own process, {sys.executable}.",
        hint='Use a Spark master, such as "local[2]", or start the program with that interpreter.',
    )


def _is_this_interpreter(path: str) -> bool:
    """Return whether it is this one; links out of a virtual environment are not followed."""
    directory = os.path.dirname(os.path.abspath(path))
    own = os.path.dirname(os.path.abspath(sys.executable))
    return directory == own and os.path.samefile(path, sys.executable)


def build_local(configuration: Configuration, on_logs: OnLogs) -> Executor:
    """Return the executor of this process: what user code prints needs no carrying."""
    return LocalExecutor()
