"""Programs of Node.js, installed once for a checkout, in the directory build/test-servers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from servers.packages import install
from servers.process import CACHE


def package(name: str, version: str) -> Path:
    """Return the directory of a package, installed with what it needs; scripts of packages are not run."""
    directory = CACHE / f"{name}-{version}"
    if not directory.is_dir():
        _install(name, version, directory)
    return directory / "node_modules" / name


def _install(name: str, version: str, directory: Path) -> None:
    if shutil.which("npm") is None:
        install("nodejs", "npm")
    staged = CACHE / f".{directory.name}-{os.getpid()}"
    staged.mkdir(parents=True)
    command = ["npm", "install", "--prefix", str(staged), "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run([*command, f"{name}@{version}"], capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        shutil.rmtree(staged)
        raise RuntimeError(f"npm could not install {name} {version}:\n{done.stdout}{done.stderr}")
    try:
        staged.rename(directory)
    except OSError:  # another test session was faster
        shutil.rmtree(staged)
