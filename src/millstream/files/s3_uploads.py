"""Multipart uploads to S3: an object that appears when its upload is completed, by whoever knows the upload's id.

::

    begin(key) ─► id     upload(key, id, 1, …) … upload(key, id, n, …)     complete(key, id) ─► the object is there
                                                                            abort(key, id)    ─► nothing is
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any

from millstream.base.optional import load_package
from millstream.files.file_systems import S3Settings

__all__ = ["S3Uploads", "UploadStream"]

_PART_BYTES = 8 << 20
_MOST_PARTS = 10_000
_UNDER_WAY = 2
_THREADS = 4


class S3Uploads:
    """The multipart uploads of a bucket; any thread may call it.

    Args:
        settings: How to reach it.
        bucket: The bucket.

    Raises:
        ConfigurationError: If boto3 is not installed.
    """

    def __init__(self, settings: S3Settings, bucket: str) -> None:
        self._client = _client(settings)
        self._bucket = bucket
        self._errors = load_package("botocore.exceptions", extra="s3", what="Files in S3")

    def begin(self, key: str) -> str:
        """Begin an upload and return its id."""
        upload_id: str = self._call("create_multipart_upload", Key=key)["UploadId"]
        return upload_id

    def upload(self, key: str, upload_id: str, number: int, data: bytes) -> None:
        """Send a part; numbers are from 1."""
        self._call("upload_part", Key=key, UploadId=upload_id, PartNumber=number, Body=data)

    def complete(self, key: str, upload_id: str) -> None:
        """Make the object of all parts.

        Raises:
            FileNotFoundError: If there is no such upload: it was completed, or aborted.
        """
        parts = [
            {"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in self._parts(key, upload_id)
        ]
        if not parts:
            raise FileNotFoundError(key)
        self._call("complete_multipart_upload", Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts})

    def size(self, key: str, upload_id: str) -> int | None:
        """Return how many bytes all parts have; None if there is no such upload, or nothing in it."""
        try:
            sizes = [int(part["Size"]) for part in self._parts(key, upload_id)]
        except FileNotFoundError:
            return None
        # Some servers know no parts of an upload that is gone; one whose stream was closed has a part at least.
        return sum(sizes) if sizes else None

    def abort(self, key: str, upload_id: str) -> None:
        """Remove what was uploaded; nothing happens if there is no such upload."""
        try:
            self._call("abort_multipart_upload", Key=key, UploadId=upload_id)
        except FileNotFoundError:
            return

    def below(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield key and id of the uploads whose keys begin so."""
        markers: dict[str, str] = {}
        while True:
            page = self._call("list_multipart_uploads", Prefix=prefix, **markers)
            for upload in page.get("Uploads", ()):
                yield upload["Key"], upload["UploadId"]
            if not page.get("IsTruncated"):
                return
            markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _parts(self, key: str, upload_id: str) -> Iterator[dict[str, Any]]:
        marker: dict[str, int] = {}
        while True:
            page = self._call("list_parts", Key=key, UploadId=upload_id, **marker)
            yield from page.get("Parts", ())
            if not page.get("IsTruncated"):
                return
            marker = {"PartNumberMarker": page["NextPartNumberMarker"]}

    def _call(self, name: str, **arguments: Any) -> Any:
        """Ask; errors are as pyarrow's are, so that they are explained in one place (`files.refusals`)."""
        try:
            return getattr(self._client, name)(Bucket=self._bucket, **arguments)
        except self._errors.ClientError as error:
            code = error.response["Error"]["Code"]
            text = f"{_upper(code)}: {error.response['Error'].get('Message', '')}"
            raise (FileNotFoundError if code == "NoSuchUpload" else OSError)(text) from error
        except self._errors.BotoCoreError as error:
            raise OSError(f"NETWORK_CONNECTION: {error}") from error


def _upper(code: str) -> str:
    """Return the code of an error as Amazon's other libraries write it.

    >>> _upper("NoSuchBucket")
    'NO_SUCH_BUCKET'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", code).upper()


@lru_cache(maxsize=32)
def _client(settings: S3Settings) -> Any:
    """Return a client; kept, with its connections, for all of this process."""
    boto3 = load_package("boto3", extra="s3", what="Files in S3")
    config = load_package("botocore.config", extra="s3", what="Files in S3")
    endpoint = settings.endpoint
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    in_path = endpoint is not None and settings.path_style is not False
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=settings.region or "us-east-1",  # boto3 follows to another one
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
        aws_session_token=settings.session_token,
        config=config.Config(
            s3={"addressing_style": "path" if in_path else "auto"},
            connect_timeout=(settings.connection_timeout_ms or 0) / 1000 or None,
            read_timeout=(settings.socket_timeout_ms or 0) / 1000 or None,
            retries={"total_max_attempts": (settings.max_retries or 0) + 1, "mode": "standard"},
            # Servers of the protocol other than Amazon's do not all know the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="s3-upload")


class UploadStream:
    """A file that is written into an upload, part by part, beside whoever writes; one thread calls it.

    It is whole when it is closed, and there for nobody before the upload is completed.
    """

    def __init__(self, uploads: S3Uploads, key: str, upload_id: str) -> None:
        self._uploads = uploads
        self._key = key
        self._upload_id = upload_id
        self._waiting = bytearray()
        self._sent_bytes = 0
        self._number = 0
        self._under_way: deque[Future[None]] = deque()
        self.closed = False

    def write(self, data: Any) -> int:
        """Take bytes; waits where parts are sent more slowly than written.

        Raises:
            OSError: If a part could not be sent.
        """
        size = memoryview(data).nbytes
        self._waiting += data
        while len(self._waiting) >= self._part_bytes():
            self._send(self._part_bytes())
        return size

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._sent_bytes + len(self._waiting)

    def flush(self) -> None:
        """Nothing: parts have a least size."""

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Send the rest, and wait until all is there.

        Raises:
            OSError: If a part could not be sent.
        """
        if self.closed:
            return
        self.closed = True
        if self._waiting or not self._number:
            self._send(len(self._waiting))
        while self._under_way:
            self._under_way.popleft().result()

    def _part_bytes(self) -> int:
        """Return the size of the next part: larger for files that would have too many."""
        return _PART_BYTES << (self._number * 4 // _MOST_PARTS * 2)

    def _send(self, count: int) -> None:
        data = bytes(self._waiting[:count])
        del self._waiting[:count]
        self._sent_bytes += count
        self._number += 1
        while len(self._under_way) >= _UNDER_WAY:
            self._under_way.popleft().result()
        self._under_way.append(
            _threads().submit(self._uploads.upload, self._key, self._upload_id, self._number, data)
        )
