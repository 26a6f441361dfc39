"""Collections of MongoDB: Flink's `MongoSource` and `MongoSink` in Python's manner (not in PyFlink)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.mongodb.lookup import MongoLookup, MongoLookupBuilder
from millstream.connectors.mongodb.sink import MongoSink, MongoSinkBuilder
from millstream.connectors.mongodb.source import MongoSource, MongoSourceBuilder
from millstream.connectors.patience import Patience

__all__ = [
    "DeliveryGuarantee",
    "MongoLookup",
    "MongoLookupBuilder",
    "MongoSink",
    "MongoSinkBuilder",
    "MongoSource",
    "MongoSourceBuilder",
    "Patience",
]
