"""What operators keep by key in structures of their own, and what of it changed since the last checkpoint.

Contents with one entry for each key share a set of touched keys with the keyed backend. Contents of panes and slices
have one entry for each start and key; which of them changed is told by a rectangle, the keys and the starts of all
batches: two updates of a set for a batch, where pairs would cost as much as the folding itself. Once the keys are most
of those that there are, nothing is noted any more, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

from millstream.operators.base import OperatorContext
from millstream.state.snapshots import StateChanges
from millstream.state.touched import TouchedKeys, pays

__all__ = ["TouchedPanes", "add_changed", "touched_keys", "touched_panes"]


def touched_keys(context: OperatorContext) -> TouchedKeys | None:
    """Return the set to which an operator adds every key before it uses anything of it; None if nobody asks.

    The keyed backend goes by the same set.
    """
    state = context.keyed_state
    if state is None or not state.tracking:
        return None
    touched = TouchedKeys()
    state.track(touched)
    return touched


def add_changed(
    changes: StateChanges,
    name: str,
    held: Mapping[Any, Any],
    touched: TouchedKeys | None,
    form: Callable[[Any], Any] | None = None,
) -> bool:
    """Add what touched keys have; see `Operator.changed_entries`.

    Args:
        changes: Added to.
        name: Of the entries.
        held: Contents by key; None is none.
        touched: The keys; None if they are not known.
        form: Makes an entry of what a key has.
    """
    if touched is None or touched.too_many or not pays(len(touched), len(held)):
        return False
    for key in touched:
        entry = held.get(key)
        if entry is None:
            changes.remove(name, None, key)
        else:
            changes.put(name, None, key, entry if form is None else form(entry))
    return True


class TouchedPanes:
    """What changed in panes, or slices, since the last checkpoint.

    Attributes:
        keys: Keys of records since; if too many, all keys of the panes that records since were for.
        starts: Starts of the panes that records since were for.
        ended: Starts of the panes that are gone.
    """

    __slots__ = ("_known", "ended", "keys", "starts")

    def __init__(self) -> None:
        self.keys = TouchedKeys()
        self.starts: set[int] = set()
        self.ended: set[int] = set()
        self._known = False

    def note(self, keys: list[Any], starts: Iterable[int], panes: Mapping[int, Sized]) -> None:
        """Add the keys and starts of a batch that has been added to the panes."""
        if len(self.starts) < len(panes):
            self.starts.update(start for start in set(starts) if start in panes)
        if not self.keys.too_many:
            self.keys.note(keys, max((len(panes[start]) for start in self.starts), default=0))

    def end(self, start: int) -> None:
        """Learn that a pane is gone."""
        self.ended.add(start)
        self.starts.discard(start)

    def add_to(self, changes: StateChanges, name: str, panes: Mapping[int, dict[Any, Any]]) -> bool:
        """Add what changed; see `Operator.changed_entries`."""
        keys, all_keys = self.keys, self.keys.too_many
        changed = [(start, panes[start]) for start in self.starts]
        count = sum(len(pane) if all_keys else min(len(keys), len(pane)) for _, pane in changed)
        if not self._known or not pays(count, sum(map(len, panes.values()))):
            return False
        if self.ended:
            changes.dropped[name] = sorted(self.ended)
        for start, pane in changed:
            for key in keys if not all_keys and len(keys) < len(pane) else pane:
                if all_keys or (key in pane and key in keys):
                    changes.put(name, start, key, pane[key])
        return True

    def forget(self) -> None:
        """Take what is there as what is known."""
        self.keys.forget()
        self.starts.clear()
        self.ended.clear()
        self._known = True


def touched_panes(context: OperatorContext) -> TouchedPanes | None:
    """Return what an operator with panes tells of its changes; None if nobody asks.

    What window functions keep in the keyed backend is tracked besides, by the keys of windows that fire.
    """
    state = context.keyed_state
    if state is None or not state.tracking:
        return None
    state.track()
    return TouchedPanes()
