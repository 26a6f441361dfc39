"""Prometheus: a server that scrapes one address each second."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from servers.packages import install
from servers.process import Server, answers


class PrometheusServer(Server):
    """A server with its data in a directory of its own.

    Args:
        directory: Where.
        target: Host and port that it scrapes.
    """

    def __init__(self, directory: Path, target: str) -> None:
        super().__init__(directory)
        scrape = {"job_name": "millstream", "static_configs": [{"targets": [target]}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
        (directory / "prometheus.yml").write_text(json.dumps(config))  # which is YAML

    def command(self) -> list[str]:
        return [
            program("prometheus"),
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def is_ready(self) -> bool:
        return answers(lambda: self._get("/-/ready"))

    def query(self, expression: str) -> list[float]:
        """Return the values of an instant query."""
        answer = json.loads(self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        return [float(each["value"][1]) for each in answer["data"]["result"]]

    def targets(self) -> list[dict[str, Any]]:
        """Return what is known of what is scraped."""
        found: list[dict[str, Any]] = json.loads(self._get("/api/v1/targets"))["data"]["activeTargets"]
        return found

    def log(self) -> str:
        """Return what it has written."""
        return self._log.read_text()

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            content: bytes = answer.read()
        return content


def program(name: str) -> str:
    """Return where `prometheus` or `promtool` is."""
    if shutil.which(name) is None:
        install("prometheus")
    found = shutil.which(name)
    assert found is not None
    return found


def lint(exposition: str) -> list[str]:
    """Return what `promtool` has to say of metrics."""
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=exposition,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return (done.stdout + done.stderr).splitlines()
