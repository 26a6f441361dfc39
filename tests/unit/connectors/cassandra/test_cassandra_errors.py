"""What Cassandra's errors are taken for."""

from __future__ import annotations

import pytest
from cassandra import AuthenticationFailed
from cassandra.cluster import NoHostAvailable

from millstream.base.errors import SinkError
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.patience import Patience
from millstream.datastream.connectors.cassandra import ClusterBuilder

TEXT = "Unable to connect to any servers"


@pytest.fixture
def client() -> CassandraClient:
    return CassandraClient(ClusterBuilder("host"), Patience(total_s=1), SinkError)


@pytest.mark.parametrize(
    ("errors", "passes"),
    [
        ({"host": ConnectionRefusedError()}, True),
        ({"host": AuthenticationFailed("no")}, False),
        (["host"], True),  # none was tried
    ],
)
def test_hosts_that_are_away_may_come_back(client: CassandraClient, errors: object, passes: bool) -> None:
    error = NoHostAvailable(TEXT, errors)
    assert client.is_passing(error) is passes
    explained = client.explain("connecting", error)
    assert isinstance(explained, SinkError)
    assert explained.hint == (
        "Check that the cluster runs and can be reached from the driver and from where slots run."
        if passes
        else "Check user and password: ClusterBuilder(host, username=..., password=...)."
    )
