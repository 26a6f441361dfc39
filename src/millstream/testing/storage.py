"""A store of checkpoints in this process's memory: nothing outlives the process."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.files.stores import FileStore

__all__ = ["MemoryStore", "MemoryStores"]


class MemoryStore(FileStore):
    """One directory of a `MemoryStores`.

    Args:
        location: How users name it.
        files: Contents by path, of all stores that share the memory.
    """

    def __init__(self, location: str, files: dict[str, bytes]) -> None:
        self.location = location.rstrip("/")
        self.files = files

    def _put_parts(self, path: str, size: int, parts: Iterator[bytes]) -> None:
        self.files[self.describe(path)] = b"".join(parts)

    def _put_new(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(self.describe(path), data) is data

    def _get(self, path: str) -> bytes:
        try:
            return self.files[self.describe(path)]
        except KeyError:
            raise FileNotFoundError(2, "there is no such file", self.describe(path)) from None

    def _get_part(self, path: str, offset: int, length: int) -> bytes:
        return self._get(path)[offset : offset + length]

    def _names(self, directory: str) -> list[str]:
        parent = self.describe(directory).rstrip("/") + "/"
        return sorted({path[len(parent) :].split("/")[0] for path in self.files if path.startswith(parent)})

    def _remove(self, path: str) -> None:
        target = self.describe(path).rstrip("/")
        for each in [each for each in self.files if each == target or each.startswith(f"{target}/")]:
            del self.files[each]


class MemoryStores:
    """Opens stores by their location, as `runtime.checkpoint.storage.open_store` does; all see the same files.

    >>> from millstream.testing import MemoryStores
    >>> stores = MemoryStores()
    >>> ref = stores("/checkpoints/job").write("shared/1", b"state")
    >>> stores("/checkpoints").names("job/shared"), stores("/checkpoints/job").read(ref)
    (['1'], b'state')

    Attributes:
        files: Contents by path.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def __call__(self, location: str) -> MemoryStore:
        """Return the store at a location."""
        return MemoryStore(location, self.files)
