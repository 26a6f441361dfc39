"""Where checkpoints are kept: directories of files that are written once and never changed.

A file is there completely or not at all: local files and those of HDFS are written beside their place, made durable
and renamed; object stores make an object visible when its upload ends. Each carries size and checksum in whatever
refers to it (`FileRef`), so a file that is missing, cut or altered is recognised when it is read::

    open_store ─► store_local    a path, file://
              ─► store_arrow    s3://, s3a:// and whatever else pyarrow has a file system for
              ─► store_clouds   gs://; abfs://, abfss://, wasb://, wasbs://
              ─► store_hdfs     hdfs://, viewfs://
"""

from __future__ import annotations

import re

from millstream.config.configuration import Configuration
from millstream.files.cloud_settings import AZURE_SCHEMES, GCS_SCHEMES
from millstream.files.file_systems import LOCATION_OPTIONS, current, parse_location
from millstream.files.remote import HDFS_SCHEMES, S3_SCHEMES
from millstream.files.store import Checksum, FileRef, FileStore, LocalCopy, PartlyRead, StoredFile, checksum
from millstream.files.store_arrow import ArrowStore, S3Store
from millstream.files.store_clouds import AzureStore, GcsStore
from millstream.files.store_hdfs import HdfsStore
from millstream.files.store_local import LocalStore

__all__ = [
    "Checksum",
    "FileRef",
    "FileStore",
    "LocalCopy",
    "PartlyRead",
    "StoredFile",
    "check_locations",
    "checksum",
    "open_store",
]


def open_store(location: str) -> FileStore:
    """Return the store at a path or URI; nothing is asked of a server yet.

    How to reach servers is taken from `files.file_systems` at this moment: the store may be used from any thread.

    Args:
        location: A path, `file://`, `s3://`, `s3a://`, `gs://`, `abfs://`, `hdfs://`, `viewfs://`, or
            whatever else pyarrow knows.

    Raises:
        ConfigurationError: If the URI cannot be understood, or a package is not installed.
    """
    local = re.sub(r"^file:(//)?", "", location)
    if not re.match(r"[a-zA-Z0-9+]+://", local):
        return LocalStore(local, current().trust)
    place = parse_location(location)
    if place.scheme in S3_SCHEMES:
        return S3Store(place, current().s3_for(place))
    if place.scheme in GCS_SCHEMES:
        return GcsStore(place, current().gcs)
    if place.scheme in AZURE_SCHEMES:
        return AzureStore(place, current().azure_for(place))
    if place.scheme in HDFS_SCHEMES:
        return HdfsStore(place, current())
    return ArrowStore(location.rstrip("/"))


def check_locations(configuration: Configuration) -> None:
    """Check that the stores that a job will need can be opened: before it runs, not at its first checkpoint.

    Raises:
        ConfigurationError: If a URI cannot be understood, or a package is not installed.
    """
    for option in LOCATION_OPTIONS:
        location = configuration.get(option)
        if location is not None:
            open_store(location)
