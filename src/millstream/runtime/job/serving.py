"""Has a job shown by the REST server of its process, if its options ask for that.

The server is in a room above: it is found by entry point, as executors are.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.config.options_rest import REST_BIND_PORT, REST_ENABLED, REST_PORT
from millstream.runtime.control.gateway import JobGateway

__all__ = ["serve_job"]


def serve_job(configuration: Configuration, job: JobGateway) -> str | None:
    """Have a job served, if it is asked for; called before the job runs.

    Returns:
        The address of the REST API; None if there is none.

    Raises:
        ConfigurationError: If the server cannot listen, or its options do not fit.
    """
    if not _is_wanted(configuration):
        return None
    for entry in entry_points(group="millstream.servers", name="rest"):
        address: str = entry.load()(configuration, job)
        return address
    raise ConfigurationError(
        "the REST API was asked for, and no server was found",
        hint="Install millstream as a package: pip install millstream.",
    )


def _is_wanted(configuration: Configuration) -> bool:
    said: bool | None = configuration.get(REST_ENABLED)
    if said is not None:
        return said
    return any(configuration.contains_key(option.key) for option in (REST_PORT, REST_BIND_PORT))
