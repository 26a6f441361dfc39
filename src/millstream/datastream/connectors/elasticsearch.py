"""Elasticsearch under PyFlink's names: declared, not yet built (`pyflink.datastream.connectors.elasticsearch`)."""

from __future__ import annotations

from enum import Enum

from millstream.base.not_yet import NotYet
from millstream.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "DeliveryGuarantee",
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "FlushBackoffType",
]


class _Elasticsearch(NotYet):
    _reason = "The Elasticsearch connector comes with a later release."
    _hint = "Until then use a SinkFunction that opens the connection in open()."


class FlushBackoffType(Enum):
    """How long to wait before the next try."""

    CONSTANT = 0
    EXPONENTIAL = 1
    NONE = 2


class ElasticsearchSink(_Elasticsearch):
    """Writes documents."""


class ElasticsearchSinkBuilderBase(_Elasticsearch):
    """Makes an ElasticsearchSink."""


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Makes a sink for version 6."""


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Makes a sink for version 7."""


class ElasticsearchEmitter(_Elasticsearch):
    """Records into index requests."""
