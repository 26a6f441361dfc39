"""Starts a dispatcher in the background, for who does not want to wait for its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from millstream.base.errors import MillstreamError
from millstream.cluster.door import RemoteCluster, find_cluster

__all__ = ["ClusterStartError", "start_cluster"]

_SHOWN_BYTES = 4_000


class ClusterStartError(MillstreamError, RuntimeError):
    """A dispatcher did not start."""

    code = "CLUSTER_START_FAILED"
    domain = "external"


def start_cluster(
    directory: str | Path, options: Mapping[str, str], *, variables: Mapping[str, str] | None = None
) -> RemoteCluster:
    """Start a dispatcher and return when others find it; it lives on behind this process.

    Args:
        directory: Of the cluster; made if it is missing, for this user only.
        options: Of the session, and of programs that do not set them.
        variables: The dispatcher's environment; this process's by default.

    Raises:
        ClusterStartError: If it ends at once; says what it said.
    """
    path = Path(directory).resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = path / "dispatcher.log"
    environment = {**(os.environ if variables is None else variables)}
    inherited = json.loads(environment.get("MILLSTREAM_CONFIG") or "{}")
    environment["MILLSTREAM_CONFIG"] = json.dumps(inherited | dict(options))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    begins = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "millstream.cluster.process", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=descriptor,
            env=environment,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    assert process.stdout is not None
    with process.stdout as output:
        said = output.readline()
    found = find_cluster(str(path)) if said == b"ready\n" else None
    if found is None:
        process.wait()
        with open(log, "rb") as file:
            file.seek(max(begins, log.stat().st_size - _SHOWN_BYTES))
            reason = file.read().decode("utf-8", errors="replace").strip()
        raise ClusterStartError(
            f'the dispatcher on "{path}" did not start: {reason or "it ended without a word"}',
            hint=f"{log} has more.",
        )
    return found
