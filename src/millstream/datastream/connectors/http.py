"""HTTP: resources as sources, services as sinks and look-ups (millstream's own; not in PyFlink)."""

from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.http.lookup import HttpLookup
from millstream.connectors.http.paging import HttpPaging, HttpRequest, NextPage
from millstream.connectors.http.requests import HttpBody
from millstream.connectors.http.responses import HttpResponse
from millstream.connectors.http.sink import HttpSink, HttpSinkBuilder, WriteAheadHttpSink
from millstream.connectors.http.source import HttpSource, HttpSourceBuilder
from millstream.connectors.patience import Patience

__all__ = [
    "DeliveryGuarantee",
    "HttpBody",
    "HttpLookup",
    "HttpPaging",
    "HttpRequest",
    "HttpResponse",
    "HttpSink",
    "HttpSinkBuilder",
    "HttpSource",
    "HttpSourceBuilder",
    "NextPage",
    "Patience",
    "WriteAheadHttpSink",
]
