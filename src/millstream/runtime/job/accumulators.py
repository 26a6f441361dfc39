"""The accumulators of a running job: the last report of each subtask, merged when somebody asks."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from millstream.base.errors import ConfigurationError, JobExecutionError
from millstream.common.accumulators import merge_accumulators
from millstream.operators.base import OperatorReport

__all__ = ["JobAccumulators"]

Group = TypeVar("Group", bound=Hashable)


class JobAccumulators:
    """Gathers reports on the job master's thread; may be read on any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pickled: dict[str, dict[tuple[int, int], bytes]] = {}
        self._kinds: dict[str, tuple[str, str]] = {}

    def record(self, node_id: int, subtask: int, operator: str, report: OperatorReport) -> None:
        """Take in what an operator reported at the end of an epoch.

        Raises:
            ConfigurationError: If two operators use one name for accumulators of different classes.
        """
        if not report.accumulators:
            return
        with self._lock:
            for name, (kind, pickled) in report.accumulators.items():
                first_kind, first_operator = self._kinds.setdefault(name, (kind, operator))
                if first_kind != kind:
                    raise ConfigurationError(
                        f'accumulator "{name}" is of class {kind} in operator "{operator}"',
                        detail=f'In operator "{first_operator}" it is of class {first_kind}.',
                        hint="All of one name are merged: give one of them another name.",
                    )
                self._pickled.setdefault(name, {})[node_id, subtask] = pickled

    def results(self) -> dict[str, Any]:
        """Return the merged result of each accumulator, by name.

        Raises:
            JobExecutionError: If accumulators of the user's own class cannot be merged; the cause is chained.
        """
        with self._lock:
            found = {
                name: [pickled for _, pickled in sorted(parts.items())]
                for name, parts in self._pickled.items()
            }
        return {name: _merge(name, parts) for name, parts in found.items()}

    def results_by(self, group_of: Callable[[int, int], Group]) -> dict[Group, dict[str, Any]]:
        """Return the merged results by name, of groups of subtasks.

        Args:
            group_of: Gives the group of a node's subtask.

        Raises:
            JobExecutionError: If accumulators of the user's own class cannot be merged; the cause is chained.
        """
        groups: dict[Group, dict[str, list[bytes]]] = {}
        with self._lock:
            for name, parts in self._pickled.items():
                for (node_id, subtask), pickled in sorted(parts.items()):
                    groups.setdefault(group_of(node_id, subtask), {}).setdefault(name, []).append(pickled)
        return {
            group: {name: _merge(name, parts) for name, parts in sorted(found.items())}
            for group, found in groups.items()
        }


def _merge(name: str, parts: list[bytes]) -> Any:
    try:
        return merge_accumulators([pickle.loads(part) for part in parts])
    except Exception as error:
        raise JobExecutionError(
            f'accumulator "{name}" could not be merged: {type(error).__name__}: {error}'
        ) from error
