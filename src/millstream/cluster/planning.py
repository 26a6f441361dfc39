"""Finds out what job a program would run: in a process of its own, which ends where the job would begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from millstream.cluster.applications import Program
from millstream.cluster.processes import compose_environment
from millstream.rest.errors import RestError
from millstream.runtime.control.codec import decode
from millstream.runtime.control.views import PlannedJobView

__all__ = ["plan_program"]

_LONGEST_S = 8.0
_SAID_BYTES = 2_000
"""Of what a program that failed has written, what is told: its end."""


def plan_program(
    program: Program, options: Mapping[str, str], variables: Mapping[str, str]
) -> PlannedJobView:
    """Run a program up to its first job, and return that.

    Args:
        program: What runs.
        options: The cluster's options by key; the program's have the last word.
        variables: All variables of its process.

    Raises:
        RestError: 400 if it ended before it had a job, 503 if that takes longer than eight seconds.
    """
    with tempfile.TemporaryDirectory(prefix="millstream-plan-") as directory:
        view, said = Path(directory, "plan.json"), Path(directory, "said")
        command = [sys.executable, "-m", "millstream.cli", "info", "--view", str(view)]
        if program.pyflink:
            command.append("--pyflink")
        with said.open("wb") as output:
            process = subprocess.Popen(
                [*command, program.path, *program.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=program.working_directory,
                env=compose_environment(variables, {**options, **program.options}, {}),
                start_new_session=True,
            )
        try:
            code = process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            raise RestError(
                503, f"the program did not come to a job within {_LONGEST_S:.0f} s, and was ended"
            ) from None
        finally:
            with suppress(ProcessLookupError):  # whatever it has started goes with it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code != 0 or not view.exists():
            written = said.read_bytes()[-_SAID_BYTES:].decode(errors="replace").strip()
            raise RestError(400, f"the program ended without a job, with exit code {code}: {written}")
        return decode(view.read_bytes(), PlannedJobView)
