"""Has a job shown by the REST server of its process, if its options ask for that.

The server is in a room above: it is found by entry point, as executors are.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.config.options_rest import REST_BIND_PORT, REST_ENABLED, REST_PORT
from millstream.runtime.control.gateway import JobGateway

__all__ = ["find_server"]


def find_server(configuration: Configuration) -> Callable[[JobGateway], None] | None:
    """Return what shows a job on the server of this process, which listens by then; None if nobody asks for that.

    Raises:
        ConfigurationError: If the server cannot listen, or its options do not fit.
    """
    if not _is_wanted(configuration):
        return None
    for entry in entry_points(group="millstream.servers", name="rest"):
        show: Callable[[JobGateway], None] = entry.load()(configuration)
        return show
    raise ConfigurationError(
        "the REST API was asked for, and no server was found",
        hint="Install millstream as a package: pip install millstream.",
    )


def _is_wanted(configuration: Configuration) -> bool:
    said: bool | None = configuration.get(REST_ENABLED)
    if said is not None:
        return said
    return any(configuration.contains_key(option.key) for option in (REST_PORT, REST_BIND_PORT))
