"""Directories and files that are this user's and that nobody else can change.

What is unpickled or imported runs as code, so it must have been written by who reads it. Two rules, one for each
kind of place::

    <temporary directory>/millstream-<user>/…    nobody else can enter it: `private_directory`
    a place that the user named                  others may, so each file is looked at as it is opened: `open_own`

Names below the temporary directory can be guessed, so somebody else may have made one before: what is found there is
checked, never taken as it is, and never followed where it leads.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from millstream.base.errors import ConfigurationError, MillstreamError

__all__ = [
    "NotPrivateError",
    "Trust",
    "check_private",
    "create_own",
    "find_private",
    "open_own",
    "private_directory",
    "user_directory",
]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ANYTHING = stat.S_IRWXG | stat.S_IRWXO


class NotPrivateError(MillstreamError, PermissionError):
    """A directory or file that somebody else owns, or can change."""

    code = "NOT_PRIVATE"
    domain = "external"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose files are read, beside this user's own and root's.

    Attributes:
        users: Their numbers.
        everybody: Whether it is not looked who owns a file, and who can write it.
    """

    users: frozenset[int] = field(default_factory=frozenset)
    everybody: bool = False

    @staticmethod
    def of(text: str | None) -> Trust:
        """Read an option: names and numbers of users between commas, or an asterisk.

        >>> Trust.of("0, 1000").users == {0, 1000}, Trust.of("*").everybody
        (True, True)

        Raises:
            ConfigurationError: If there is no such user.
        """
        named = [each.strip() for each in (text or "").split(",") if each.strip()]
        if named == ["*"]:
            return Trust(everybody=True)
        return Trust(frozenset(map(_number_of, named)))


def _number_of(user: str) -> int:
    try:
        return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ConfigurationError(
            f'user "{user}", whose files are to be trusted, is not known on this host',
            hint="Give the user's number instead.",
        ) from None


def user_directory(*parts: str, base: str | Path | None = None) -> Path:
    """Return where files of this user lie; it need not exist.

    Args:
        parts: What is below the user's directory.
        base: Where that is; by default the system's directory of temporary files.
    """
    return Path(base or tempfile.gettempdir(), f"millstream-{os.geteuid()}", *parts)


def private_directory(*parts: str, base: str | Path | None = None) -> Path:
    """Return `user_directory`; make what is missing of it, for this user only.

    Raises:
        NotPrivateError: If something is there that is not for this user only.
        OSError: If it cannot be made.
    """
    for depth in range(len(parts) + 1):
        directory = user_directory(*parts[:depth], base=base)
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            check_private(directory)
    return directory


def find_private(*parts: str) -> Path | None:
    """Return `user_directory`, checked as `private_directory` does; None if there is none.

    Raises:
        NotPrivateError: If something is there that is not for this user only.
    """
    for depth in range(len(parts) + 1):
        directory = user_directory(*parts[:depth])
        try:
            check_private(directory)
        except FileNotFoundError:
            return None
    return directory


def check_private(directory: str | Path) -> None:
    """Check that a directory is for this user only.

    Raises:
        NotPrivateError: If it is not.
        FileNotFoundError: If there is none.
    """
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_ANYTHING:
        raise NotPrivateError(
            f'directory "{directory}" is not for this user only',
            detail=f"It is {_describe(found)}. Others could put there what this user's jobs run.",
            hint="Remove it, or set TMPDIR to a directory that only you can write.",
        )


def create_own(path: str | Path) -> BinaryIO:
    """Create a file that only this user can change; nothing that is there already is opened.

    Raises:
        FileExistsError: If there is something of that name.
        OSError: If it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o644), "wb")


def open_own(path: str | Path, trust: Trust = Trust()) -> BinaryIO:
    """Open a file for reading that only this user, root or who is trusted can have written.

    Args:
        path: The file; a symbolic link is not followed.
        trust: Who else.

    Raises:
        NotPrivateError: If others can have written it.
        OSError: If it cannot be opened.
    """
    # Non-blocking: somebody may have put a pipe there, whose opening would wait for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "a symbolic link") from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, _describe(found))
        owned = found.st_uid in (os.geteuid(), 0) or found.st_uid in trust.users
        if not trust.everybody and (not owned or found.st_mode & _OTHERS_WRITE):
            raise _refused(path, _describe(found))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refused(path: str | Path, what: str) -> NotPrivateError:
    return NotPrivateError(
        f'file "{path}" can have been written by somebody else',
        detail=f"It is {what}. What is read from it runs as code of the user {_name_of(os.geteuid())}.",
        hint="If you know where it comes from: chown it, and chmod go-w; or name whose files are to be read in "
        "millstream.storage.trusted-owners.",
    )


def _describe(found: os.stat_result) -> str:
    kind = {stat.S_IFREG: "a file", stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link"}
    named = kind.get(stat.S_IFMT(found.st_mode), "no regular file")
    return f"{named} of {_name_of(found.st_uid)} with mode {stat.S_IMODE(found.st_mode):03o}"


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
