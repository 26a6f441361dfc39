"""The Spark session of a cluster: a process that keeps it open, started and watched by the dispatcher.

The session is in a process of its own, so that the dispatcher stays small and answers while Spark starts; it ends when
the dispatcher does, even by SIGKILL: its standard input ends then. Programs attach to it by its file.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["ClusterSession"]

_log = logging.getLogger(__name__)
_END_S = 20.0
_SHOWN_BYTES = 4_000


class ClusterSession:
    """Opens the session, tells when it is there and when it is gone; any thread may call it.

    Args:
        file: What programs attach with; in a directory for this user only.
        log: Takes what the process writes to standard error.
        environment: All variables of the process; `MILLSTREAM_CONFIG` among them has the options of the session.
        on_opened: Called on a thread of its own.
        on_ended: Likewise, with the reason, once for each time it was opened or could not be; not behind `close`.
    """

    def __init__(
        self,
        file: Path,
        *,
        log: Path,
        environment: Mapping[str, str],
        on_opened: Callable[[], None],
        on_ended: Callable[[str], None],
    ) -> None:
        self.file = file
        self._log = log
        self._environment = environment
        self._on_opened = on_opened
        self._on_ended = on_ended
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def open(self) -> None:
        """Start the process; what becomes of it is told.

        Raises:
            OSError: If it cannot be started.
        """
        with self._lock:
            if self._is_closed:
                return
            self.file.unlink(missing_ok=True)
            descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            begins = os.lseek(descriptor, 0, os.SEEK_END)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "millstream.runtime.spark.session_process", str(self.file)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=descriptor,
                    env=dict(self._environment),
                    start_new_session=True,
                )
            finally:
                os.close(descriptor)
            process = self._process
        threading.Thread(target=self._watch, args=(process, begins), name="session", daemon=True).start()

    def close(self) -> None:
        """End the session, and wait until its process has ended."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            _log.warning("the Spark session does not end and is killed: process %d", process.pid)
            process.kill()
            process.wait()

    def _watch(self, process: subprocess.Popen[bytes], begins: int) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                if line == b"ready\n":
                    self._on_opened()
        code = process.wait()
        if not self._is_closed:
            self._on_ended(self._said(begins) or f"the process of the Spark session ended with {code}")

    def _said(self, begins: int) -> str:
        """Return the end of what the process wrote since it was started."""
        with open(self._log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begins, size - _SHOWN_BYTES))
            return file.read().decode("utf-8", errors="replace").strip()
