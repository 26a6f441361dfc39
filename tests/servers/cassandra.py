"""Apache Cassandra from Maven: one node, which asks for a password (user and password `cassandra`)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

from servers.maven import jars
from servers.ports import free_port
from servers.process import Server, answers

VERSION = "5.0.9"

_EXPORTED = """
java.base/java.lang.ref java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch
java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server
java.sql/java.sql
"""
_OPENED = """
java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect java.base/java.net
java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic
java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.ref
java.base/jdk.internal.reflect java.base/jdk.internal.util.jar java.base/sun.nio.ch
jdk.management/com.sun.management.internal java.rmi/sun.rmi.transport.tcp
"""
_LOGBACK = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="out"/></root></configuration>
"""


class CassandraServer(Server):
    """A node whose data are in a directory of its own below /tmp. What it has acknowledged outlives a kill."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="ms-cassandra-", dir="/tmp")))
        self._storage_port = free_port()
        self._cluster: Any = None

    def command(self) -> list[str]:
        base = self.directory
        (base / "cassandra.yaml").write_text(self._settings())
        (base / "logback.xml").write_text(_LOGBACK)
        options = ["-Xmx512m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += ["-XX:ActiveProcessorCount=1", "-Djdk.attach.allowAttachSelf=true"]
        options += [f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTED.split()]
        options += [f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED.split()]
        options += [
            f"-Dcassandra.config=file://{base}/cassandra.yaml",
            f"-Dcassandra.storagedir={base}",
            f"-Dcassandra.logdir={base}/logs",
            f"-Dlogback.configurationFile=file://{base}/logback.xml",
            "-Dcassandra-foreground=yes",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.ring_delay_ms=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
            "-Dcassandra.initial_token=0",
        ]
        path = jars((f"org.apache.cassandra:cassandra-all:{VERSION}",))
        return ["java", *options, "-cp", path, "org.apache.cassandra.service.CassandraDaemon"]

    def _settings(self) -> str:
        base = self.directory
        # The log of commits is synced before an answer: tests kill the server.
        return f"""cluster_name: tests
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
- class_name: org.apache.cassandra.locator.SimpleSeedProvider
  parameters: [{{seeds: "127.0.0.1:{self._storage_port}"}}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: {self._storage_port}
native_transport_port: {self.port}
start_native_transport: true
auto_bootstrap: false
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
commitlog_sync: batch
commitlog_segment_size: 8MiB
commitlog_disk_access_mode: legacy
memtable_heap_space: 64MiB
concurrent_reads: 4
concurrent_writes: 8
data_file_directories: [{base}/data]
commitlog_directory: {base}/commitlog
saved_caches_directory: {base}/saved
hints_directory: {base}/hints
cdc_raw_directory: {base}/cdc
"""

    def cluster(self, user: str = "cassandra", password: str = "cassandra") -> Any:
        """Return a client's cluster, which connects when it is asked to."""
        login = PlainTextAuthProvider(user, password)
        return Cluster(["127.0.0.1"], port=self.port, protocol_version=5, auth_provider=login)

    def execute(self, statement: str, *parameters: Any) -> list[Any]:
        """Execute a statement over a connection that stays, or a new one if its server has gone meanwhile."""
        if self._cluster is not None:
            try:
                return list(self._session.execute(statement, parameters or None))
            except NoHostAvailable:  # it would connect again by itself, but later and later
                self._cluster.shutdown()
                self._cluster = None
        self._cluster = self.cluster()
        self._session = self._cluster.connect()
        return list(self._session.execute(statement, parameters or None))

    def is_ready(self) -> bool:
        def ask() -> None:
            cluster = self.cluster()
            try:
                cluster.connect()
            finally:
                cluster.shutdown()

        return answers(ask)

    def stop(self) -> None:
        """Kill it."""
        if self._cluster is not None:
            self._cluster.shutdown()
            self._cluster = None
        super().stop()

    def close(self) -> None:
        """End it, with its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
