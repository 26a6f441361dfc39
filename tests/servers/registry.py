"""Apicurio, a schema registry that speaks Confluent's protocol; its data are in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

from servers.maven import JVM_OPTIONS, _maven
from servers.process import CACHE, Server, answers

_VERSION = "3.0.9"  # later ones need Java 21
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"


class RegistryServer(Server):
    """A registry without login."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def command(self) -> list[str]:
        settings = {
            "quarkus.http.port": self.port,
            "quarkus.http.host": "127.0.0.1",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
        }
        (jar,) = _unpacked().glob("*-runner.jar")
        return [
            "java",
            *JVM_OPTIONS,
            *[f"-D{key}={value}" for key, value in settings.items()],
            "-jar",
            str(jar),
        ]

    def is_ready(self) -> bool:
        return answers(lambda: urllib.request.urlopen(f"{self.url}/subjects", timeout=2).read())


def _unpacked() -> Path:
    directory = CACHE / f"apicurio-{_VERSION}"
    if directory.is_dir():
        return directory
    staged = CACHE / f".apicurio-{os.getpid()}"
    staged.mkdir(parents=True)
    command = [_maven(), "-q", "-B", "-ntp", "dependency:copy", f"-Dartifact={_ARTIFACT}"]
    command.append(f"-DoutputDirectory={staged}/got")
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        shutil.rmtree(staged)
        raise RuntimeError(f"Maven could not get {_ARTIFACT}:\n{done.stdout}{done.stderr}")
    (archive,) = (staged / "got").iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(staged, filter="data")
    shutil.rmtree(staged / "got")
    try:
        staged.rename(directory)
    except OSError:  # another test session was faster
        shutil.rmtree(staged)
    return directory
