"""A metadata service of Kafka streams that tests tell what to say."""

from __future__ import annotations

import json

from millstream.datastream.connectors.dynamic_kafka import ClusterMetadata, KafkaMetadataService, KafkaStream


class Streams(KafkaMetadataService):
    """Streams as a file has them, which tests change while sources run."""

    def __init__(self, path, servers):
        super().__init__()
        self.path = path
        self.servers = servers

    def put(self, **streams):
        """Say which streams there are: `put(clicks={"west": ["clicks"], "east": ["more"]})`."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(streams))
        new.replace(self.path)

    def get_all_streams(self):
        return {
            KafkaStream(
                stream,
                {
                    cluster: ClusterMetadata(topics, {"bootstrap.servers": self.servers[cluster]})
                    for cluster, topics in clusters.items()
                },
            )
            for stream, clusters in json.loads(self.path.read_text()).items()
        }
