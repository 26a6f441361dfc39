"""Kubernetes' control plane: API server and job controller on a real etcd, built from the module proxy.

There is no scheduler and no kubelet: `servers.pods` runs pods as processes of this machine.
"""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servers.golang import build
from servers.process import Server, answers, free_port

KUBERNETES = "1.34.1"
ETCD = "3.6.5"
_STAGING = (
    "api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go", "cloud-provider",
    "cluster-bootstrap", "code-generator", "component-base", "component-helpers", "controller-manager", "cri-api",
    "cri-client", "csi-translation-lib", "dynamic-resource-allocation", "endpointslice", "externaljwt",
    "kube-aggregator", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet", "metrics",
    "mount-utils", "pod-security-admission", "sample-apiserver", "sample-cli-plugin", "sample-controller",
)  # fmt: skip
_ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""
_KUBERNETES_MAIN = """package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/NAME/app"
)

func main() { os.Exit(cli.Run(app.NewCOMMANDCommand())) }
"""


def build_etcd() -> Path:
    """Return the program etcd."""
    return build("etcd", f"require go.etcd.io/etcd/server/v3 v{ETCD}\n", _ETCD_MAIN)


def build_api_server() -> Path:
    """Return the program kube-apiserver; building takes minutes."""
    return _build("kube-apiserver", "APIServer")


def build_controller_manager() -> Path:
    """Return the program kube-controller-manager; building takes minutes."""
    return _build("kube-controller-manager", "ControllerManager")


def _build(name: str, command: str) -> Path:
    major, minor, patch = KUBERNETES.split(".")
    staged = f"v0.{minor}.{patch}"
    replaced = "".join(f"replace k8s.io/{each} => k8s.io/{each} {staged}\n" for each in _STAGING)
    version = "k8s.io/component-base/version"
    flags = f"-s -w -X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    main = _KUBERNETES_MAIN.replace("NAME", name).replace("COMMAND", command)
    return build(name, f"require k8s.io/kubernetes v{KUBERNETES}\n{replaced}", main, flags=flags)


class EtcdServer(Server):
    """An etcd with one member."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._peers = free_port()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        peers = f"http://127.0.0.1:{self._peers}"
        return [
            str(build_etcd()), "--data-dir", str(self.directory / "data"), "--unsafe-no-fsync",
            "--listen-client-urls", self.address, "--advertise-client-urls", self.address,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}",
        ]  # fmt: skip

    def is_ready(self) -> bool:
        return answers(lambda: urllib.request.urlopen(f"{self.address}/health", timeout=5).close())


class ApiServer(Server):
    """An API server; its administrator has `token`.

    Args:
        directory: For keys, certificates and logs.
        etcd: Address of etcd.
    """

    start_s = 180

    def __init__(self, directory: Path, etcd: str) -> None:
        super().__init__(directory)
        self.token = secrets.token_hex(16)
        self._etcd = etcd
        self._users = {"admin": self.token}
        key = directory / "service-accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)

    def add_account(self, namespace: str, name: str) -> str:
        """Have a service account known by a token, which is returned; before the server is started."""
        token = secrets.token_hex(16)
        self._users[f"system:serviceaccount:{namespace}:{name}"] = token
        return token

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        """Of the authority that signed the server's own."""
        return self.directory / "certificates" / "apiserver.crt"

    def command(self) -> list[str]:
        lines = []
        for number, (name, token) in enumerate(self._users.items()):
            group = "system:masters" if name == "admin" else "system:serviceaccounts"
            lines.append(f'{token},{name},{number},"{group}"\n')
        (self.directory / "tokens").write_text("".join(lines))
        key = str(self.directory / "service-accounts.key")
        return [
            str(build_api_server()), "--etcd-servers", self._etcd, "--secure-port", str(self.port),
            "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
            "--cert-dir", str(self.directory / "certificates"),
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-key-file", key, "--service-account-signing-key-file", key,
            "--token-auth-file", str(self.directory / "tokens"), "--authorization-mode", "RBAC",
            "--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24",
        ]  # fmt: skip

    def is_ready(self) -> bool:
        return answers(lambda: self.ask("GET", "/readyz", parse=False))

    def ask(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        kind: str = "application/json",
        parse: bool = True,
    ) -> Any:
        """Send a request and return its answer.

        Raises:
            ApiError: If the server refuses it.
        """
        body = None if document is None else json.dumps(document).encode()
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
        request = urllib.request.Request(f"{self.url}{path}", data=body, headers=headers, method=method)
        context = ssl.create_default_context(cafile=str(self.certificate))
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                data = answer.read()
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, error.read().decode()) from error
        return json.loads(data) if parse else data

    def watch(self, path: str) -> Any:
        """Return the stream of events behind a path, lines of JSON."""
        request = urllib.request.Request(
            f"{self.url}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        context = ssl.create_default_context(cafile=str(self.certificate))
        return urllib.request.urlopen(request, timeout=600, context=context)

    def create(self, document: Mapping[str, Any], namespace: str, *, dry_run: bool = False) -> Any:
        """Create what a manifest describes; unknown and doubled fields are refused.

        Raises:
            ApiError: If the server does not accept it.
        """
        options = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        path = f"{_collection(document, namespace)}?{urllib.parse.urlencode(options)}"
        return self.ask("POST", path, document)


class ApiError(Exception):
    """The API server refuses a request.

    Attributes:
        status: Of HTTP.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


def _collection(document: Mapping[str, Any], namespace: str) -> str:
    version, kind = document["apiVersion"], document["kind"]
    plural = "networkpolicies" if kind == "NetworkPolicy" else f"{kind.lower()}s"
    group = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return f"{group}/{plural}" if kind == "Namespace" else f"{group}/namespaces/{namespace}/{plural}"


class ControllerManager(Server):
    """The controller that makes pods for Jobs."""

    def __init__(self, directory: Path, api: ApiServer) -> None:
        super().__init__(directory)
        self._api = api
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "main",
            "clusters": [
                {"name": "main", "cluster": {"server": api.url, "certificate-authority": str(api.certificate)}}
            ],
            "users": [{"name": "admin", "user": {"token": api.token}}],
            "contexts": [{"name": "main", "context": {"cluster": "main", "user": "admin"}}],
        }  # fmt: skip
        (directory / "kubeconfig").write_text(json.dumps(config))

    def command(self) -> list[str]:
        return [
            str(build_controller_manager()), "--kubeconfig", str(self.directory / "kubeconfig"),
            "--controllers", "job-controller,garbage-collector-controller", "--leader-elect=false",
            "--secure-port", str(self.port), "--bind-address", "127.0.0.1",
            "--cert-dir", str(self.directory / "certificates"),
        ]  # fmt: skip

    def is_ready(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it signs its own certificate
        url = f"https://127.0.0.1:{self.port}/healthz"
        return answers(lambda: urllib.request.urlopen(url, timeout=5, context=context).close())
