"""Messages as blocks of bytes, and back.

A block is a byte that tells the version, 1, and `Messages` in MessagePack. It has few messages, so that what is made of
it is still in the processor's cache when it is sent.

Before there was version 1, blocks were pickles. Those begin with a byte of 128, and are read too.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import index
from typing import Any

from msgspec.msgpack import Decoder, Encoder

from millstream.base.errors import SinkError
from millstream.connectors.kafka.serialization import Messages

__all__ = ["decode", "encode", "topics_in"]

_VERSION = b"\x01"
_PICKLE = b"\x80"
_MOST = 2000

_encoder = Encoder(enc_hook=index)  # numbers of other libraries


def encode(messages: Messages) -> Iterator[tuple[bytes, bytes]]:
    """Yield blocks, each in two parts."""
    count = len(messages.values)
    for start in range(0, count, _MOST):
        some = messages if count <= _MOST else messages.part(start, start + _MOST)
        yield _VERSION, _encoder.encode(some)


def decode(block: bytes, path: str) -> Messages:
    """Return the messages of a block.

    Args:
        block: The block.
        path: Where it was read, for the error.

    Raises:
        SinkError: If it was written by a later version of millstream.
    """
    found: Messages = _decoded(block, path, _decoder)
    return found


def topics_in(block: bytes, path: str) -> Iterable[str]:
    """Return the topics of a block's messages, each once, in order of their first message.

    Args:
        block: The block.
        path: Where it was read, for the error.

    Raises:
        SinkError: If it was written by a later version of millstream.
    """
    topics: str | list[str] = _decoded(block, path, _topics_decoder).topics
    return (topics,) if isinstance(topics, str) else dict.fromkeys(topics)


@dataclass(slots=True)
class _Topics:
    topics: str | list[str]


_decoder = Decoder(Messages)
_topics_decoder = Decoder(_Topics)


def _decoded(block: bytes, path: str, decoder: Decoder[Any]) -> Any:
    if block.startswith(_PICKLE):
        return pickle.loads(block)
    if not block.startswith(_VERSION):
        raise SinkError(
            f"staged messages in {path!r} are of version {block[0]}, which is not known here",
            hint="Go on with the version of millstream that wrote them, or with a later one.",
        )
    return decoder.decode(memoryview(block)[1:])
