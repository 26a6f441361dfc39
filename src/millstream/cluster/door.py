"""How other processes of this user ask a dispatcher: requests and answers over its announced socket.

====================  =========================================  ==========================
request               with                                       answer
====================  =========================================  ==========================
submit                `program`, `name`                          the application
cancel                `application_id`                           the application
applications                                                     all applications
log                   `application_id`                           the path of its log
stop                                                             nothing; the dispatcher ends
====================  =========================================  ==========================
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.base.errors import ConfigurationError, JobRequestError
from millstream.cluster.applications import (
    Application,
    Program,
    application_from_json,
    application_to_json,
    program_from_json,
    program_to_json,
)
from millstream.cluster.dispatcher import Dispatcher
from millstream.runtime.control.announced import Announced, AnnouncedSocket, find_announced

__all__ = ["ClusterDoor", "RemoteCluster", "find_cluster"]

_DIRECTORY = "clusters"
_NAME = "dispatcher"


class ClusterDoor:
    """The dispatcher's end; `start` and `close` are called once.

    Args:
        dispatcher: Who answers.
        facts: What is told of the cluster to whoever finds it; plain data.
    """

    def __init__(self, dispatcher: Dispatcher, facts: Mapping[str, Any]) -> None:
        self._dispatcher = dispatcher
        self._socket = AnnouncedSocket(_DIRECTORY, _NAME, facts, self._answer)

    def start(self) -> None:
        """Let other processes of this user find the dispatcher.

        Raises:
            OSError: If that cannot be done.
        """
        self._socket.start()

    def close(self) -> None:
        """Answer whoever waits, and be found no more."""
        self._socket.close()

    def _answer(self, request: dict[str, Any]) -> Any:
        dispatcher = self._dispatcher
        match request.get("request"):
            case "submit":
                program = program_from_json(request.get("program"))
                return application_to_json(dispatcher.submit(program, name=request.get("name")))
            case "cancel":
                return application_to_json(dispatcher.cancel(request["application_id"]))
            case "applications":
                return [application_to_json(each) for each in dispatcher.applications()]
            case "log":
                return str(dispatcher.log_file(dispatcher.find(request["application_id"])))
            case "stop":
                # Behind this answer, which `close` waits for.
                threading.Timer(0.1, dispatcher.stop).start()
                return None
            case other:
                raise JobRequestError(f'a cluster was asked for "{other}", which it does not know')


class RemoteCluster:
    """A cluster whose dispatcher runs in another process of this user; any thread may ask.

    Attributes:
        pid: The dispatcher's process.
        facts: What it tells of itself: `directory`, `target`, `started_ms`, `rest`.
    """

    def __init__(self, announced: Announced) -> None:
        self._announced = announced
        self.pid = announced.pid
        self.facts = announced.facts

    def submit(self, program: Program, *, name: str | None = None) -> Application:
        """Have a program run; returns when that is noted.

        Raises:
            JobRequestError: If the cluster refuses it, or has gone.
        """
        document = self._ask({"request": "submit", "program": program_to_json(program), "name": name})
        return application_from_json(document)

    def cancel(self, application_id: str) -> Application:
        """Have an application end; it may take a while.

        Raises:
            JobRequestError: If there is none with such an id, or the cluster has gone.
        """
        return application_from_json(self._ask({"request": "cancel", "application_id": application_id}))

    def applications(self) -> list[Application]:
        """Return all applications, by submission.

        Raises:
            JobRequestError: If the cluster has gone.
        """
        return [application_from_json(each) for each in self._ask({"request": "applications"})]

    def log_file(self, application_id: str) -> Path:
        """Return where an application's last process writes.

        Raises:
            JobRequestError: If there is none with such an id, or the cluster has gone.
        """
        return Path(self._ask({"request": "log", "application_id": application_id}))

    def stop(self) -> None:
        """Have the dispatcher end; programs on Spark end with it, and go on with the next one.

        Raises:
            JobRequestError: If the cluster has gone.
        """
        self._ask({"request": "stop"})

    def _ask(self, request: Mapping[str, Any]) -> Any:
        try:
            return json.loads(self._announced.ask(request))
        except (OSError, EOFError) as error:
            raise JobRequestError(
                f"the cluster of process {self.pid} does not answer: {type(error).__name__}: {error}",
                hint="`millstream cluster status` shows whether it runs; `millstream cluster start` starts it.",
            ) from error


def find_cluster(directory: str | None = None) -> RemoteCluster | None:
    """Return the cluster of this user that runs on this machine; None if there is none.

    Args:
        directory: That of the cluster, if there may be several.

    Raises:
        ConfigurationError: If several run, and no directory says which.
        NotPrivateError: If the directory of such files belongs to somebody else.
    """
    found = [RemoteCluster(each) for each in find_announced(_DIRECTORY)]
    if directory is not None:
        wanted = str(Path(directory).resolve())
        found = [each for each in found if each.facts.get("directory") == wanted]
    if len(found) > 1:
        raise ConfigurationError(
            f"{len(found)} clusters of this user run on this machine",
            detail=", ".join(str(each.facts.get("directory")) for each in found),
            hint="Say which: --cluster DIR.",
        )
    return found[0] if found else None
