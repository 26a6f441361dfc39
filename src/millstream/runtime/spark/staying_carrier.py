"""A carrier that stays: one task of Spark's that carries one small epoch after the other.

To submit a job, schedule its task, hand it to a Python worker and bring back its result takes Spark far longer than the
slots need for a small epoch. So the task connects to the driver and gets epochs from there while they come::

    driver (carrier_stays.py)                task                                     slots
      a job of one task        ──Spark──►   connects, says which stay it is
      headers of epoch 7       ─────────►   asks all, level by level (carrier.py)  ◄──►
                               ◄─────────   what became of it
      headers of epoch 8       ─────────►   …
      closes the connection    ─────────►   ends; as it does when nothing comes for `idle_s`

The task holds a core of Spark's meanwhile, so it ends as soon as it is not needed: by itself when it is idle, and when
the driver closes the connection, in the middle of an epoch too. A driver that is gone has closed it.

A task that is tried again, or twice at once, does no harm: the driver gives an epoch to one of them, to another only
when that one is gone, and slots give whoever asks again the same bytes (`slot/core.py`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.handshake import HandshakeError
from millstream.runtime.slot.liveness import probe_host
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import Conversation, OrderEndedError, SlotAddress
from millstream.runtime.spark.carrier import carry_epoch
from millstream.runtime.spark.shuttle import prepare_worker_once

__all__ = ["DriverDoor", "StayingCarrier"]

_CONNECT_S = 5.0


@dataclass(frozen=True)
class DriverDoor:
    """Where the driver waits for carriers.

    Attributes:
        name: Of the driver's end, which nothing else has.
        place: Of the driver, see `slot.place`.
        unix: Unix socket, for who shares its place.
        tcp: Host and port for others; None if all are in one place.
    """

    name: str
    place: str
    unix: str
    tcp: tuple[str, int] | None = None

    def connect(self, secret: bytes, timeout_s: float) -> Channel:
        """Connect to the driver.

        Raises:
            HandshakeError: If another process listens there.
            OSError: If it cannot be reached.
        """
        target = self.unix if self.place == find_place() or self.tcp is None else self.tcp
        channel = connect(target, secret, self.name, timeout_s=min(timeout_s, _CONNECT_S))
        probe_host(channel, timeout_s)
        return channel


@dataclass(frozen=True)
class StayingCarrier:
    """Carries what epochs the driver sends; yields why the driver could not be reached, or nothing in a frame.

    Attributes:
        stay: Number of the stay.
        levels: How many there are in an epoch.
        addresses: Of the slots.
        secret: Of the attempt.
        timeout_s: How long a slot may be silent.
        at_most: How many bytes a slot may send to others on one level.
        door: Where the driver waits.
        idle_s: How long to wait for the next epoch behind the first.
    """

    stay: int
    levels: int
    addresses: Mapping[int, SlotAddress]
    secret: bytes
    timeout_s: float
    at_most: int
    door: DriverDoor
    idle_s: float

    def __call__(self, partition: int, items: Iterable[object]) -> Iterator[bytes]:
        """Run in Spark's Python worker; the input is always drained, or Spark would discard the worker."""
        for _ in items:
            pass
        prepare_worker_once()
        try:
            driver = self.door.connect(self.secret, self.timeout_s)
        except (OSError, HandshakeError) as error:
            yield (str(error) or type(error).__name__).encode()
            return
        with driver:
            self._carry(driver)
        yield b""

    def _carry(self, driver: Channel) -> None:
        """Return when nothing comes any more, or the driver is gone."""
        with ExitStack() as stack:
            conversations = {
                slot: stack.enter_context(
                    Conversation(
                        address,
                        self.secret,
                        here=find_place(),
                        timeout_s=self.timeout_s,
                        ordered_by=driver,
                    )
                )
                for slot, address in self.addresses.items()
            }
            try:
                driver.send_bytes(self.stay.to_bytes(8, "big"))
                # The driver closes the connection if it has no need of this task: nothing else ends the first wait.
                idle_s = None
                while driver.poll(idle_s):
                    headers: Mapping[int, bytes] = pickle.loads(driver.recv_bytes())
                    carried = carry_epoch(conversations, headers, levels=self.levels, at_most=self.at_most)
                    driver.send_bytes(pickle.dumps(carried, protocol=5))
                    idle_s = self.idle_s
            except (OSError, EOFError, OrderEndedError):
                return  # the driver has closed the connection: it needs this task no more, or is gone itself
