"""`python -m millstream.runtime.spark.session_process FILE`: keeps a Spark session open for other processes.

::

    who starts it ──► standard input: stays open as long as the session is wanted
                  ◄── standard output: "ready", once FILE is there to attach with (`shared.py`)
                  ◄── it ends: 0 when its input ended, 1 with an error on standard error if the session cannot be
                      opened, or is gone

The options of the session are those of a job: configuration files and `MILLSTREAM_CONFIG`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from millstream.base.clock import SystemClock
from millstream.base.errors import MillstreamError
from millstream.config.configuration import Configuration
from millstream.runtime.spark.session import SessionConfig, open_session
from millstream.runtime.spark.shared import hand_over

__all__ = ["main"]

_LOOK_S = 1.0


def main(path: str) -> int:
    """Open the session, hand it over in a file, and wait until it is not wanted any more; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who reads our output decides
    unwanted = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(unwanted,), daemon=True).start()
    try:
        with open_session(SessionConfig.of(Configuration.load(os.environ))) as handle:
            hand_over(handle.context, path)
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            clock = SystemClock()
            while not clock.wait(_LOOK_S, unwanted):
                loss = handle.find_loss()
                if loss is not None:
                    raise loss
    except MillstreamError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        with suppress(FileNotFoundError):
            Path(path).unlink()
    return 0


def _wait_for_end_of_input(unwanted: threading.Event) -> None:
    sys.stdin.buffer.read()
    unwanted.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
