"""The recipe for Kubernetes on a real control plane: accepted strictly, run, drained, failed."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import signal
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from manifests import ROOT, read_manifests

from servers.kubernetes import ApiError, ApiServer, ControllerManager, EtcdServer
from servers.pods import ENVIRONMENT, PodRunner
from servers.process import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

RECORDS, KEYS = 4_000, 20
TOKEN = "0123456789abcdef" * 2
PROGRAM = """
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count}"

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, RECORDS, RateLimiterStrategy.per_second(200), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: value % KEYS).process(Count(), Types.STRING()).uid("count")
sink = FileSink.for_row_format("/var/lib/millstream/out", Encoder.simple_string_encoder())
counted.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("files")
env.execute("orders")
""".replace("RECORDS", str(RECORDS)).replace("KEYS", str(KEYS))
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "orders-rest"},
    "data": {"token": base64.b64encode(TOKEN.encode()).decode()},
}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    directories = [tmp_path_factory.mktemp(name) for name in ("etcd", "api", "controllers")]
    etcd = EtcdServer(directories[0])
    etcd.start()
    api = ApiServer(directories[1], etcd.address)
    api.account = api.add_account("default", "millstream")
    api.start()
    controllers = ControllerManager(directories[2], api)
    controllers.start()
    yield api
    for server in (controllers, api, etcd):
        server.close()


@pytest.mark.parametrize(
    "document", read_manifests(), ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)
def test_manifests_are_accepted_strictly(api, document):
    api.create(document, "default", dry_run=True)


def test_a_manifest_with_a_mistake_is_not(api):
    (job,) = (copy.deepcopy(each) for each in read_manifests() if each["kind"] == "Job")
    job["spec"]["template"]["spec"]["restartPolicie"] = "Never"
    with pytest.raises(ApiError, match="unknown field"):
        api.create(job, "default", dry_run=True)


class Deployment:
    """The recipe, applied with a program of the test and with addresses of this machine."""

    def __init__(self, api: ApiServer, directory: Path, program: str) -> None:
        self.api = api
        self.rest = free_port()
        (directory / "token").write_text(api.account)
        self._settings = {
            'target = "k8s://https://kubernetes.default.svc"': f'target = "k8s://{api.url}"',
            "port = 8081": f"port = {self.rest}",
            'bind-address = "0.0.0.0"': 'bind-address = "127.0.0.1"',
            'prom.port = "9249"': f'prom.port = "{free_port()}"',
            'prom.host = "0.0.0.0"': 'prom.host = "127.0.0.1"',
            'checkpointing.interval = "10 s"': 'checkpointing.interval = "500 ms"',
            'driver.host = "orders-driver"': 'driver.host = "127.0.0.1"',
            'driver.bindAddress = "0.0.0.0"': 'driver.bindAddress = "127.0.0.1"',
            'driver.port = "7078"': f'driver.port = "{free_port()}"',
            'driver.blockManager.port = "7079"': f'driver.blockManager.port = "{free_port()}"',
            'executor.memory = "1g"': 'executor.memory = "512m"',
            # A container finds both at the place where Kubernetes mounts them.
            'kubernetes.namespace = "default"': 'kubernetes.namespace = "default"\n'
            f'kubernetes.authenticate.caCertFile = "{api.certificate}"\n'
            f'kubernetes.authenticate.oauthTokenFile = "{directory / "token"}"',
        }
        environment = ENVIRONMENT | {
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        entrypoint = [sys.executable, str(ROOT / "deploy" / "docker" / "entrypoint.py")]
        self.pods = PodRunner(api, "default", directory / "pods", entrypoint, environment)
        for document in [SECRET, *read_manifests()]:
            if document["kind"] == "ConfigMap":
                document = self._adapt(document, program)
            api.create(document, "default")

    def _adapt(self, document, program):
        document = copy.deepcopy(document)
        text = document["data"]["millstream.toml"]
        for before, now in self._settings.items():
            assert text.count(before) == 1, before
            text = text.replace(before, now)
        tomllib.loads(text)
        document["data"] |= {"millstream.toml": text, "job.py": program}
        return document

    def remove(self) -> None:
        base = "/api/v1/namespaces/default"
        self.api.ask(
            "DELETE", "/apis/batch/v1/namespaces/default/jobs/orders", {"propagationPolicy": "Background"}
        )
        for path in (
            "configmaps/orders-config",
            "secrets/orders-rest",
            "services/orders",
            "services/orders-driver",
        ):
            self.api.ask("DELETE", f"{base}/{path}")
        claim = f"{base}/persistentvolumeclaims/orders-state"  # no controller runs here that would let it go
        self.api.ask("PATCH", claim, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
        for path in ("persistentvolumeclaims/orders-state", "serviceaccounts/millstream"):
            self.api.ask("DELETE", f"{base}/{path}")
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        for path in (f"{rbac}/roles/millstream-driver", f"{rbac}/rolebindings/millstream-driver",
                     "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/orders"):  # fmt: skip
            self.api.ask("DELETE", path)
        self.pods.close()
        self.wait_until(self._is_gone)

    def _is_gone(self) -> bool:
        try:
            self.api.ask("GET", "/apis/batch/v1/namespaces/default/jobs/orders")
        except ApiError as error:
            return error.status == 404
        return False

    def driver(self) -> dict | None:
        """Return the driver's pod that runs."""
        selector = "labelSelector=app.kubernetes.io/component%3Ddriver"
        found = self.api.ask("GET", f"/api/v1/namespaces/default/pods?{selector}")["items"]
        running = [each for each in found if each["status"].get("phase") == "Running"]
        return running[0] if running else None

    def executors(self) -> list[dict]:
        selector = "labelSelector=spark-role%3Dexecutor"
        return list(self.api.ask("GET", f"/api/v1/namespaces/default/pods?{selector}")["items"])

    def job(self) -> dict[str, str]:
        """Return how the Job stands: conditions that are true, with their reasons."""
        found = self.api.ask("GET", "/apis/batch/v1/namespaces/default/jobs/orders")
        conditions = found["status"].get("conditions", [])
        return {each["type"]: each.get("reason", "") for each in conditions if each["status"] == "True"}

    def ask(self, path: str):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.rest}{path}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError):
            return None

    def wait_until(self, condition, seconds: float = 900):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, self.pods.logs()
            time.sleep(0.2)
        return found

    def checkpoints(self) -> int:
        jobs = (self.ask("/jobs") or {"jobs": []})["jobs"]
        found = self.ask(f"/jobs/{jobs[0]['id']}/checkpoints") if jobs else None
        return found["counts"]["completed"] if found else 0

    def lines(self) -> list[str]:
        output = self.pods.claim("orders-state") / "out"
        visible = [path for path in output.rglob("*") if path.is_file() and path.name[0] not in "._"]
        return [line for path in visible for line in path.read_text().splitlines()]


