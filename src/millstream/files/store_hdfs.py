"""Checkpoints in HDFS, through hdfs-native: no JVM, no libhdfs.

pyarrow's own file system for HDFS replaces a file by removing it first, so a driver that is killed in between would
leave none; HDFS itself can rename over a file in one step, and hdfs-native has that.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

from millstream.base.clock import SystemClock
from millstream.base.crash_points import reach
from millstream.base.errors import CheckpointStorageError, ConfigurationError
from millstream.base.ids import new_id
from millstream.config.options_file_systems import HADOOP_PREFIX, HDFS_TIMEOUT
from millstream.files.file_systems import FileSystemSettings, Location
from millstream.files.remote import check_hdfs, hadoop_of
from millstream.files.store import STAGED, FileStore

__all__ = ["HdfsStore"]

_CHUNK_BYTES: Final = 4 << 20
Result = TypeVar("Result")


class HdfsStore(FileStore):
    """A file is written beside its place, made durable and renamed.

    Args:
        place: Name node (or name service; empty for the default of Hadoop's configuration) and path.
        settings: How to reach it.

    Raises:
        ConfigurationError: If hdfs-native is not installed, or the location names a user.
    """

    def __init__(self, place: Location, settings: FileSystemSettings) -> None:
        check_hdfs()
        if "@" in place.authority:
            raise ConfigurationError(
                f'location "{place}" names a user', hint="Set HADOOP_USER_NAME, or use Kerberos."
            )
        self.location = str(place)
        self._server = f"{place.scheme}://{place.authority}" if place.authority else ""
        self._root = place.path or "/"
        self._hadoop = hadoop_of(settings)
        self._timeout_s = settings.hdfs_timeout_ms / 1000

    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None:
        target = self._path(path)
        staged = f"{target}.{new_id()[:8]}{STAGED}"
        try:
            writer = self._call(lambda client: client.create(staged))
            for part in parts:
                for start in range(0, len(part), _CHUNK_BYTES):
                    self._write(writer, memoryview(part)[start : start + _CHUNK_BYTES])
            self._call(lambda client: writer.close())
            reach("storage.staged", staged)
            self._call(lambda client: client.rename(staged, target, overwrite=True))
        except TimeoutError:
            raise  # whoever does not answer will not remove a file either
        except BaseException:
            with suppress(OSError):
                self._call(lambda client: client.delete(staged))
            raise

    def _put_new(self, path: str, data: bytes) -> bool:
        target = self._path(path)
        try:
            writer = self._call(lambda client: client.create(target, _not_over_another()))
        except OSError as error:
            if isinstance(error, FileExistsError) or re.search(r"Already(Exists|BeingCreated)", str(error)):
                return False
            raise
        self._write(writer, memoryview(data))
        self._call(lambda client: writer.close())
        return True

    def _write(self, writer: Any, chunk: memoryview) -> None:
        self._call(lambda client: writer.write(bytes(chunk)))

    def _get(self, path: str) -> bytes:
        reader = self._call(lambda client: client.read(self._path(path)))
        return self._read(reader, 0, len(reader))

    def _get_part(self, path: str, offset: int, length: int) -> bytes:
        reader = self._call(lambda client: client.read(self._path(path)))
        return self._read(reader, offset, min(offset + length, len(reader)))

    def _read(self, reader: Any, begin: int, end: int) -> bytes:
        return b"".join(
            self._read_chunk(reader, start, min(_CHUNK_BYTES, end - start))
            for start in range(begin, end, _CHUNK_BYTES)
        )

    def _read_chunk(self, reader: Any, start: int, length: int) -> bytes:
        chunk: bytes = self._call(lambda client: reader.read_range(start, length))
        return chunk

    def _names(self, directory: str) -> list[str]:
        place = self._path(directory)
        try:
            found = self._call(lambda client: [status.path for status in client.list_status(place)])
        except FileNotFoundError:
            return []
        # Of a file, the list is the file itself.
        return [posixpath.basename(path) for path in found if path.rstrip("/") != place.rstrip("/")]

    def _remove(self, path: str) -> None:
        self._call(lambda client: client.delete(self._path(path), recursive=True))

    def _path(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}".rstrip("/") or "/"

    def _call(self, action: Callable[[Any], Result]) -> Result:
        """Return what an action on the client gives.

        Raises:
            OSError: If it fails, or takes too long (`TimeoutError`).
        """
        try:
            return SystemClock().within(self._timeout_s, lambda: action(_client(self._server, self._hadoop)))
        except TimeoutError:
            _client.cache_clear()  # what waits for ever on a connection would have all others wait too
            raise
        except OSError as error:
            raise type(error)(_first_line(str(error))) from error
        except (RuntimeError, ValueError) as error:  # hdfs-native has no exceptions of its own
            raise OSError(_first_line(str(error))) from error

    def _failed(self, what: str, path: str, error: OSError) -> CheckpointStorageError:
        text = str(error)
        reason, hint = self._explain(error, text)
        return CheckpointStorageError(
            f'file "{self.describe(path)}" cannot be {what}: {reason}', detail=text, hint=hint
        )

    def _explain(self, error: OSError, text: str) -> tuple[str, str]:
        server = self._server or "the name node of Hadoop's configuration"
        if "AccessControlException" in text or isinstance(error, PermissionError):
            return f"{server} refused access", (
                "Check the user (HADOOP_USER_NAME, or the ticket of Kerberos) and the permissions of the directory."
            )
        if "SafeModeException" in text:
            return f"{server} is in safe mode", "It takes writes when it has heard of all blocks."
        if "No NameNode hosts" in text:
            return f"{server} is not known", (
                "Give host and port, or set HADOOP_CONF_DIR for the driver and the slots "
                f"({HADOOP_PREFIX}<key> sets a single key)."
            )
        if isinstance(error, TimeoutError):
            return f"{server} did not answer in {self._timeout_s:g} s", (
                f"Check that every host of the job reaches it; {HDFS_TIMEOUT.key} gives it more time."
            )
        if re.search(r"refused|lookup|unreachable|reset|closed|Standby", text, re.IGNORECASE):
            return (
                f"{server} did not answer",
                "Check host and port, and that every host of the job reaches it.",
            )
        return f"{server} reported an error", "See what it says, and the log of the name node."


@lru_cache(maxsize=8)
def _client(server: str, hadoop: tuple[tuple[str, str], ...]) -> Any:
    """Return the client; kept, with its connections, for all stores of this process."""
    from hdfs_native import Client  # optional

    return Client(server or None, dict(hadoop))


def _not_over_another() -> Any:
    from hdfs_native import WriteOptions  # optional

    return WriteOptions(overwrite=False)


def _first_line(text: str) -> str:
    """Return an error of Hadoop without its Java frames, which may come as one line with escapes.

    >>> _first_line('RPCError("org.apache.X", "/f is no directory\\\\n\\\\tat org.apache...")')
    'RPCError("org.apache.X", "/f is no directory'
    """
    return re.split(r"\n|\\n", text, maxsplit=1)[0]
