"""Elasticsearch and OpenSearch (PyFlink's `pyflink.datastream.connectors.elasticsearch`, and more)."""

from millstream.connectors.elasticsearch.documents import ElasticsearchAction, ElasticsearchEmitter
from millstream.connectors.elasticsearch.lookup import ElasticsearchLookup, ElasticsearchLookupBuilder
from millstream.connectors.elasticsearch.rejections import FlushBackoffType, RejectedPolicy
from millstream.connectors.elasticsearch.sink import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    Elasticsearch8SinkBuilder,
    ElasticsearchSink,
    ElasticsearchSinkBuilderBase,
    OpenSearchSinkBuilder,
)
from millstream.connectors.elasticsearch.source import (
    ElasticsearchDocument,
    ElasticsearchSource,
    ElasticsearchSourceBuilder,
)
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.patience import Patience

__all__ = [
    "DeliveryGuarantee",
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "Elasticsearch8SinkBuilder",
    "ElasticsearchAction",
    "ElasticsearchDocument",
    "ElasticsearchEmitter",
    "ElasticsearchLookup",
    "ElasticsearchLookupBuilder",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "ElasticsearchSource",
    "ElasticsearchSourceBuilder",
    "FlushBackoffType",
    "OpenSearchSinkBuilder",
    "Patience",
    "RejectedPolicy",
]
