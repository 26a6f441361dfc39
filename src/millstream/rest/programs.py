"""Programs that clients upload and run: what a server asks of whoever keeps and runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from millstream.runtime.control.views import PlannedJobView

__all__ = ["Programs", "RunOrder", "StartedJob", "UploadedProgram"]


@dataclass(frozen=True, slots=True)
class UploadedProgram:
    """A program that was uploaded.

    Attributes:
        program_id: `<random>_<name>`.
        name: Of the file, as the client called it.
        uploaded_ms: When, epoch milliseconds.
        entry: The file that is run, within an archive; the name itself for a Python file.
        location: Where the file is.
    """

    program_id: str
    name: str
    uploaded_ms: int
    entry: str
    location: str


@dataclass(frozen=True, slots=True)
class RunOrder:
    """How to run one.

    Attributes:
        arguments: Its own.
        options: Options by key.
    """

    arguments: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartedJob:
    """What a program has become.

    Attributes:
        job_id: Its first job.
        application_id: The application that the job belongs to.
    """

    job_id: str
    application_id: str


class Programs(Protocol):
    """Keeps programs and runs them; any thread may ask.

    Attributes:
        most_bytes: How large an upload may be, and what is in an archive.
    """

    most_bytes: int

    def list(self) -> Sequence[UploadedProgram]:
        """Return those that are kept, the latest first."""

    def add(self, name: str, content: bytes) -> UploadedProgram:
        """Keep one.

        Raises:
            RestError: 400 if it is no program, or its name or its archive's names do not fit.
        """

    def remove(self, program_id: str) -> None:
        """Forget one.

        Raises:
            RestError: 404 if there is none.
        """

    def plan(self, program_id: str, order: RunOrder) -> PlannedJobView:
        """Run one up to its first job, which is not run, and return that.

        Raises:
            RestError: 404 if there is none, 400 if it ended before it had a job, 503 if that takes long.
        """

    def start(self, program_id: str, order: RunOrder) -> str:
        """Run one, and return the id of its application at once.

        Raises:
            RestError: 404 if there is none.
        """

    def run(self, program_id: str, order: RunOrder) -> StartedJob:
        """Run one, and return its first job.

        Raises:
            RestError: 404 if there is none, 400 if it ended before it had a job, 503 if that takes long.
        """