@pytest.fixture
def deploy(api, tmp_path):
    deployed = []

    def begin(program: str) -> Deployment:
        deployed.append(Deployment(api, tmp_path, program))
        return deployed[-1]

    yield begin
    for each in deployed:
        each.remove()


def test_a_job_runs_in_pods_is_drained_and_goes_on_in_another_pod(deploy):
    deployment = deploy(PROGRAM)
    deployment.wait_until(lambda: deployment.checkpoints() >= 2)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{deployment.rest}/jobs", timeout=10)
    executors = deployment.executors()
    assert len(executors) == 2
    first = deployment.driver()["metadata"]["name"]
    for pod in executors:
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        # Its path is not the template's: the runner of pods has put one of this machine into the mounted file.
        assert "state" in {each["name"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
        assert [each["name"] for each in pod["metadata"]["ownerReferences"]] == [first]
    deployment.pods.signal(first, signal.SIGTERM)  # what a node that is drained does
    second = deployment.wait_until(
        lambda: (pod := deployment.driver()) and pod["metadata"]["name"] != first and pod
    )
    assert "suspended" in deployment.pods.log(first)
    deployment.wait_until(lambda: "Complete" in deployment.job() or "Failed" in deployment.job())
    assert "Complete" in deployment.job(), deployment.pods.logs()
    wanted = sorted(f"{key}:{n}" for key in range(KEYS) for n in range(1, RECORDS // KEYS + 1))
    assert sorted(deployment.lines()) == wanted, deployment.pods.log(second["metadata"]["name"])


def test_a_job_that_fails_for_good_is_not_run_again(deploy):
    deployment = deploy("raise ValueError('wrong from the start')\n")
    deployment.wait_until(lambda: "Failed" in deployment.job())
    assert deployment.job()["Failed"] == "PodFailurePolicy"
    (log,) = re.findall("ValueError: wrong from the start", deployment.pods.logs())
    assert log
    assert os.path.isdir(deployment.pods.claim("orders-state"))
