"""Which checkpoints have been written: a small file for each sink of a job, beside what is staged."""

from __future__ import annotations

import json
import os

from millstream.base.errors import SinkError
from millstream.files.durable import make_directories, write_file

__all__ = ["Ledger"]

_DIRECTORY = "written"


class Ledger:
    """What was written last of each sink; on the driver.

    Args:
        directory: Where what is staged waits.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, _DIRECTORY)

    def last(self, owner: str) -> tuple[int, ...]:
        """Return the order of the last checkpoint that was written; the empty one, before all others, if none was.

        Raises:
            SinkError: If the file cannot be read.
        """
        path = os.path.join(self._directory, owner)
        try:
            with open(path, encoding="utf-8") as file:
                return tuple(map(int, json.load(file)))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError) as error:
            raise SinkError(
                f"it cannot be seen which checkpoints were written: {path!r} cannot be read",
                detail=str(error),
                hint="Restore the file. Without it the rows of the last checkpoint are written again.",
            ) from error

    def note(self, owner: str, order: tuple[int, ...]) -> None:
        """Note that a checkpoint was written; durable when this returns.

        Raises:
            SinkError: If it cannot be.
        """
        path = os.path.join(self._directory, owner)
        try:
            make_directories(self._directory)
            write_file(path, json.dumps(order).encode())
        except OSError as error:
            raise SinkError(
                f"it could not be noted in {path!r} that Spark has written a checkpoint",
                detail=str(error),
                hint="Check the disk's free space and the directory's permissions. The rows of the checkpoint will be "
                "given to Spark again.",
            ) from error
