"""Tables of Amazon DynamoDB and their streams, under the names of Java Flink's connector, which PyFlink has not.

`DynamoDbLookup`, `ChangelogRows` and `Patience` are millstream's own.
"""

from millstream.connectors.dynamodb.lookup import DynamoDbLookup, DynamoDbLookupBuilder
from millstream.connectors.dynamodb.records import (
    ChangelogRows,
    DynamoDbStreamsDeserializationSchema,
    DynamoDbStreamsRecord,
)
from millstream.connectors.dynamodb.requests import DynamoDbWriteRequest, DynamoDbWriteRequestType
from millstream.connectors.dynamodb.sink import DynamoDbSink, DynamoDbSinkBuilder
from millstream.connectors.dynamodb.streams_source import DynamoDbStreamsSource, DynamoDbStreamsSourceBuilder
from millstream.connectors.messages import DeadLetter, MalformedPolicy
from millstream.connectors.patience import Patience

__all__ = [
    "ChangelogRows",
    "DeadLetter",
    "DynamoDbLookup",
    "DynamoDbLookupBuilder",
    "DynamoDbSink",
    "DynamoDbSinkBuilder",
    "DynamoDbStreamsDeserializationSchema",
    "DynamoDbStreamsRecord",
    "DynamoDbStreamsSource",
    "DynamoDbStreamsSourceBuilder",
    "DynamoDbWriteRequest",
    "DynamoDbWriteRequestType",
    "MalformedPolicy",
    "Patience",
]
