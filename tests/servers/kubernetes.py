"""Kubernetes: the real API server on a real etcd, both built from the module proxy."""

from __future__ import annotations

from pathlib import Path

from servers.golang import build

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
_API_MAIN = """package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
"""


def build_etcd() -> Path:
    """Return the program etcd."""
    return build("etcd", f"require go.etcd.io/etcd/server/v3 v{ETCD}\n", _ETCD_MAIN)


def build_api_server() -> Path:
    """Return the program kube-apiserver; building takes minutes."""
    major, minor, patch = KUBERNETES.split(".")
    staged = f"v0.{minor}.{patch}"
    replaced = "".join(f"replace k8s.io/{name} => k8s.io/{name} {staged}\n" for name in _STAGING)
    version = "k8s.io/component-base/version"
    flags = f"-s -w -X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    return build(
        "kube-apiserver", f"require k8s.io/kubernetes v{KUBERNETES}\n{replaced}", _API_MAIN, flags=flags
    )
