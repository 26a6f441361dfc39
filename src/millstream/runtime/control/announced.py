"""A Unix socket of a process that others of this user find by a file, and ask in JSON.

::

    <private directory>/<name>-<random>.control    JSON for this user only: process, address, secret, what else is told
                       /<name>-<random>.sock       the socket; below /tmp if that path is too long for one

    ask ── connect, prove the secret (`runtime/connect`) ──► process
        ── a JSON object ──────────────────────────────────►
        ◄─ {"ok": …} or {"error": "...", "code": …, "detail": …, "hint": …} ──
        ── the next, if there is one … ────────────────────►

Nothing is unpickled. A process that closes answers whoever still waits, and removes both files; those of processes that
were killed are removed by whoever looks. Two processes may announce the same name: each has files of its own. Who asks
often keeps the connection (`conversations.py`); one over which nothing is asked for a minute is ended.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from millstream.base.clock import SystemClock
from millstream.base.errors import JobRequestError, MillstreamError
from millstream.files.private_files import find_private, private_directory, user_directory
from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.listener import Listener
from millstream.runtime.connect.sockets import fits
from millstream.runtime.control.status_files import is_alive, process_start

__all__ = ["Announced", "AnnouncedSocket", "find_announced"]

_LOG = logging.getLogger("millstream")
_CONNECT_S = 5.0
_LAST_ANSWERS_S = 2.0
_SILENCE_S = 60.0
_LONGEST_REQUEST = 1_000_000
"""In bytes."""
_SHORT_DIRECTORY = Path("/tmp")


class AnnouncedSocket:
    """The end of the process that is asked; `start` and `close` are called once, on any thread.

    Args:
        directory: Name of the private directory.
        name: Of what is announced; a file name.
        facts: What is told of it beside, before anybody asks; plain data.
        answer: Answers a request; called on a thread for each connection. What it raises is told to who asked.
    """

    def __init__(
        self,
        directory: str,
        name: str,
        facts: Mapping[str, Any],
        answer: Callable[[dict[str, Any]], Any],
    ) -> None:
        self._directory = directory
        self._name = name
        self._facts = facts
        self._answer = answer
        self._stem = f"{name}-{secrets.token_hex(4)}"
        self._secret = secrets.token_bytes(32)
        self._listener: Listener | None = None
        self._lock = threading.Lock()
        self._answering: set[threading.Event] = set()
        self._channels: set[Channel] = set()

    def start(self) -> None:
        """Listen, and let other processes of this user know.

        Raises:
            OSError: If that cannot be done; nothing is left of it then.
        """
        address = _socket_address(self._directory, self._stem)
        try:
            directory = private_directory(self._directory)
            if address.parent != directory:
                private_directory(self._directory, base=_SHORT_DIRECTORY)
            find_announced(self._directory)  # which removes what processes left that were killed
            stream = socket.socket(socket.AF_UNIX)
            self._listener = Listener(
                stream, secret=self._secret, name=self._name, converse=self._converse, clock=SystemClock()
            )
            stream.bind(str(address))
            stream.listen()
            self._announce(directory, address)
        except OSError:
            self.withdraw()
            raise
        self._listener.start()

    def withdraw(self) -> None:
        """Listen no more, and be found by nobody; who has asked is still answered."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        _remove(self._directory, self._stem)
        listener.close()

    def close(self) -> None:
        """Withdraw, wait a moment until those who asked have their answers, and end all connections."""
        self.withdraw()
        with self._lock:
            answering = [*self._answering]
        for each in answering:
            each.wait(_LAST_ANSWERS_S)
        with self._lock:
            for channel in self._channels:
                channel.shut_down()  # whose threads close it

    def _announce(self, directory: Path, address: Path) -> None:
        document = {
            "facts": {**self._facts},
            "name": self._name,
            "pid": os.getpid(),
            "process_start": process_start(os.getpid()),
            "address": str(address),
            "secret": self._secret.hex(),
        }
        partial = directory / f"{self._stem}.control.partial"
        with open(
            os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(document, file)
        os.replace(partial, directory / f"{self._stem}.control")

    def _converse(self, channel: Channel) -> None:
        with self._lock:
            self._channels.add(channel)
        try:
            # Who has just connected is about to ask, and is waited for; who has its answer may be silent.
            while self._answer_next(channel) and channel.poll(_SILENCE_S):
                pass
        except EOFError:
            pass  # whoever asked has heard enough
        except (OSError, ValueError) as error:
            _LOG.debug("a request came to nothing: %s", error)
        finally:
            with self._lock:
                self._channels.discard(channel)

    def _answer_next(self, channel: Channel) -> bool:
        """Wait for a request and answer it; return whether more may come. Whoever closes waits for that a moment."""
        done = threading.Event()
        with self._lock:
            self._answering.add(done)
        try:
            if not channel.poll(_SILENCE_S):
                return False
            channel.send_bytes(self._compose(json.loads(channel.recv_bytes(_LONGEST_REQUEST))))
        finally:
            with self._lock:
                self._answering.discard(done)
            done.set()
        return self._listener is not None

    def _compose(self, request: dict[str, Any]) -> bytes:
        try:
            return msgspec.json.encode({"ok": self._answer(request)})
        except MillstreamError as error:
            return msgspec.json.encode(
                {"error": error.message, "code": error.code, "detail": error.detail, "hint": error.hint}
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked is told
            return msgspec.json.encode({"error": f"{type(error).__name__}: {error}"})


@dataclass(frozen=True, slots=True)
class Announced:
    """What another process has announced.

    Attributes:
        name: What is announced.
        pid: The process.
        facts: What it tells beside.
        address: Of its socket.
        secret: To be proved.
    """

    name: str
    pid: int
    facts: Mapping[str, Any]
    address: str
    secret: bytes = field(repr=False)

    def ask(self, request: Mapping[str, Any]) -> bytes:
        """Ask the process, and wait for its answer; returns that as JSON.

        Raises:
            JobRequestError: If it refuses, or fails at it.
            OSError: If it does not answer.
            EOFError: If it ends before it has.
        """
        with self.connect() as channel:
            return self.ask_over(channel, request)

    def connect(self) -> Channel:
        """Connect to the process; several requests may be asked over the channel, one after the other.

        Raises:
            OSError: If it does not answer.
        """
        return connect(self.address, self.secret, self.name, timeout_s=_CONNECT_S)

    @staticmethod
    def ask_over(channel: Channel, request: Mapping[str, Any]) -> bytes:
        """Ask over a channel that `connect` gave; else as `ask`."""
        channel.send_bytes(msgspec.json.encode(request))
        answer = msgspec.json.decode(channel.recv_bytes(), type=_Answer)
        if answer.error is not None:
            raise JobRequestError(answer.error, reason=answer.code, detail=answer.detail, hint=answer.hint)
        return bytes(answer.ok)


class _Answer(msgspec.Struct):
    """What is answered: `ok`, or why not."""

    ok: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    code: str | None = None
    detail: str | None = None
    hint: str | None = None


def find_announced(directory: str) -> list[Announced]:
    """Return what processes of this user on this machine have announced; what killed ones left is removed.

    What processes with another version of millstream announce in another way is left out.

    Raises:
        NotPrivateError: If the directory belongs to somebody else.
    """
    private = find_private(directory)
    if private is None:
        return []
    found = []
    for path in private.glob("*.control"):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            announced = Announced(
                document["name"],
                document["pid"],
                document["facts"],
                document["address"],
                bytes.fromhex(document["secret"]),
            )
            lives = is_alive(announced.pid, document["process_start"])
        except FileNotFoundError:
            continue  # it has just been withdrawn
        except (KeyError, TypeError, ValueError) as error:
            _LOG.debug("%s is of another version, and left alone: %r", path, error)
            continue
        if lives:
            found.append(announced)
        else:
            _remove(directory, path.stem)
    return found


def _remove(directory: str, stem: str) -> None:
    control = user_directory(directory) / f"{stem}.control"
    for path in (control, control.with_suffix(".control.partial"), _socket_address(directory, stem)):
        path.unlink(missing_ok=True)


def _socket_address(directory: str, stem: str) -> Path:
    """Return where a process listens: beside its file, unless a socket's address cannot be that long."""
    address = user_directory(directory) / f"{stem}.sock"
    if fits(address):
        return address
    return user_directory(directory, base=_SHORT_DIRECTORY) / address.name
