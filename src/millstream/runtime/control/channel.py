"""How another process of this user steers a running job: a Unix socket beside the job's status file.

::

    <status directory>/<job id>-<random>.control    JSON for this user only: process, name, address, secret
                      /<job id>-<random>.sock       the socket; below /tmp if that path is too long for one

    ask ── connect, prove the secret (`runtime/connect`) ────► job
        ── {"command": "savepoint", "directory": ...} ───────►
        ◄─ {"ok": "/savepoints/savepoint-..."} or {"error": "...", "detail": ..., "hint": ...} ──

Messages are JSON: nothing is unpickled. A job is known from its start on; at its end it answers whoever still
waits, and removes both files. Files of processes that were killed are removed by whoever looks for jobs.
Each driver has files of its own: one that goes on with a job may begin before the one before it has ended.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import JobExecutionError, JobRequestError, MillstreamError
from millstream.files.private_files import find_private, private_directory, user_directory
from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.listener import Listener
from millstream.runtime.connect.sockets import fits
from millstream.runtime.control.status_files import (
    is_alive,
    process_start,
    status_directory,
)

__all__ = ["ControlChannel", "ControlledJob", "JobHandle", "find_jobs"]

_LOG = logging.getLogger("millstream")
_CONNECT_S = 5.0
_LOOK_S = 0.2
_LAST_ANSWERS_S = 2.0
_LONGEST_REQUEST = 1_000_000
"""In bytes."""
_SHORT_DIRECTORY = Path("/tmp")


@dataclass(frozen=True, slots=True)
class ControlledJob:
    """What a channel may do with its job; called on the channel's threads.

    Attributes:
        job_id: Of the job.
        name: Of the job.
        started_ms: When it was submitted, epoch milliseconds.
        status: Tells its status and failures, as plain data.
        savepoint: Asks for a savepoint: directory, then whether to stop and to drain.
        cancel: Asks it to stop at once.
        query: Answers a question about keyed state, see `queryable.answer_request`; None if it cannot.
    """

    job_id: str
    name: str
    started_ms: int
    status: Callable[[], dict[str, Any]]
    savepoint: Callable[[str | None, bool, bool], Future[str]]
    cancel: Callable[[], None]
    query: Callable[[dict[str, Any]], Any] | None = None


class ControlChannel:
    """The job's end; `start` and `close` are called once, on any thread.

    A channel that cannot be opened is no reason to fail: it is logged, and the job cannot be steered from outside.
    """

    def __init__(self, job: ControlledJob) -> None:
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
            channel.send_bytes(json.dumps(self._answer(request)).encode())
        except (OSError, EOFError, ValueError) as error:
            _LOG.debug("a request to the job came to nothing: %s", error)
        finally:
            self._conversations.discard(done)
            done.set()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": self._do(request)}
        except MillstreamError as error:
            return {"error": error.message, "code": error.code, "detail": error.detail, "hint": error.hint}
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked is told
            return {"error": f"{type(error).__name__}: {error}", "detail": None, "hint": None}

    def _do(self, request: dict[str, Any]) -> Any:
        command = request.get("command")
        if command == "status":
            return self._job.status()
        if command == "cancel":
            self._job.cancel()
            self._ended.wait()
            return self._job.status()
        if command == "query" and self._job.query is not None:
            return self._job.query(request)
        if command in ("savepoint", "stop"):
            stop = command == "stop"
            future = self._job.savepoint(request.get("directory"), stop, bool(request.get("drain")))
            path = self._result(future)
            if stop:
                self._ended.wait()
            return path
        raise JobRequestError(f'a job was sent the command "{command}", which it does not know')

    def _result(self, future: Future[str]) -> str:
        while True:
            ended = self._ended.is_set()
            try:
                return future.result(_LOOK_S)
            except NotYet:
                if ended:
                    raise JobExecutionError("the job ended before the savepoint was made") from None


@dataclass(frozen=True, slots=True)
class JobHandle:
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
    secret: bytes

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send a command and wait for what comes of it.

        Raises:
            JobRequestError: If the job refuses, or has gone.
        """
        try:
            with connect(self.address, self.secret, self.job_id, timeout_s=_CONNECT_S) as channel:
                channel.send_bytes(json.dumps({"command": command, **arguments}).encode())
                answer = json.loads(channel.recv_bytes())
        except (OSError, EOFError) as error:
            raise JobRequestError(
                f'job {self.job_id} "{self.name}" does not answer: {type(error).__name__}: {error}',
                hint="It may have ended meanwhile: `millstream list` shows the jobs that run.",
            ) from error
        if "error" in answer:
            raise JobRequestError(
                answer["error"], reason=answer.get("code"), detail=answer["detail"], hint=answer["hint"]
            )
        return answer["ok"]


def find_jobs() -> list[JobHandle]:
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
                JobHandle(**{key: document[key] for key in keys}, secret=bytes.fromhex(document["secret"]))
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
