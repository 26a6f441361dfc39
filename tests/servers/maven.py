"""Class paths of Java servers: artifacts from Maven, once for a checkout, in the directory build/test-servers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from servers.packages import install
from servers.process import CACHE

JVM_OPTIONS = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>millstream</groupId><artifactId>test-servers</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def jars(artifacts: tuple[str, ...], *, alone: bool = False) -> str:
    """Return a class path of artifacts (group:artifact:version[:classifier]) and, unless `alone`, what they need."""
    digest = hashlib.sha256(repr((artifacts, alone)).encode()).hexdigest()[:12]
    directory = CACHE / f"{artifacts[0].split(':')[1]}-{digest}"
    if not directory.is_dir():
        _download(artifacts, directory, alone=alone)
    return f"{directory}/*"


def _download(artifacts: tuple[str, ...], directory: Path, *, alone: bool) -> None:
    staged = CACHE / f".{directory.name}-{os.getpid()}"
    staged.mkdir(parents=True)
    (staged / "pom.xml").write_text(_POM.format(dependencies="".join(map(_dependency, artifacts))))
    command = [
        _maven(),
        "-q",
        "-B",
        "-ntp",
        "-f",
        str(staged / "pom.xml"),
        _COPY,
        f"-DoutputDirectory={staged}",
    ]
    command += ["-DincludeScope=runtime", f"-DexcludeTransitive={str(alone).lower()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        shutil.rmtree(staged)
        raise RuntimeError(f"Maven could not get {', '.join(artifacts)}:\n{done.stdout}{done.stderr}")
    try:
        staged.rename(directory)
    except OSError:  # another test session was faster
        shutil.rmtree(staged)


def _dependency(artifact: str) -> str:
    group, name, version, *classifier = artifact.split(":")
    more = f"<classifier>{classifier[0]}</classifier>" if classifier else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def _maven() -> str:
    """Return Maven; on a machine of ours that has none, it is installed (with a Java, if need be)."""
    if shutil.which("mvn") is None:
        install("maven", "default-jre-headless")
    found = shutil.which("mvn")
    if found is None:
        raise RuntimeError(
            "These tests need Maven (mvn) and Java 17 or newer on the path: please install them."
        )
    return found
