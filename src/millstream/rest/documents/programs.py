"""Programs in the place of Flink's jars."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.rest.documents.base import CamelDocument, Document
from millstream.rest.programs import UploadedProgram

__all__ = [
    "ApplicationRun",
    "ApplicationStarted",
    "JobStarted",
    "ProgramFiles",
    "ProgramPlan",
    "ProgramRun",
    "Uploaded",
    "program_files",
]


class Entry(Document, frozen=True, kw_only=True):
    """What of a file can be run."""

    name: str
    description: str | None = None


class ProgramFile(Document, frozen=True, kw_only=True):
    """An uploaded file."""

    id: str
    name: str
    uploaded: int
    entry: list[Entry]


class ProgramFiles(Document, frozen=True, kw_only=True):
    """`/jars`."""

    address: str
    files: list[ProgramFile]


class Uploaded(Document, frozen=True, kw_only=True):
    """Where an uploaded file is; its last part is its id."""

    filename: str
    status: str = "success"


class ProgramPlan(CamelDocument, frozen=True, kw_only=True):
    """Body of `POST /jars/:jarid/plan`; a Python program has one entry."""

    entry_class: str | None = None
    program_args_list: list[str] = []
    parallelism: int | None = None
    job_id: str | None = None
    flink_configuration: dict[str, str] = {}


class ProgramRun(ProgramPlan, frozen=True, kw_only=True):
    """Body of `POST /jars/:jarid/run`."""

    allow_non_restored_state: bool | None = None
    savepoint_path: str | None = None
    claim_mode: str | None = None


class ApplicationRun(ProgramRun, frozen=True, kw_only=True):
    """Body of `POST /jars/:jarid/run-application`."""

    application_id: str | None = None


class ApplicationStarted(Document, frozen=True, kw_only=True):
    """The application that a program has become."""

    applicationid: str


class JobStarted(CamelDocument, frozen=True, kw_only=True):
    """The job that a program has submitted, and the application that it belongs to."""

    jobid: str
    application_id: str


def program_files(address: str, programs: Sequence[UploadedProgram]) -> ProgramFiles:
    """Return the list of uploaded files."""
    return ProgramFiles(
        address=address,
        files=[
            ProgramFile(
                id=each.program_id, name=each.name, uploaded=each.uploaded_ms, entry=[Entry(name=each.entry)]
            )
            for each in programs
        ],
    )
