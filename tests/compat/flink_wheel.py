"""The examples in the apache-flink wheel, downloaded and read as a zip, and how they are run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

VERSION = "2.3.0"
FOLDER = "pyflink/examples/"


def unpack(cache: Path, folder: Path, part: str = "datastream") -> Path:
    """Unpack examples of the wheel, which is downloaded if the cache has not got it.

    Args:
        cache: Where the wheel is kept.
        folder: Where the examples go.
        part: Which of them: `datastream` or `table`.
    """
    wheels = list(cache.glob("*.whl"))
    if not wheels:
        command = [sys.executable, "-m", "pip", "download", f"apache-flink=={VERSION}"]
        command += ["--no-deps", "--only-binary", ":all:", "--dest", str(cache)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=240)
        wheels = list(cache.glob("*.whl"))
        if not wheels:
            pytest.skip(f"apache-flink {VERSION} cannot be downloaded: {result.stderr.strip()[-300:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(f"{FOLDER}{part}/")])
    return folder / FOLDER / part


def run(program: Path, *arguments: str, options: tuple[str, ...] = (), cwd: Path) -> list[str]:
    command = [sys.executable, "-m", "millstream.compat", "--target", "local", "-p", "2", *options]
    environment = {key: value for key, value in os.environ.items() if key != "MILLSTREAM_CONFIG"}
    result = subprocess.run(
        [*command, str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()
