"""The options that a job runs with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ConfigView", "OptionView"]


@dataclass(frozen=True, slots=True)
class OptionView:
    """One option.

    Attributes:
        key: Its key.
        value: What holds, as text; *** for what is secret; None for no value.
        origin: Where it was set: default, file, env, command line or code.
    """

    key: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class ConfigView:
    """What a job runs with.

    Attributes:
        options: All options of millstream, then other keys that are set, by key.
        job_parameters: The user's global job parameters; what is secret by its name is ***.
        restart_strategy: Its type.
        version: Of millstream.
    """

    options: tuple[OptionView, ...] = ()
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    restart_strategy: str = ""
    version: str = ""
