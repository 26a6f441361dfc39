"""Elasticsearch, from Maven: the real server with the modules that are published there.

Not there: the page at `/` (405), scripts, users and rights.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from servers.maven import JVM_OPTIONS, jars
from servers.search import SearchServer

ELASTICSEARCH = ("org.elasticsearch:elasticsearch:8.19.0", "org.apache.logging.log4j:log4j-core:2.19.0")
_TRANSPORT = ("org.elasticsearch.plugin:transport-netty4:8.19.0",)
_DESCRIPTOR = "META-INF/es-plugins/transport-netty4/plugin-descriptor.properties"

_MAIN = """
import java.nio.file.Path;
import java.util.Map;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

public class Main {
    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]);
        Settings settings = Settings.builder()
            .put("path.home", home.toString())
            .put("cluster.name", "test")
            .put("node.name", "node")
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("network.host", "127.0.0.1")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("cluster.info.update.interval", "1h") // it would undo blocks that tests set
            .put("node.processors", 1)
            .build();
        LogConfigurator.configureESLogging();
        LogConfigurator.configureWithoutConfig(settings);
        PluginsLoader plugins = PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(home.resolve("modules")),
            PluginsLoader.loadPluginsBundles(home.resolve("plugins")), Map.of(), false);
        new Node(new Environment(settings, home.resolve("config")), plugins).start();
        Thread.currentThread().join();
    }
}
"""


class ElasticsearchServer(SearchServer):
    """Elasticsearch 8.19."""

    def command(self) -> list[str]:
        home = self.directory / "home"
        if not home.exists():
            self._lay_out(home)
        main = self.directory / "Main.java"
        main.write_text(_MAIN)
        options = ["-Djava.security.manager=allow", "-Des.distribution.type=zip"]
        java = ["java", *JVM_OPTIONS, *options, "-cp", jars(ELASTICSEARCH), str(main)]
        return [*java, str(home), str(self.port), str(self.transport_port)]

    @staticmethod
    def _lay_out(home: Path) -> None:
        for name in ("config", "plugins", "modules/transport-netty4"):
            (home / name).mkdir(parents=True)
        module = home / "modules" / "transport-netty4"
        server = {path.name for path in Path(jars(ELASTICSEARCH)).parent.iterdir()}
        for path in Path(jars(_TRANSPORT)).parent.glob("*.jar"):
            if path.name in server:
                continue
            shutil.copy(path, module)
            if path.name.startswith("transport-netty4-"):
                with zipfile.ZipFile(path) as archive:
                    lines = archive.read(_DESCRIPTOR).decode().splitlines(keepends=True)
                kept = [line for line in lines if not line.startswith("modulename")]
                (module / "plugin-descriptor.properties").write_text("".join(kept))
