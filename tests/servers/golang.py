"""Servers written in Go: built from the module proxy, once for a checkout, in the directory build/test-servers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from servers.packages import install
from servers.process import CACHE


def build(name: str, module: str, main: str, *, flags: str = "-s -w", minutes: float = 20) -> Path:
    """Return a program, built if it is not there.

    Args:
        name: Of the program.
        module: What its go.mod has behind the first lines: the modules that it requires, and replacements.
        main: Its only source file.
        flags: For the linker.
        minutes: How long building may take.

    Raises:
        RuntimeError: If it cannot be built.
    """
    digest = hashlib.sha256(repr((module, main, flags)).encode()).hexdigest()[:12]
    program = CACHE / f"{name}-{digest}"
    if program.is_file():
        return program
    staged = CACHE / f".{name}-{os.getpid()}"
    staged.mkdir(parents=True)
    try:
        (staged / "go.mod").write_text(f"module test-server\n\ngo 1.24\n\n{module}")
        (staged / "main.go").write_text(main)
        environment = {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
        _go(["mod", "tidy"], staged, environment, minutes)
        _go(["build", "-trimpath", "-ldflags", flags, "-o", "program", "."], staged, environment, minutes)
        (staged / "program").rename(program)
    finally:
        shutil.rmtree(staged)
    return program


def _go(arguments: list[str], directory: Path, environment: Mapping[str, str], minutes: float) -> None:
    done = subprocess.run(
        [_program(), *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=minutes * 60,
    )
    if done.returncode:
        raise RuntimeError(f"go {' '.join(arguments)} in {directory}:\n{done.stdout}{done.stderr}")


def _program() -> str:
    if shutil.which("go") is None:
        install("golang-go")
    found = shutil.which("go")
    if found is None:
        raise RuntimeError("These tests need Go 1.24 or newer on the path: please install it.")
    return found
