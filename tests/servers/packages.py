"""Programs that servers are started from, installed from the system's packages if the machine has not got them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.process import CACHE

_POLICY = Path("/usr/sbin/policy-rc.d")


def install(*packages: str) -> None:
    """Install packages of Debian or Ubuntu; servers among them are not started.

    Raises:
        RuntimeError: If this cannot be done here.
    """
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise RuntimeError(f"These tests need {', '.join(packages)}: please install them.")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one test process at a time
        is_ours = not _POLICY.exists()
        if is_ours:
            _POLICY.write_text("#!/bin/sh\nexit 101\n")
            _POLICY.chmod(0o755)
        try:
            if _apt(["install", "-y", "--no-install-recommends", *packages]).returncode:
                _apt(["update"])
                done = _apt(["install", "-y", "--no-install-recommends", *packages])
                if done.returncode:
                    raise RuntimeError(
                        f"{', '.join(packages)} could not be installed:\n{done.stdout}{done.stderr}"
                    )
        finally:
            if is_ours:
                _POLICY.unlink()


def _apt(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        ["apt-get", "-q", *arguments], capture_output=True, text=True, timeout=280, env=environment
    )
