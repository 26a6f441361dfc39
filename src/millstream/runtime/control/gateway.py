"""The one way to a job, wherever it is: commands go in, views come out.

::

    command line ─┐                   ┌─ LiveJob      runs in this process       (runtime/job/live_job.py)
    REST          ├──► JobGateway ────┼─ RemoteJob    runs in another, by socket (runtime/control/channel.py)
    dashboard     │                   └─ ArchivedJob  has ended, in a file       (runtime/control/archive.py)
    reporters    ─┘

Whoever shows a job or steers it takes a `JobGateway`, and does not ask which. None of them holds logic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Any, TypeVar

from millstream.runtime.control.commands import Command

__all__ = ["JobGateway"]

V = TypeVar("V")


class JobGateway(ABC):
    """A job, to be seen and steered; any thread may ask.

    Attributes:
        job_id: 32 hexadecimal digits.
        name: Of the job.
        started_ms: When it was submitted, epoch milliseconds.
        answers_here: Whether views are made in this process, so that nobody else can keep an asker waiting.
    """

    job_id: str
    name: str
    started_ms: int
    answers_here: bool = True

    @abstractmethod
    def view(self, kind: type[V]) -> V:
        """Return a view of the job as it is now.

        Args:
            kind: One of the classes of `runtime.control.views` that end in View and are listed in `codec.VIEWS`.

        Raises:
            JobRequestError: If there is no such view, or the job has gone.
        """

    @abstractmethod
    def perform(self, command: Command) -> Future[Any]:
        """Have the job do something; returns at once.

        Returns:
            What the command says comes of it, or the error (`JobExecutionError` and its kind) why nothing does.
        """
