"""The two sides of a comparison with Flink: each runs the same script in a process, and an environment, of its own."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

__all__ = ["ask"]


def ask(script: str, python: str, side: str, task: dict[str, Any], *, heap: str) -> dict[str, Any]:
    """Return what `python script --side SIDE --task TASK` printed as its last line, a JSON document.

    Args:
        script: The script's path.
        python: The interpreter of the side's environment.
        side: `ours` or `flink`.
        task: What to do; `query` names it in messages.
        heap: Most memory of Flink's JVM, such as "3g".
    """
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": f"-Xmx{heap}"} if side == "flink" else dict(os.environ)
    command = [python, script, "--side", side, "--task", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{side} failed at {task['query']}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    document: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return document
