"""Named places in the protocols where a simulation may let a job fail (`millstream verify`).

Nothing happens there unless a hook is set: one check of a global. A hook belongs to one process and one job, so only
entry points that run jobs in their own process set one::

    driver   attempt.start ─► restore ─► commit … ─► plan ─► [slots] ─► epoch.report ─► state.driver ─► manifest.write
             ─► manifest.published ─► seal ─► sink.commit (sink.publish for each file) ─► sink.committed
             ─► commit.done ─► tidy ─► tidied (older checkpoints go) ─► plan …
             at the job's end, with high availability: result.write ─► result.written ─► (pointer and checkpoints
             go) ─► result.commit ─► result.committed
             (sink.abort: in a failed attempt)
             (sink.commit to sink.committed: in a simulation now and then some epochs later, as commits go on beside)
    slot     sink.open ─► notify ─► level ─► read ─► user.function ─► sink.precommit (sink.compact ─► sink.compacted)
             ─► sink.precommitted ─► state.write ─► report
             compaction.start ─► compaction.read ─► compaction.write, beside
    storage  storage.write, storage.staged, storage.read, storage.delete: around each call, on either side
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

__all__ = [
    "DRIVER_POINTS",
    "GUARDED_POINTS",
    "SLOT_POINTS",
    "STORAGE_POINTS",
    "CommitPacer",
    "CrashHook",
    "around",
    "commit_lag",
    "has_crash_hook",
    "reach",
    "set_crash_hook",
]

DRIVER_POINTS: Final = (
    "attempt.start",
    "restore",
    "plan",
    "epoch.report",
    "state.driver",
    "manifest.write",
    "manifest.published",
    "seal",
    "sink.commit",
    "sink.publish",
    "sink.committed",
    "sink.abort",
    "commit.done",
    "tidy",
    "tidied",
    "result.write",
    "result.written",
    "result.commit",
    "result.committed",
)
SLOT_POINTS: Final = (
    "notify",
    "level",
    "read",
    "user.function",
    "sink.open",
    "sink.precommit",
    "sink.compact",
    "sink.compacted",
    "sink.precommitted",
    "state.write",
    "compaction.start",
    "compaction.read",
    "compaction.write",
    "report",
)
"""A slot's own; `read` and `user.function` lie in the sources that a simulation puts in the place of the job's."""
STORAGE_POINTS: Final = ("storage.write", "storage.staged", "storage.read", "storage.delete")
GUARDED_POINTS: Final = ("sink.commit", "storage.write", "storage.read", "storage.delete")
"""Those that stand around a call (`around`): it may be left out, come late, or come twice."""

Result = TypeVar("Result")


class CrashHook(Protocol):
    """What is told of the places; may raise whatever is to go wrong there."""

    def reach(self, name: str, detail: str) -> None:
        """Learn that a place is reached."""

    def around(self, name: str, detail: str, action: Callable[[], Any]) -> Any:
        """Perform an action with side effects, or let it go wrong; return what it gives."""


@runtime_checkable
class CommitPacer(Protocol):
    """A hook that says when commits come to their end that go on beside the job."""

    def commit_lag(self) -> int:
        """Return how often the job looks for the next commit in vain, unless it waits for it before."""


_hook: CrashHook | None = None


def reach(name: str, detail: str = "") -> None:
    """Tell the hook, if there is one, that a place is reached.

    Args:
        name: The place.
        detail: What it is about there: a path, a number.
    """
    if _hook is not None:
        _hook.reach(name, detail)


def around(name: str, detail: str, action: Callable[[], Result]) -> Result:
    """Perform an action; a hook decides whether and how."""
    if _hook is None:
        return action()
    result: Result = _hook.around(name, detail, action)
    return result


def has_crash_hook() -> bool:
    """Return whether there is one: then nothing goes on beside the job's own thread, so that it is always the same."""
    return _hook is not None


def commit_lag() -> int:
    """Return how often a job is to look for its next commit in vain; 0 if the hook does not say."""
    return _hook.commit_lag() if isinstance(_hook, CommitPacer) else 0


def set_crash_hook(hook: CrashHook | None) -> CrashHook | None:
    """Set this process's hook, None for none; return the one that was there before."""
    global _hook
    before, _hook = _hook, hook
    return before
