"""The Compose file and what it mounts: checked by Compose's own loader, run on the real servers one by one."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from servers.golang import build
from servers.kafka import KafkaServer
from servers.postgres import PostgresServer
from servers.process import free_port
from servers.prometheus import PrometheusServer

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "docker-compose.yaml"
DASHBOARD = DEPLOY / "compose" / "grafana" / "dashboards" / "millstream.json"
ORDERS = 6_000


STACK = yaml.safe_load(COMPOSE.read_text())


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expressions() -> dict[str, str]:
    """Return the queries of the dashboard by panel, with their variables as if all were chosen."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$job", ".*").replace("$source", ".*")
        for panel in panels
        for target in panel["targets"]
    }


def test_what_services_mount_and_need_is_there():
    services = STACK["services"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in STACK["volumes"], name
        assert set(service.get("depends_on", {})) <= set(services)
    for program in ("make_orders", "count_orders"):
        (command,) = (
            each["command"]
            for each in services.values()
            if f"/programs/{program}.py" in each.get("command", [])
        )
        assert command[0] == "run-application"
        assert (DEPLOY / "compose" / f"{program}.py").exists()


def test_ports_are_open_to_this_machine_only():
    ports = [port for service in STACK["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_prometheus_scrapes_where_the_job_reports_and_grafana_asks_prometheus():
    config = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    assert config["scrape_configs"][0]["static_configs"][0]["targets"] == ["count-orders:9249"]
    assert "-Dmetrics.reporter.prom.port=9249" in STACK["services"]["count-orders"]["command"]
    provisioning = DEPLOY / "compose" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "millstream.yaml").read_text())["providers"]
    mounted = [each.split(":")[1] for each in STACK["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        assert panel["datasource"]["uid"] == source["uid"]
        assert all(target["datasource"]["uid"] == source["uid"] for target in panel["targets"])


def test_panels_have_numbers_of_their_own_and_do_not_overlap():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) == 23


LOADER = """package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv)
	if err == nil {
		project, loading := options.LoadProject(context.Background())
		err = loading
		if err == nil {
			document, writing := project.MarshalJSON()
			err = writing
			fmt.Println(string(document))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_composes_own_loader_takes_the_file_and_refuses_mistakes(tmp_path):
    loader = build("compose-loader", "require github.com/compose-spec/compose-go/v2 v2.4.9\n", LOADER)
    loaded = subprocess.run([loader, COMPOSE], capture_output=True, text=True, timeout=60)
    assert loaded.returncode == 0, loaded.stderr
    services = json.loads(loaded.stdout)["services"]
    assert set(services) == set(STACK["services"])
    assert services["count-orders"]["depends_on"]["topics"]["condition"] == "service_completed_successfully"
    assert services["count-orders"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["make-orders"]["environment"]["KAFKA"] == "redpanda:9092"
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("restart: on-failure", "restarts: on-failure"))
    refused = subprocess.run([loader, wrong], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "restarts" in refused.stderr


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def database():
    server = PostgresServer()
    server.start()
    with server.new_database() as made:
        made.execute((DEPLOY / "compose" / "tables.sql").read_text())
        yield made
    server.close()


def run(program: str, variables: dict[str, str], directory: Path, *options: str, wait: bool = True):
    command = [sys.executable, "-m", "millstream.cli", "run-application", "-p", "2", *options]
    command += [f"-Dhigh-availability.storageDir={directory}", "-Dexecution.checkpointing.interval=500 ms"]
    command += ["-Drest.port=0", str(DEPLOY / "compose" / f"{program}.py")]
    environment = os.environ | variables
    if wait:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
        assert ended.returncode == 0, ended.stderr
        return None
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_pipeline_counts_every_order_once_and_each_panel_has_an_answer(tmp_path, kafka, database):
    kafka.create_topic("orders", partitions=4)
    variables = {
        "KAFKA": kafka.bootstrap,
        "DATABASE": f"jdbc:postgresql://{database.address}",
        "DATABASE_USER": database.user,
        "DATABASE_PASSWORD": database.password,
    }
    makes = {**variables, "ORDERS": str(ORDERS), "RATE": "2000"}
    run("make_orders", makes, tmp_path / "made", "--target", "local")
    make_order = load(DEPLOY / "compose" / "make_orders.py").make_order
    wanted = defaultdict(lambda: [0, 0])
    for number in range(ORDERS):
        order = json.loads(make_order(number))
        total = wanted[order["region"], order["at_ms"] // 10_000 * 10_000 + 10_000]
        total[0] += 1
        total[1] += order["cents"]
    run("count_orders", {**variables, "BOUNDED": "1"}, tmp_path / "counted", "--target", "local")
    rows = database.execute("SELECT region, window_end_ms, orders, cents FROM totals")
    assert {(region, end): [orders, cents] for region, end, orders, cents in rows} == dict(wanted)

    port = free_port()
    reporter = ("-Dmetrics.reporters=prom", f"-Dmetrics.reporter.prom.port={port}", "--target", "local")
    counting = run("count_orders", variables, tmp_path / "again", *reporter, wait=False)
    making = run(
        "make_orders", {**variables, "RATE": "200"}, tmp_path / "more", "--target", "local", wait=False
    )
    directory = tmp_path / "prometheus"
    directory.mkdir()
    server = PrometheusServer(directory, f"127.0.0.1:{port}")
    try:
        server.start()
        missing = dict(expressions())
        deadline = time.monotonic() + 240
        while missing and time.monotonic() < deadline:
            missing = {title: query for title, query in missing.items() if not server.query(query)}
            time.sleep(1)
        assert not missing
        jobs = json.loads(DASHBOARD.read_text())["templating"]["list"]
        for variable in jobs:
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            assert server.query(f"count by ({label}) ({metric.replace('$job', '.*')})")
    finally:
        server.close()
        for process in (counting, making):
            process.terminate()
            process.wait(60)
