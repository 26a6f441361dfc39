"""A job's options as they are seen: with where each comes from, and without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.config.options import ALL_OPTIONS, ConfigOption, OptionType
from millstream.config.options_checkpointing import RESTART_STRATEGY
from millstream.config.options_file_systems import is_secret
from millstream.files.file_systems import parse_location
from millstream.runtime.control.views import ConfigView, OptionView
from millstream.version import __version__

__all__ = ["as_text", "describe_configuration", "shown_value"]

MASKED = "***"


def as_text(option: ConfigOption, value: object) -> str | None:
    """Return an option's value as text, in the form in which it is set; None for no value."""
    if value is None:
        return None
    if option.type is OptionType.DURATION:
        return f"{value} ms"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def shown_value(option: ConfigOption, value: object) -> str | None:
    """Return a value as text, without what is to be kept secret."""
    if value is not None and is_secret(option.key):
        return MASKED
    if isinstance(value, Mapping):
        value = _masked(value)
    text = as_text(option, value)
    if text is not None and re.match(r"s3a?://", text, re.IGNORECASE):
        return str(parse_location(text))
    return text


def describe_configuration(configuration: Configuration) -> ConfigView:
    """Return all options of millstream, and what else is set."""
    known = {option.key: option for option in ALL_OPTIONS}
    others = sorted(configuration.key_set() - known.keys())
    shown = [*ALL_OPTIONS, *(ConfigOption(key, OptionType.STRING, None, "") for key in others)]
    return ConfigView(
        options=tuple(
            OptionView(
                option.key,
                shown_value(option, configuration.get(option if option.key in known else option.key)),
                configuration.source(option.key).value,
            )
            for option in sorted(shown, key=lambda option: option.key)
        ),
        job_parameters=_masked(configuration.get(options.GLOBAL_JOB_PARAMETERS) or {}),
        restart_strategy=str(configuration.get(RESTART_STRATEGY) or ""),
        version=__version__,
    )


def _masked(values: Mapping[str, object]) -> dict[str, str]:
    return {str(key): MASKED if is_secret(str(key)) else str(value) for key, value in values.items()}
