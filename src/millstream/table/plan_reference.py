"""Where a plan that was kept is (PyFlink's `pyflink.table.plan_reference`)."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from millstream.base.errors import ConfigurationError, NotSupportedError

__all__ = ["BytesContentPlanReference", "FilePlanReference", "JsonContentPlanReference", "PlanReference"]


class PlanReference:
    """A plan of `COMPILE PLAN` or `CompiledPlan.write_to_file`, for `TableEnvironment.load_plan` and `execute_plan`.

    >>> PlanReference.from_file("plan.json").get_file().name
    'plan.json'
    """

    @staticmethod
    def from_file(path: str | PathLike[str]) -> FilePlanReference:
        """Refer to a file."""
        return FilePlanReference(Path(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """Refer to a plan's text, as `CompiledPlan.as_json_string` gives it."""
        return JsonContentPlanReference(json_string)

    @staticmethod
    def from_smile_bytes(smile_bytes: bytes) -> BytesContentPlanReference:
        """Refer to a plan in Smile, a binary form of JSON; it can be named, but not be loaded."""
        return BytesContentPlanReference(smile_bytes)

    def read(self) -> str:
        """Return the plan's text (millstream's own).

        Raises:
            ConfigurationError: If it cannot be read.
            NotSupportedError: If it is not kept as JSON.
        """
        raise NotSupportedError(
            f"a {type(self).__name__} has no plan",
            hint="Use PlanReference.from_file(...) or from_json_string(...).",
        )


@dataclass(frozen=True)
class FilePlanReference(PlanReference):
    """A plan in a file."""

    file: Path

    def get_file(self) -> Path:
        """Return the file's absolute path."""
        return self.file.resolve()

    def read(self) -> str:
        """Return the text of the file.

        Raises:
            ConfigurationError: If it cannot be read.
        """
        try:
            return self.file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"file '{self.file}' of a plan cannot be read: {error}") from error

    def __str__(self) -> str:
        return f"Plan from file '{self.file}'"


@dataclass(frozen=True)
class JsonContentPlanReference(PlanReference):
    """A plan as JSON."""

    content: str

    def get_content(self) -> str:
        """Return the text."""
        return self.content

    def read(self) -> str:
        """Return the text."""
        return self.content

    def __str__(self) -> str:
        return f"Plan:\n{self.content}"


@dataclass(frozen=True)
class BytesContentPlanReference(PlanReference):
    """A plan in Smile, which only Flink's Java reads."""

    content: bytes

    def get_content(self) -> bytes:
        """Return the bytes."""
        return self.content

    def read(self) -> str:
        """Raise an error: plans are JSON.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            f"a plan was given as {len(self.content)} bytes of Smile",
            detail="Smile is a binary form of JSON for Java; plans are JSON here.",
            hint="Use PlanReference.from_json_string(...) with what as_json_string() gave.",
        )

    def __str__(self) -> str:
        return f"Plan:\n{list(self.content)}"
