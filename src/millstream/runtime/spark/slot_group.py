"""The slots of an attempt as the driver talks to them: all at once, each within its time-out."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from millstream.base.errors import SlotLostError
from millstream.runtime.connect.sockets import remove_private
from millstream.runtime.protocol.report import LogLine
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import Answer, Request, SlotAddress, SlotSilentError, ask

__all__ = ["SlotGroup"]

_log = logging.getLogger(__name__)
_ABORT_S = 5.0
_KILL_S = 1.0

_Result = TypeVar("_Result")


class SlotGroup:
    """Asks slots, tells them, ends them; any thread may.

    Args:
        addresses: By slot.
        secret: Of the attempt.
        timeout_s: How long a slot may be silent.
        on_logs: Takes what user code printed and logged outside of epochs; called on the thread that asks.

    Attributes:
        addresses: The same.
    """

    def __init__(
        self,
        addresses: Mapping[int, SlotAddress],
        secret: bytes,
        timeout_s: float,
        on_logs: Callable[[Sequence[LogLine]], None],
    ) -> None:
        self.addresses = addresses
        self._secret = secret
        self._timeout_s = timeout_s
        self._on_logs = on_logs

    def ask(self, address: SlotAddress, request: Request, timeout_s: float | None = None) -> Answer:
        """Ask one slot, which may be silent for so long.

        Raises:
            SlotLostError: If it is gone.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        return ask(address, self._secret, request, here=find_place(), timeout_s=timeout_s)

    def ask_all(self, request: Request) -> None:
        """Ask all slots; the first error is raised when all have answered."""
        answers = [answer for _, answer in self._gather(lambda address: self.ask(address, request))]
        for answer in answers:
            self._on_logs(answer.logs)
        for answer in answers:
            if answer.error is not None:
                raise answer.error

    def tell_cancelled(self) -> None:
        """Tell all slots that their job is cancelled."""
        self._gather(self._tell_cancelled)

    def find_stacks(self) -> list[tuple[SlotAddress, str]]:
        """Return what the functions of slots are at; slots whose functions are at nothing are left out."""
        found = self._gather(self._find_stack)
        return [(address, stack) for address, stack in found if stack is not None]

    def abort(self) -> set[str]:
        """Have slots remove what they staged and end, and kill those that do not answer.

        Returns:
            The executors that cannot be reached.
        """
        lost = []
        for address, answer in self._gather(self._abort):
            if answer is None:
                lost.append(address)
                continue
            self._on_logs(answer.logs)
            if answer.error is not None:
                _log.warning(
                    "another error while slot %d of a failed attempt was ended: %s",
                    address.slot,
                    answer.error,
                )
        ended = self._gather(self._kill, lost)
        return {address.executor for address, left in ended if left and address.executor is not None}

    def kill_all(self) -> None:
        """End all slots, whatever they are at."""
        for address in self.addresses.values():
            _log.warning("slot %d has not ended its epoch since the job was cancelled: killed", address.slot)
            self._kill(address)

    def _gather(
        self, act: Callable[[SlotAddress], _Result], some: Iterable[SlotAddress] | None = None
    ) -> list[tuple[SlotAddress, _Result]]:
        """Do something to all slots, or some, at once; each may take its time-out."""
        asked = list(self.addresses.values() if some is None else some)
        # Not in a pool: those of `concurrent.futures` take no work any more while the interpreter ends.
        outcomes: list[Future[_Result]] = [Future() for _ in asked]
        for address, outcome in zip(asked, outcomes, strict=True):
            threading.Thread(target=_settle, args=(outcome, act, address), daemon=True).start()
        return [(address, outcome.result()) for address, outcome in zip(asked, outcomes, strict=True)]

    def _tell_cancelled(self, address: SlotAddress) -> None:
        try:
            self.ask(address, Request("cancel"), _ABORT_S)
        except SlotLostError:
            _log.debug("slot %d is gone and cannot be told that its job is cancelled", address.slot)

    def _find_stack(self, address: SlotAddress) -> str | None:
        try:
            return self.ask(address, Request("stack"), _ABORT_S).text or None
        except SlotSilentError:
            return "a call that holds the interpreter's lock, so that nothing more can be seen"
        except SlotLostError:
            return None

    def _abort(self, address: SlotAddress) -> Answer | None:
        try:
            return self.ask(address, Request("abort"), _ABORT_S)
        except SlotLostError:
            return None

    def _kill(self, address: SlotAddress) -> bool:
        """End a slot that does not answer; return whether it may live on, until its lease has run out."""
        if address.place == find_place():
            with suppress(ProcessLookupError):
                os.kill(address.pid, signal.SIGKILL)
            with suppress(OSError):
                remove_private(Path(address.unix))
            return False
        try:
            self.ask(address, Request("kill"), _KILL_S)
        except SlotLostError as error:
            # One that ends closes the connection; where its host refuses connections, it has ended.
            if isinstance(error.__cause__, (ConnectionRefusedError, ConnectionResetError, EOFError)):
                return False
            _log.info("slot ends by its lease", extra={"slot": address.slot, "host": address.host})
            return True
        return False


def _settle(outcome: Future[_Result], act: Callable[[SlotAddress], _Result], address: SlotAddress) -> None:
    try:
        outcome.set_result(act(address))
    except BaseException as error:  # noqa: BLE001 - raised again by who waits
        outcome.set_exception(error)
