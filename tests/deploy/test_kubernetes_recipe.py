"""The recipe for Kubernetes, as far as it can be checked without a server: parts fit one another, the program runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from manifests import DIRECTORY, ROOT, read_manifests

MANIFESTS = {(each["kind"], each["metadata"]["name"]): each for each in read_manifests()}
CONFIG = MANIFESTS["ConfigMap", "orders-config"]["data"]
SETTINGS = tomllib.loads(CONFIG["millstream.toml"])
POD = MANIFESTS["Job", "orders"]["spec"]["template"]
DRIVER = POD["spec"]["containers"][0]
EXECUTOR = yaml.safe_load(CONFIG["executor.yaml"])["spec"]


def test_every_file_of_the_directory_is_applied():
    applied = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in DIRECTORY.glob("*.yaml")} == {*applied, "kustomization.yaml"}


def test_options_are_millstreams_own_and_fit(tmp_path):
    file = tmp_path / "millstream.toml"
    file.write_text(CONFIG["millstream.toml"])
    command = [sys.executable, "-m", "millstream.cli", "config", "--json", "--config", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    values = {each["key"]: each["value"] for each in json.loads(ended.stdout)}
    assert values["execution.target"] == "k8s://https://kubernetes.default.svc"
    assert values["high-availability.storageDir"] == "/var/lib/millstream"


def test_ports_of_services_options_and_container_are_the_same():
    container = {each["name"]: each["containerPort"] for each in DRIVER["ports"]}
    assert SETTINGS["rest"]["port"] == container["rest"]
    assert SETTINGS["metrics"]["reporter"]["prom"]["port"] == str(container["metrics"])
    assert SETTINGS["spark"]["driver"]["port"] == str(container["driver"])
    assert SETTINGS["spark"]["driver"]["blockManager"]["port"] == str(container["blocks"])
    for name in ("orders", "orders-driver"):
        service = MANIFESTS["Service", name]["spec"]
        assert service["selector"].items() <= POD["metadata"]["labels"].items()
        for port in service["ports"]:
            assert container[port["name"]] == port["port"]
    assert SETTINGS["spark"]["driver"]["host"] == "orders-driver"
    assert MANIFESTS["Service", "orders-driver"]["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("spec", [POD["spec"], EXECUTOR], ids=["driver", "executor"])
def test_pods_are_not_root_and_mount_what_there_is(spec):
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 185
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in spec["volumes"]}
    (claim,) = (
        each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if each["name"] == "state"
    )
    assert ("PersistentVolumeClaim", claim) in MANIFESTS
    (path,) = (each["mountPath"] for each in container["volumeMounts"] if each["name"] == "state")
    assert path == SETTINGS["high-availability"]["storageDir"]


def test_one_image_is_used_and_its_user_is_the_pods():
    assert SETTINGS["spark"]["kubernetes"]["container"]["image"] == DRIVER["image"]
    dockerfile = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    assert "--uid 185" in dockerfile
    assert "USER 185" in dockerfile
    for source in ("pyproject.toml", "deploy/docker/entrypoint.py", "src", "examples", "LICENSE"):
        assert source in dockerfile
        assert (ROOT / source).exists()


def test_the_program_of_the_recipe_runs(tmp_path):
    assert CONFIG["job.py"].count("2**62") == 1
    (tmp_path / "job.py").write_text(
        CONFIG["job.py"].replace("2**62", "4_000").replace("(100)", "(1_000_000)")
    )
    command = [sys.executable, "-m", "millstream.cli", "run", "--target", "local", "job.py"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [
        f"('{name}', 1000)" for name in ("east", "north", "south", "west")
    ]


@pytest.fixture(scope="module")
def entrypoint():
    spec = importlib.util.spec_from_file_location("entrypoint", ROOT / "deploy" / "docker" / "entrypoint.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_image_runs_executors_as_spark_asks_and_millstream_else(entrypoint):
    environment = {
        "JAVA_HOME": "/java",
        "SPARK_HOME": "/spark",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.1.1.1",
        "SPARK_EXECUTOR_POD_NAME": "exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_1": "-Db=2",
        "SPARK_JAVA_OPT_0": "-Da=1",
    }
    command = entrypoint.compose(["executor"], environment)
    assert command[:7] == ["/java/bin/java", "-Da=1", "-Db=2", "-Xms512m", "-Xmx512m", "-cp", "/spark/jars/*"]
    assert command[-4:] == ["--resourceProfileId", "0", "--podName", "exec-3"]
    assert entrypoint.compose(["run", "job.py"], {})[1:] == ["-m", "millstream.cli", "run", "job.py"]
    del environment["SPARK_DRIVER_URL"]
    with pytest.raises(KeyError):
        entrypoint.compose(["executor"], environment)


def test_a_container_without_what_spark_sets_says_so():
    path = ROOT / "deploy" / "docker" / "entrypoint.py"
    bare = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    ended = subprocess.run(
        [sys.executable, str(path), "executor"], capture_output=True, text=True, env=bare, timeout=60
    )
    assert ended.returncode == 1
    assert "variable 'SPARK_EXECUTOR_MEMORY' is not set" in ended.stderr
