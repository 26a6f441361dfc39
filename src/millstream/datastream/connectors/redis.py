"""Redis: streams as sources; streams, hashes, strings, sets and lists as sinks (millstream's own; not in PyFlink)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.messages import DeadLetter, MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.connectors.redis.commands import RedisCommand
from millstream.connectors.redis.lookup import RedisLookup, RedisLookupBuilder
from millstream.connectors.redis.offsets import RedisOffsetsInitializer
from millstream.connectors.redis.sink import RedisSink, RedisSinkBuilder
from millstream.connectors.redis.stream_source import RedisStreamSource, RedisStreamSourceBuilder

__all__ = [
    "DeadLetter",
    "DeliveryGuarantee",
    "MalformedPolicy",
    "Patience",
    "RedisCommand",
    "RedisLookup",
    "RedisLookupBuilder",
    "RedisOffsetsInitializer",
    "RedisSink",
    "RedisSinkBuilder",
    "RedisStreamSource",
    "RedisStreamSourceBuilder",
]
