"""Connections to a broker, and what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from millstream.base.errors import MillstreamError
from millstream.base.optional import load_package
from millstream.connectors.patience import Patience
from millstream.connectors.rabbitmq.config import RMQConnectionConfig

__all__ = ["Broker", "declare_queue"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_NOT_FOUND, _REFUSED, _OTHERWISE = 404, 403, 406
_VIRTUAL_HOST = 530

_AWAY = "Check that the broker runs and can be reached from where slots run."
_HINTS = {
    _NOT_FOUND: "Check the names of queue and exchange, and whether somebody removed them.",
    _REFUSED: "Check user and password, and the user's rights: rabbitmqctl set_permissions.",
    _OTHERWISE: "It was declared with other arguments: have it declared before, as it is to be.",
    _VIRTUAL_HOST: "Check the name of the virtual host, and whether the user may use it.",
}


class Broker:
    """Connects to a broker: waits while it is away, and says what its errors mean.

    Args:
        config: Where it is.
        error_type: What is raised: a SourceError or a SinkError.
        patience: How long it is waited for.
    """

    def __init__(
        self, config: RMQConnectionConfig, error_type: type[MillstreamError], patience: Patience
    ) -> None:
        self.pika = load_package("pika", extra="rabbitmq", what="RabbitMQ sources and sinks")
        self._errors = self.pika.exceptions
        self.config = config
        self._error_type = error_type
        self._patience = patience
        its_log = logging.getLogger("pika")
        if its_log.level == logging.NOTSET:  # it tells of each attempt to connect with several tracebacks
            its_log.setLevel(logging.CRITICAL)

    def call(
        self, what: str, action: Callable[[], Result], goes_on: Callable[[], bool] = lambda: True
    ) -> Result:
        """Return what an action gives; it is repeated while the broker is away.

        Args:
            what: What is being done: `reading queue "orders"`.
            action: Connects anew where need be; may be repeated.
            goes_on: Whether it is still wanted.

        Raises:
            MillstreamError: If the broker refuses it, or stays away.
        """

        def act() -> Result:
            try:
                return action()
            except self._errors.AMQPConnectionError as error:
                if not str(error):  # of a connection that was not made
                    error.args = ("no connection",)
                raise

        try:
            return self._patience.call(
                act,
                is_passing=lambda error: self.is_passing(error) and goes_on(),
                what=f"RabbitMQ {self.config.address}, {what}",
                log=log,
            )
        except (self._errors.AMQPError, OSError) as error:
            raise self.explain(what, error) from error

    def is_passing(self, error: Exception) -> bool:
        """Return whether an error may pass by itself."""
        errors = self._errors
        if self.config.is_automatic_recovery() is False or self._code(error) in _HINTS:
            return False
        if isinstance(error, (errors.ProbableAuthenticationError, errors.ProbableAccessDeniedError)):
            return False
        return isinstance(error, (errors.AMQPConnectionError, errors.NackError, OSError))

    def explain(self, what: str, error: Exception) -> MillstreamError:
        """Return the error that says what one of pika's means.

        Args:
            what: What was being done.
            error: Pika's.
        """
        code = self._code(error)
        said = getattr(error, "reply_text", None) or f"{type(error).__name__} {error}".strip()
        return self._error_type(
            f"RabbitMQ refused or did not answer, {what}: {said}",
            detail=f"Broker {self.config.address}.",
            hint=_AWAY if code is None else _HINTS.get(code, _AWAY),
        )

    def _code(self, error: Exception) -> int | None:
        errors = self._errors
        if isinstance(error, errors.ProbableAuthenticationError):
            return _REFUSED
        if isinstance(error, errors.ProbableAccessDeniedError):
            return _VIRTUAL_HOST
        return getattr(error, "reply_code", None)


def declare_queue(broker: Broker, connection: Any, queue: str) -> None:
    """Declare a durable queue, as Flink does, unless there is one of that name already, of whatever kind.

    Args:
        broker: The broker.
        connection: A `BlockingConnection`.
        queue: The queue.

    Raises:
        AMQPError: If the broker refuses it.
    """
    try:
        connection.channel().queue_declare(queue, passive=True)
    except broker.pika.exceptions.ChannelClosedByBroker as error:
        if error.reply_code != _NOT_FOUND:
            raise
        log.warning('there is no queue "%s" on %s; declaring it', queue, broker.config.address)
        connection.channel().queue_declare(queue, durable=True)
