"""Runs pods of a real API server as processes of this machine, as a kubelet would run them in containers.

What a container's file system has at a mount path, is in a directory of its own here: paths are replaced in arguments,
variables and mounted files. Not tried so: images, scheduling, networking, users and limits.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from servers.kubernetes import ApiError, ApiServer

_ADDRESS = "127.0.0.1"
_MERGE = "application/merge-patch+json"


class PodRunner:
    """Watches a namespace and runs its pods.

    Args:
        api: The server.
        namespace: Whose pods.
        directory: For files of pods.
        entrypoint: What a container runs before its arguments if it names no command.
        environment: Variables that images would have.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        directory: Path,
        entrypoint: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._base = f"/api/v1/namespaces/{namespace}"
        self._directory = directory
        self._entrypoint = list(entrypoint)
        self._environment = dict(environment)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._seen: set[str] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="pods", daemon=True)
        self._thread.start()

    def claim(self, name: str) -> Path:
        """Return the directory of a volume that is claimed by this name."""
        path = self._directory / "claims" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def log(self, name: str) -> str:
        """Return what a pod's container wrote."""
        path = self._directory / name / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self) -> str:
        """Return what all of them wrote."""
        return "\n".join(
            f"== {path.parent.name}\n{path.read_text()[-5000:]}" for path in self._directory.glob("*/log")
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the first process of a pod."""
        self._processes[name].send_signal(number)

    def close(self) -> None:
        """End all pods."""
        self._closed = True
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        while not self._closed:
            try:
                version = self._api.ask("GET", self._pods)
                for pod in version["items"]:
                    self._look(pod, "ADDED")
                start = version["metadata"]["resourceVersion"]
                with self._api.watch(
                    f"{self._pods}?watch=1&timeoutSeconds=300&resourceVersion={start}"
                ) as events:
                    for line in events:
                        event = json.loads(line)
                        self._look(event["object"], event["type"])
            except (OSError, ApiError, urllib.error.URLError, ValueError):
                time.sleep(0.5)  # the server is being stopped, or the watch has expired

    def _look(self, pod: dict[str, Any], event: str) -> None:
        if pod.get("kind") == "Status":
            return
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if event == "DELETED" or "deletionTimestamp" in pod["metadata"]:
            process = self._processes.get(name)
            if process is not None and process.poll() is None:
                process.terminate()
        elif uid not in self._seen and pod["status"].get("phase", "Pending") == "Pending":
            self._seen.add(uid)
            threading.Thread(target=self._run, args=(pod,), name=f"pod-{name}", daemon=True).start()

    def _run(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        directory = self._directory / name
        (directory / "work").mkdir(parents=True)
        paths = self._mount(pod, container, directory)

        def inside(text: str) -> str:
            for path in sorted(paths, key=len, reverse=True):
                text = text.replace(path, str(paths[path]))
            return text

        for path, target in paths.items():
            if target.parent == directory:
                for file in filter(Path.is_file, target.iterdir()):
                    with suppress(UnicodeDecodeError):
                        file.write_text(inside(file.read_text()))
        given = self._variables(pod, container)
        variables = {key: inside(value) for key, value in given.items()}
        command = container.get("command") or self._entrypoint
        arguments = [inside(_expand(each, given)) for each in container.get("args", [])]
        (directory / "tmp").mkdir()
        with (directory / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                env={**self._environment, "TMPDIR": str(directory / "tmp"), **variables},
                cwd=directory / "work",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[name] = process
        self._tell(name, container["name"], "Running", None)
        code = process.wait()
        self._tell(
            name, container["name"], "Failed" if code else "Succeeded", code if code >= 0 else 128 - code
        )

    def _mount(self, pod: dict[str, Any], container: dict[str, Any], directory: Path) -> dict[str, Path]:
        volumes = {each["name"]: each for each in pod["spec"].get("volumes", [])}
        paths = {}
        for mount in container.get("volumeMounts", []):
            volume = volumes[mount["name"]]
            if mount["mountPath"] == "/tmp":
                continue  # TMPDIR
            if "persistentVolumeClaim" in volume:
                paths[mount["mountPath"]] = self.claim(volume["persistentVolumeClaim"]["claimName"])
                continue
            target = paths[mount["mountPath"]] = directory / f"volume-{mount['name']}"
            target.mkdir()
            for key, content in self._content(volume).items():
                (target / key).write_bytes(content)
                (target / key).chmod(0o640)
        return paths

    def _content(self, volume: dict[str, Any]) -> dict[str, bytes]:
        if "configMap" in volume:
            found = self._await(f"{self._base}/configmaps/{volume['configMap']['name']}")
            return {key: text.encode() for key, text in found.get("data", {}).items()}
        if "secret" in volume:
            found = self._await(f"{self._base}/secrets/{volume['secret']['secretName']}")
            return {key: base64.b64decode(text) for key, text in found.get("data", {}).items()}
        return {}

    def _await(self, path: str) -> Any:
        """Return what may be created a moment behind the pod that mounts it."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return self._api.ask("GET", path)
            except ApiError as error:
                if error.status != 404 or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    @staticmethod
    def _variables(pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
        facts = {
            "metadata.name": pod["metadata"]["name"],
            "metadata.namespace": pod["metadata"]["namespace"],
            "status.podIP": _ADDRESS,
            "status.hostIP": _ADDRESS,
        }
        found = {}
        for each in container.get("env", []):
            field = each.get("valueFrom", {}).get("fieldRef")
            found[each["name"]] = each.get("value", "") if field is None else facts[field["fieldPath"]]
        return found

    def _tell(self, name: str, container: str, phase: str, code: int | None) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state: dict[str, Any] = {"running": {"startedAt": now}}
        if code is not None:
            reason = "Error" if code else "Completed"
            state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}
        is_ready = phase == "Running"
        status = {
            "phase": phase, "podIP": _ADDRESS, "hostIP": _ADDRESS, "podIPs": [{"ip": _ADDRESS}], "startTime": now,
            "conditions": [{"type": "Ready", "status": str(is_ready), "lastTransitionTime": now}],
            "containerStatuses": [
                {
                    "name": container, "image": "local", "imageID": "local", "restartCount": 0, "ready": is_ready,
                    "state": state,
                }
            ],
        }  # fmt: skip
        with suppress(ApiError, OSError):  # it has been deleted, or the server is being stopped
            self._api.ask("PATCH", f"{self._pods}/{name}/status", {"status": status}, kind=_MERGE)


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Put variables in the place of `$(NAME)`, as Kubernetes does."""
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG", "HOME") if name in os.environ}
PYTHON = sys.executable
