"""Whether a slot that does not answer is busy or gone: a function may hold the interpreter's lock for minutes.

Nothing of Python's answers then, in none of the slot's threads, though the process is well. What the system knows does
not depend on that lock::

    same place     /proc tells whether the process is there and not stopped
    elsewhere      the system's own probes of a TCP connection are answered by the other host's: a connection that is
                   held ends when the process does, and when the host is silent
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from millstream.runtime.connect.channel import Channel

__all__ = ["may_be_busy", "probe_host"]

_GONE_OR_STOPPED = "XZTt"


def may_be_busy(pid: int, *, same_place: bool) -> bool:
    """Return whether a silent process may answer later, as far as can be seen from here.

    Args:
        pid: Its number.
        same_place: Whether it means the same process here, see `slot.place`.
    """
    if not same_place:
        return True
    try:
        # The name, in brackets, may hold anything; behind it comes the state.
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()  # not Linux: the connection that is held tells its end
    except OSError:
        return False
    return state.split()[0] not in _GONE_OR_STOPPED


def probe_host(channel: Channel, timeout_s: float) -> None:
    """Have the system end a TCP connection whose other host is silent for so long, about."""
    with socket.socket(fileno=os.dup(channel.fileno())) as stream:
        if stream.family == socket.AF_UNIX:
            return
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        pause_s = max(round(timeout_s / 4), 1)
        wanted = {"TCP_KEEPIDLE": pause_s, "TCP_KEEPINTVL": pause_s, "TCP_KEEPCNT": 3}
        wanted["TCP_USER_TIMEOUT"] = round(timeout_s * 1000)
        for name, value in wanted.items():
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
