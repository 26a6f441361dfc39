"""The process beside a slot that compacts its state files: `python -m millstream.runtime.slot.compaction_process`.

Standard input brings the module path, how to reach file systems, the classes of the program's main module and the
order, each behind its length, and stays open: when it ends, the slot is gone, and so is this process. Standard output
gets one line of JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
from dataclasses import asdict
from typing import Any, BinaryIO

from millstream.base.errors import MillstreamError
from millstream.files.file_systems import install
from millstream.runtime.checkpoint.compaction import compact
from millstream.runtime.program.main_classes import register_main_classes

_NICENESS = 10


def main() -> None:
    """Do the order."""
    given = sys.stdin.buffer
    answer: dict[str, Any]
    try:
        sys.path[:] = _take(given)
        install(_take(given))
        register_main_classes(_take(given))
        order = _take(given)
        threading.Thread(target=_end_with, args=(given,), daemon=True).start()
        os.nice(_NICENESS)
        answer = {"file": asdict(compact(order))}
    except MillstreamError as error:
        answer = {"error": error.message}
    except Exception as error:  # noqa: BLE001 - the slot reports it, whatever it is
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _take(given: BinaryIO) -> Any:
    size = int.from_bytes(given.read(8), "big")
    return pickle.loads(given.read(size))


def _end_with(given: BinaryIO) -> None:
    given.read()
    os._exit(1)


if __name__ == "__main__":
    main()
