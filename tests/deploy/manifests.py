"""Reads the manifests of `deploy/kubernetes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "deploy" / "kubernetes"


def read_manifests() -> list[dict[str, Any]]:
    """Return all that `kubectl apply -k` would send, in its order."""
    kustomization = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())
    return [
        document
        for name in kustomization["resources"]
        for document in yaml.safe_load_all((DIRECTORY / name).read_text())
    ]
