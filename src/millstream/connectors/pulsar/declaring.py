"""What the builders of sources and sinks have in common: where Pulsar is, and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.patience import Patience
from millstream.connectors.pulsar.connection import Authentication, PulsarConnection
from millstream.connectors.pulsar.settings import CONNECTION, Option, PulsarOptions

__all__ = ["PulsarBuilder"]


class PulsarBuilder:
    """Keeps what a program says of the cluster.

    Args:
        known: Options besides those of the connection.
    """

    def __init__(self, known: Mapping[str, Option]) -> None:
        self._options = PulsarOptions({**CONNECTION, **known})
        self._patience = Patience()

    def _set(self, key: Any, value: Any) -> None:
        self._options.set(key if isinstance(key, str) else key.key, value)

    def _log_in(self, plugin: str, parameters: str) -> None:
        Authentication.of(plugin, parameters)
        self._options.set("pulsar.client.authPluginClassName", plugin)
        self._options.set("pulsar.client.authParams", parameters)

    def _connection(self, what: str) -> PulsarConnection:
        """Return where the cluster is.

        Raises:
            ConfigurationError: If that was not said.
        """
        options = self._options
        url = options.get("pulsar.client.serviceUrl")
        if not url:
            raise ConfigurationError(
                f"the Pulsar {what} has no service URL", hint="set_service_url('pulsar://host:6650')."
            )
        plugin = options.get("pulsar.client.authPluginClassName")
        parameters = options.get("pulsar.client.authParams", "")
        return PulsarConnection(
            url,
            options.get("pulsar.admin.adminUrl"),
            Authentication.of(plugin, parameters) if plugin else None,
            options.arguments(CONNECTION),
            self._patience,
        )
