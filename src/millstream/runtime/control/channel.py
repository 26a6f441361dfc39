"""How another process of this user sees and steers a running job: a Unix socket beside the job's status file.

::

    <status directory>/<job id>-<random>.control    JSON for this user only: process, name, address, secret
                      /<job id>-<random>.sock       the socket; below /tmp if that path is too long for one

    ask ── connect, prove the secret (`runtime/connect`) ────► job
        ── {"view": "job"} or {"command": "savepoint", … } ──►
        ◄─ {"ok": …} or {"error": "...", "code": …, "detail": …, "hint": …} ──

Messages are JSON (`codec.py`): nothing is unpickled. A job is known from its start on; at its end it answers whoever
still waits, and removes both files. Files of processes that were killed are removed by whoever looks for jobs.
Each driver has files of its own: one that goes on with a job may begin before the one before it has ended.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from millstream.base.clock import SystemClock
from millstream.base.errors import JobExecutionError, JobRequestError, MillstreamError
from millstream.files.private_files import find_private, private_directory, user_directory
from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.listener import Listener
from millstream.runtime.connect.sockets import fits
from millstream.runtime.control.codec import (
    VIEWS,
    decode,
    encode,
    read_command,
    view_name,
    write_command,
)
from millstream.runtime.control.commands import Command
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.status_files import (
    is_alive,
    process_start,
    status_directory,
)

__all__ = ["ControlChannel", "RemoteJob", "find_jobs"]

V = TypeVar("V")

_LOG = logging.getLogger("millstream")
_CONNECT_S = 5.0
_LOOK_S = 0.2
_LAST_ANSWERS_S = 2.0
_LONGEST_REQUEST = 1_000_000
"""In bytes."""
_SHORT_DIRECTORY = Path("/tmp")


class ControlChannel:
    """The job's end; `start` and `close` are called once, on any thread.

    Args:
        job: What is shown and steered; asked on the channel's threads.

    A channel that cannot be opened is no reason to fail: it is logged, and the job cannot be steered from outside.
    """

    def __init__(self, job: JobGateway) -> None:
        self._job = job
        self._stem = f"{job.job_id}-{secrets.token_hex(4)}"
        self._secret = secrets.token_bytes(32)
        self._listener: Listener | None = None
        self._ended = threading.Event()
        self._conversations: set[threading.Event] = set()

    def start(self) -> None:
        """Listen, and let other processes of this user know."""
        directory = status_directory()
        address = _socket_address(self._stem)
        try:
            private_directory("jobs")
            if address.parent != directory:
                private_directory("jobs", base=_SHORT_DIRECTORY)
            find_jobs()  # which removes what this very job left behind when its driver was killed
            stream = socket.socket(socket.AF_UNIX)
            self._listener = Listener(
                stream,
                secret=self._secret,
                name=self._job.job_id,
                converse=self._converse,
                clock=SystemClock(),
            )
            stream.bind(str(address))
            stream.listen()
            self._announce(directory, address)
        except OSError as error:
            _LOG.warning("job cannot be steered from another process: %s", error)
            self._withdraw()
            return
        self._listener.start()

    def close(self) -> None:
        """Answer whoever waits, then listen no more; the job has ended."""
        self._withdraw()
        self._ended.set()
        for conversation in list(self._conversations):
            conversation.wait(_LAST_ANSWERS_S)

    def _announce(self, directory: Path, address: Path) -> None:
        document = {
            "job_id": self._job.job_id,
            "name": self._job.name,
            "started_ms": self._job.started_ms,
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

    def _withdraw(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        _remove(self._stem)
        listener.close()

    def _converse(self, channel: Channel) -> None:
        done = threading.Event()
        self._conversations.add(done)
        try:
            request = json.loads(channel.recv_bytes(_LONGEST_REQUEST))
            channel.send_bytes(self._answer(request))
        except (OSError, EOFError, ValueError) as error:
            _LOG.debug("a request to the job came to nothing: %s", error)
        finally:
            self._conversations.discard(done)
            done.set()

    def _answer(self, request: dict[str, Any]) -> bytes:
        try:
            return encode({"ok": self._do(request)})
        except MillstreamError as error:
            return encode(
                {"error": error.message, "code": error.code, "detail": error.detail, "hint": error.hint}
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked is told
            return encode({"error": f"{type(error).__name__}: {error}", "detail": None, "hint": None})

    def _do(self, request: dict[str, Any]) -> Any:
        if "view" in request:
            kind = VIEWS.get(request["view"])
            if kind is None:
                raise JobRequestError(
                    f'a job was asked for the view "{request["view"]}", which it does not know'
                )
            return self._job.view(kind)
        command = read_command(request)
        outcome = self._result(self._job.perform(command))
        if command.ends_job:
            self._ended.wait()
        return outcome

    def _result(self, future: Future[Any]) -> Any:
        while True:
            ended = self._ended.is_set()
            try:
                return future.result(_LOOK_S)
            except NotYet:
                if ended:
                    raise JobExecutionError("the job ended before it had done what was asked") from None


@dataclass(frozen=True)
class RemoteJob(JobGateway):
    """Another process' job.

    Attributes:
        job_id: Of the job.
        name: Of the job.
        started_ms: When it was submitted, epoch milliseconds.
        pid: The process that drives it.
        address: Of its socket.
        secret: To be proved.
    """

    job_id: str
    name: str
    started_ms: int
    pid: int
    address: str
    secret: bytes = field(repr=False)

    def view(self, kind: type[V]) -> V:
        """Return a view of the job as it is now.

        Raises:
            JobRequestError: If there is no such view, or the job has gone.
        """
        return self._ask({"view": view_name(kind)}, kind)

    def perform(self, command: Command) -> Future[Any]:
        """Have the job do something; returns at once."""
        future: Future[Any] = Future()
        request = write_command(command)
        outcome = type(command).outcome

        def ask() -> None:
            try:
                future.set_result(self._ask(request, outcome))
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)

        threading.Thread(target=ask, name=f"ask-{self.job_id[:8]}", daemon=True).start()
        return future

    def _ask(self, request: dict[str, Any], kind: type[V]) -> V:
        try:
            with connect(self.address, self.secret, self.job_id, timeout_s=_CONNECT_S) as channel:
                channel.send_bytes(encode(request))
                answer = decode(channel.recv_bytes(), _Answer)
        except (OSError, EOFError) as error:
            raise JobRequestError(
                f'job {self.job_id} "{self.name}" does not answer: {type(error).__name__}: {error}',
                hint="It may have ended meanwhile: `millstream list` shows the jobs that run.",
            ) from error
        if answer.error is not None:
            raise JobRequestError(answer.error, reason=answer.code, detail=answer.detail, hint=answer.hint)
        return decode(bytes(answer.ok), kind)


class _Answer(msgspec.Struct):
    """What a job answers: `ok`, or why not."""

    ok: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    code: str | None = None
    detail: str | None = None
    hint: str | None = None


def find_jobs() -> list[RemoteJob]:
    """Return the jobs of this user that run on this machine, by start; of several drivers of one job the last.

    Raises:
        NotPrivateError: If the directory belongs to somebody else.
    """
    directory = find_private("jobs")
    if directory is None:
        return []
    found = []
    for path in directory.glob("*.control"):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue  # the job has just ended
        if is_alive(document["pid"], document["process_start"]):
            keys = ("job_id", "name", "started_ms", "pid", "address")
            found.append(
                RemoteJob(**{key: document[key] for key in keys}, secret=bytes.fromhex(document["secret"]))
            )
        else:
            _remove(path.stem)
    found.sort(key=lambda job: (job.started_ms, job.job_id))
    return list({job.job_id: job for job in found}.values())


def _remove(stem: str) -> None:
    control = status_directory() / f"{stem}.control"
    for path in (control, control.with_suffix(".control.partial"), _socket_address(stem)):
        path.unlink(missing_ok=True)


def _socket_address(stem: str) -> Path:
    """Return where a job listens: beside its status file, unless a socket's address cannot be that long."""
    address = status_directory() / f"{stem}.sock"
    if fits(address):
        return address
    return user_directory("jobs", base=_SHORT_DIRECTORY) / address.name
