"""YARN: Hadoop's mini cluster, with a resource manager, a node manager, a name node and a data node in one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from servers.maven import jars
from servers.process import Server, free_port

HADOOP = (
    "org.apache.hadoop:hadoop-minicluster:3.5.0",
    "org.mockito:mockito-core:4.11.0",  # Hadoop's test classes refer to these
    "junit:junit:4.13.2",
    "org.junit.jupiter:junit-jupiter-api:5.8.2",
)
_MAIN = Path(__file__).parent / "HadoopMain.java"


class YarnServer(Server):
    """A cluster with one node of 6 GB and 4 cores; what is in it ends with it.

    Attributes:
        start_s: How long it may take to start.
    """

    start_s = 180

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._http_port = free_port()
        self._path = jars(HADOOP)  # its download has a time limit of its own

    def command(self) -> list[str]:
        java = ["java", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._path]
        return [*java, str(_MAIN), str(self.directory), str(self.port), str(self._http_port)]

    def is_ready(self) -> bool:
        return (self.directory / "ready").is_file()

    @property
    def uri(self) -> str:
        """Of its HDFS."""
        return f"hdfs://127.0.0.1:{self.port}"

    @property
    def conf(self) -> Path:
        """Directory of the configuration for clients."""
        return self.directory / "conf"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of clients."""
        home = os.environ.get("JAVA_HOME") or str(
            Path(os.path.realpath(shutil.which("java") or "")).parents[1]
        )
        return {"HADOOP_CONF_DIR": str(self.conf), "JAVA_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}

    def applications(self) -> list[dict[str, Any]]:
        """Return what the resource manager knows of applications."""
        tree = ElementTree.parse(self.conf / "yarn-site.xml")
        values = {each.findtext("name"): each.findtext("value") for each in tree.iter("property")}
        address = values["yarn.resourcemanager.webapp.address"]
        with urllib.request.urlopen(f"http://{address}/ws/v1/cluster/apps", timeout=30) as answer:
            found = json.load(answer)["apps"]
        return list(found["app"]) if found else []

    def logs(self) -> str:
        """Return what containers wrote."""
        files = sorted(path for name in ("stdout", "stderr") for path in self.directory.rglob(name))
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-4000:]}" for path in files)

    def application_masters(self) -> list[int]:
        """Return the processes of application masters."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue  # it has just ended
                ours = str(self.directory).encode() in command
                if ours and b"java\0" in command and b"spark.deploy.yarn.ApplicationMaster" in command:
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """End it, and the containers that its end leaves."""
        super().close()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.directory).encode() in command:
                    subprocess.run(["kill", "-9", entry.name], check=False, capture_output=True)
