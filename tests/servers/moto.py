"""AWS by moto, in a directory of its own: its packages are no matter of ours. It keeps nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from servers.kinesis import aws_properties, client_of
from servers.process import CACHE, Server, answers

_PACKAGES = ("moto[s3]==5.2.5", "flask>=3,<4", "flask-cors>=5,<7", "python-dateutil<3")


class MotoServer(Server):
    """Firehose, S3 and others; whoever asks is let in."""

    def command(self) -> list[str]:
        directory = CACHE / "moto-5.2.5"
        if not directory.is_dir():
            _install(directory)
        python = ["env", f"PYTHONPATH={directory}", sys.executable]
        return [*python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        return aws_properties(self.endpoint)

    def client(self, service: str) -> Any:
        return client_of(service, self.endpoint)

    def is_ready(self) -> bool:
        return answers(self.client("s3").list_buckets)


def _install(directory: Path) -> None:
    staged = CACHE / f".{directory.name}-{os.getpid()}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    try:
        done = subprocess.run(
            [*pip, "--target", str(staged), *_PACKAGES], capture_output=True, text=True, timeout=280
        )
        if done.returncode != 0:
            raise RuntimeError(f"moto could not be installed:\n{done.stdout}{done.stderr}")
        with suppress(OSError):  # another test session was faster
            staged.rename(directory)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
