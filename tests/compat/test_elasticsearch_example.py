"""The example of the apache-flink wheel that talks to Elasticsearch, on real servers; only the address is another one.

Its functions for version 6 are left out: no such server is at hand, and newer ones refuse types of documents.
"""

from __future__ import annotations

import pytest
from flink_wheel import run

from servers.elasticsearch import ElasticsearchServer
from servers.opensearch import OpenSearchServer
from servers.search import SearchIndex


@pytest.mark.long
@pytest.mark.parametrize("kind", [ElasticsearchServer, OpenSearchServer])
def test_documents_of_version_7(examples, tmp_path, kind):
    server = kind(tmp_path)
    server.start()
    try:
        source = (examples / "connectors/elasticsearch.py").read_text()
        begin, end = (
            source.index("    write_to_es6(env)"),
            source.index('    print("start writing data to elasticsearch7")'),
        )
        program = tmp_path / "example.py"
        program.write_text((source[:begin] + source[end:]).replace("localhost:9200", server.host))
        run(program, cwd=tmp_path)

        ada, luna = {"name": "ada", "id": "1"}, {"name": "luna", "id": "2"}
        found = {name: SearchIndex(server, name).documents() for name in ("foo", "ada", "luna")}
        assert found == {"foo": [("1", ada), ("2", luna)], "ada": [("1", ada)], "luna": [("2", luna)]}
    finally:
        server.stop()
