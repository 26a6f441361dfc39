"""What is done when a server takes a request, but not all the documents in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from millstream.base.errors import ConfigurationError

__all__ = ["Backoff", "FlushBackoffType", "RejectedPolicy"]


class FlushBackoffType(Enum):
    """How long to wait before documents are sent again that the server had no room for.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import Elasticsearch8SinkBuilder, FlushBackoffType
        >>> builder = Elasticsearch8SinkBuilder().set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 5, 1_000)
    """

    CONSTANT = 0
    EXPONENTIAL = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often, and after which pauses, documents are sent again that a server rejects for a while (429, 503).

    Attributes:
        kind: NONE for not at all; EXPONENTIAL doubles each pause.
        max_retries: How often.
        delay_ms: The first pause.

    >>> list(Backoff(FlushBackoffType.EXPONENTIAL, 3, 50).pauses())
    [0.05, 0.1, 0.2]
    """

    kind: FlushBackoffType = FlushBackoffType.EXPONENTIAL
    max_retries: int = 8
    delay_ms: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.kind, FlushBackoffType):
            raise ConfigurationError(f"{self.kind!r} is no FlushBackoffType")
        if self.kind is FlushBackoffType.NONE:
            return
        if self.max_retries <= 0 or self.delay_ms < 0:
            raise ConfigurationError(
                f"sending {self.max_retries} times after {self.delay_ms} ms makes no sense",
                detail="The number is at least 1, and the pause is not negative.",
                hint="FlushBackoffType.NONE sends nothing again.",
            )

    def pauses(self) -> Iterator[float]:
        """Return the pauses, in seconds."""
        if self.kind is FlushBackoffType.NONE:
            return
        for number in range(self.max_retries):
            yield self.delay_ms / 1000 * (2**number if self.kind is FlushBackoffType.EXPONENTIAL else 1)


class _Reaction(Enum):
    FAIL = "fail"
    SKIP = "skip"
    TO_INDEX = "to_index"


@dataclass(frozen=True, slots=True)
class RejectedPolicy:
    """What becomes of documents that the server rejects for good; made by one of its three methods.

    Such are documents that do not fit the mapping of their index. What is wrong with more than one document (no such
    index, no right to it) fails the job, whatever the policy.

    >>> from millstream.datastream.connectors.elasticsearch import RejectedPolicy
    >>> RejectedPolicy.to_index("rejected")
    RejectedPolicy.to_index('rejected')
    """

    _reaction: _Reaction
    index: str | None = None

    @staticmethod
    def fail() -> RejectedPolicy:
        """Fail the job, naming the document; the default."""
        return RejectedPolicy(_Reaction.FAIL)

    @staticmethod
    def skip() -> RejectedPolicy:
        """Count them and name some of them in the log, and go on."""
        return RejectedPolicy(_Reaction.SKIP)

    @staticmethod
    def to_index(index: str) -> RejectedPolicy:
        """Write them to another index, with index, id, reason and the document as text; and go on.

        Raises:
            ConfigurationError: If it has no name.
        """
        if not isinstance(index, str) or not index:
            raise ConfigurationError(f"{index!r} is no name of an index")
        return RejectedPolicy(_Reaction.TO_INDEX, index)

    @property
    def fails(self) -> bool:
        """Whether the job fails."""
        return self._reaction is _Reaction.FAIL

    def __repr__(self) -> str:
        return f"RejectedPolicy.{self._reaction.value}({'' if self.index is None else repr(self.index)})"
