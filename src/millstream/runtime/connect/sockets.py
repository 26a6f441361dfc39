"""Unix sockets that only this user reaches: in a directory of mode 700, and each end asks the kernel who the other is.

An abstract socket has no permissions, and its name is free as soon as its process is gone: whoever takes it is asked
next. A socket in a private directory can be neither reached nor replaced by others.

::

    <temporary directory>/millstream-<user>/slots/lock                        held while one is made or old ones go
                                                 /<place>-<random>.sock
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from millstream.files.private_files import NotPrivateError, private_directory, user_directory

__all__ = ["find_directory", "fits", "listen_privately", "peer_user", "remove_private"]

LONGEST_ADDRESS = 100
"""Of a Unix socket, in bytes: Linux allows 107, macOS 103."""
_SHORT_BASES = ("/tmp", "/dev/shm", "/var/tmp")
_ALONE = "millstream-slot-"
_BACKLOG = 128


def fits(address: str | Path) -> bool:
    """Return whether a path is short enough for a Unix socket."""
    return len(os.fsencode(address)) <= LONGEST_ADDRESS


def peer_user(stream: socket.socket) -> int | None:
    """Return whose process is at the other end of a Unix socket; None where the kernel does not tell."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        user: int = struct.unpack("3i", credentials)[1]
        return user
    if sys.platform == "darwin":
        # LOCAL_PEERCRED of SOL_LOCAL; struct xucred begins with its version and the user.
        return int(struct.unpack("2I", stream.getsockopt(0, 1, 76)[:8])[1])
    return None


def listen_privately(place: str) -> tuple[socket.socket, Path]:
    """Listen on a new socket; the one who does removes its file at the end.

    Sockets whose process is gone are removed along the way, if they are of this place: those of another machine, or
    of another container that shares the directory, cannot be asked from here.

    Args:
        place: Where this process lives, see `slot.place`.

    Returns:
        The socket and its file.

    Raises:
        OSError: If no directory can be used.
    """
    mark = hashlib.sha256(place.encode()).hexdigest()[:8]
    name = f"{mark}-{secrets.token_hex(8)}.sock"
    directory = find_directory("slots", name) or _make_alone(name)
    with _only_one(directory):
        _remove_dead(directory, mark)
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.bind(str(directory / name))
            stream.listen(_BACKLOG)
        except BaseException:
            stream.close()
            raise
    return stream, directory / name


def remove_private(path: Path) -> None:
    """Remove the file of a socket, and the directory if it was made for this one alone.

    Raises:
        OSError: If it cannot be removed.
    """
    path.unlink(missing_ok=True)
    if path.parent.name.startswith(_ALONE):
        (path.parent / "lock").unlink(missing_ok=True)
        path.parent.rmdir()


def find_directory(kind: str, longest_name: str) -> Path | None:
    """Return a directory for this user only whose path is short enough for sockets; it is the same the next time.

    Args:
        kind: What it is for.
        longest_name: Of a socket in it.

    Returns:
        The directory; None if others have taken each that could be.
    """
    for base in _bases():
        if fits(user_directory(kind, base=base) / longest_name):
            with contextlib.suppress(OSError):  # not this user's alone, or not to be written
                return private_directory(kind, base=base)
    return None


def _bases() -> list[str]:
    return [each for each in (tempfile.gettempdir(), *_SHORT_BASES) if os.path.isdir(each)]


def _make_alone(name: str) -> Path:
    """Make a directory for one socket, of a name that nobody can guess."""
    for base in _bases():
        if fits(Path(base) / f"{_ALONE}12345678" / name):
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix=_ALONE, dir=base))
    raise NotPrivateError(
        "there is no directory for a slot's socket that is for this user only and has a short path",
        detail=f"Tried below {', '.join(_bases())}; a socket's path has {LONGEST_ADDRESS} bytes at most.",
        hint="Set TMPDIR to a directory with a short path that only you can write.",
    )


@contextlib.contextmanager
def _only_one(directory: Path) -> Iterator[None]:
    """Keep others from taking a socket that is bound and not listened on yet for a dead one."""
    with open(directory / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_dead(directory: Path, mark: str) -> None:
    for path in directory.glob(f"{mark}-*.sock"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # one whose queue is full lives
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue
