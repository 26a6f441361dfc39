"""Uploads: the one file in a body of `multipart/form-data` (RFC 7578)."""

from __future__ import annotations

from email.message import Message
from email.parser import BytesHeaderParser

from millstream.rest.errors import RestError

__all__ = ["is_multipart", "read_file"]

_MOST_HEADERS = 8_000


def is_multipart(content_type: str) -> bool:
    """Return whether a body of that type is a form with files."""
    return content_type.partition(";")[0].strip().lower() == "multipart/form-data"


def read_file(body: bytes, content_type: str) -> tuple[str, bytes]:
    r"""Return name and content of the file in a body; there has to be exactly one.

    Raises:
        RestError: 400 if there is none, or several, or the body is no such form.

    >>> body = b'--b\r\nContent-Disposition: form-data; name="jarfile"; filename="a.py"\r\n\r\npass\r\n--b--\r\n'
    >>> read_file(body, "multipart/form-data; boundary=b")
    ('a.py', b'pass')
    """
    boundary = _boundary(content_type)
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(parts) < 3 or not parts[-1].lstrip(b" \t").startswith(b"--"):
        raise RestError(400, "the form is not whole: its end is missing")
    files = [found for part in parts[1:-1] if (found := _file(part)) is not None]
    if len(files) != 1:
        raise RestError(400, f"one file is uploaded at a time; the form has {len(files)}")
    return files[0]


def _boundary(content_type: str) -> bytes:
    message = Message()
    try:
        message["content-type"] = content_type
        boundary = message.get_param("boundary")
    except ValueError:
        boundary = None
    if not isinstance(boundary, str) or not 1 <= len(boundary) <= 70 or not boundary.isascii():
        raise RestError(
            400,
            "a file is uploaded as a form, multipart/form-data with a boundary, as `curl -F jarfile=@job.py` does",
        )
    return boundary.encode()


def _file(part: bytes) -> tuple[str, bytes] | None:
    """Return name and content of a part; None if it is no file."""
    part = part.partition(b"\r\n")[2]  # behind the boundary there may be blanks
    head, found, content = part.partition(b"\r\n\r\n")
    if not found or len(head) > _MOST_HEADERS:
        raise RestError(400, "a part of the form has no head, or too long a one")
    headers = BytesHeaderParser().parsebytes(head + b"\r\n\r\n")
    name = headers.get_filename()
    return None if name is None else (name, content)
