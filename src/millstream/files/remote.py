"""File systems of other machines, as pyarrow's: one way to open them for sources, sinks and checkpoints.

How to reach them is said in one place (`file_systems`), whatever is kept there::

    s3://  s3a://        pyarrow, with the options `s3.…`
    gs://                pyarrow, with the options `gs.…`
    abfs:// … wasbs://   pyarrow, with the options `fs.azure.…`
    hdfs://  viewfs://   hdfs-native, with Hadoop's configuration: no JVM
    others               whatever pyarrow has a file system for
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from millstream.base.errors import ConfigurationError
from millstream.files.cloud_settings import (
    AZURE_SCHEMES,
    CLOUD_SCHEMES,
    GCS_SCHEMES,
    AzureSettings,
    GcsSettings,
)
from millstream.files.file_systems import FileSystemSettings, S3Settings, current, parse_location

__all__ = [
    "HDFS_SCHEMES",
    "S3_SCHEMES",
    "arrow_fs",
    "azure",
    "check_hdfs",
    "check_pyarrow",
    "from_uri",
    "gcs",
    "hadoop_of",
    "is_without_bucket",
    "open_remote",
    "s3",
    "with_parameters",
    "without_parameters",
]

S3_SCHEMES = ("s3", "s3a")
HDFS_SCHEMES = ("hdfs", "viewfs")


def open_remote(location: str) -> tuple[Any, str]:
    """Return pyarrow's file system for a URI, and the path within it; both are kept for the next who asks.

    Raises:
        ConfigurationError: If a package is not installed, or the URI cannot be understood.
        OSError, ValueError: If there is no file system for the URI.
    """
    place = parse_location(location)
    if place.scheme in S3_SCHEMES:
        check_pyarrow("s3", 21)
        return s3(current().s3_for(place), place.authority), f"{place.authority}{place.path}"
    if place.scheme in GCS_SCHEMES:
        return gcs(current().gcs), f"{place.bucket}{place.path}"
    if place.scheme in AZURE_SCHEMES:
        return azure(current().azure_for(place), place.bucket), f"{place.bucket}{place.path}"
    if place.scheme in HDFS_SCHEMES:
        check_hdfs()
        return _hdfs(place.scheme, place.authority, hadoop_of(current())), place.path or "/"
    file_system, path = from_uri(location)
    return file_system, path


def is_without_bucket(location: str) -> bool:
    """Return whether a location in a cloud's store is in a bucket or container that is not there.

    Raises:
        OSError: If the server does not say.
    """
    place = parse_location(location)
    if place.scheme not in CLOUD_SCHEMES:
        return False
    file_system, _ = open_remote(location)
    return bool(file_system.get_file_info(place.bucket).type is arrow_fs().FileType.NotFound)


def without_parameters(location: str) -> str:
    """Return a path or URI as it may be shown and stored.

    Raises:
        ConfigurationError: If the URI cannot be understood.
    """
    place = parse_location(location)
    return str(place) if place.scheme in (*S3_SCHEMES, *CLOUD_SCHEMES) else location.rstrip("/")


def with_parameters(path: str, roots: Iterable[str]) -> str:
    """Return the path or URI of a file as it is opened, with the parameters of the URI that it was found by.

    Args:
        path: Without parameters.
        roots: Paths and URIs; one that is at or above the file counts, the longest of several.

    Raises:
        ConfigurationError: If a URI cannot be understood.
    """
    if "://" not in path:
        return path
    place = parse_location(path)
    above = [
        root
        for root in (parse_location(root) for root in roots if "://" in root)
        if root.authority == place.authority and f"{place.path}/".startswith(f"{root.path}/")
    ]
    if place.scheme not in S3_SCHEMES or not above:
        return path
    return replace(place, said=max(above, key=lambda root: len(root.path)).said).address


def arrow_fs() -> Any:
    """Return `pyarrow.fs`.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """
    check_pyarrow("parquet", 15)
    from pyarrow import fs  # slow to import, and optional

    return fs


def check_pyarrow(extra: str, least: int) -> None:
    """Check that pyarrow is there.

    Args:
        extra: What to install if it is not.
        least: Its first version that will do.

    Raises:
        ConfigurationError: If it is not there, or too old.
    """
    try:
        found = metadata.version("pyarrow")
    except metadata.PackageNotFoundError:
        found = ""
    if not found or int(found.partition(".")[0]) < least:
        raise ConfigurationError(
            "storage that is not a local directory needs the package pyarrow, "
            + (f"version {least} or newer; {found} is installed" if found else "which is not installed"),
            hint=f'Install the extra, where the driver runs and for the slots: pip install "millstream[{extra}]".',
        )


def check_hdfs() -> None:
    """Check that the client for HDFS is there.

    Raises:
        ConfigurationError: If it is not.
    """
    if importlib.util.find_spec("hdfs_native") is None:
        raise ConfigurationError(
            "storage in HDFS needs the package hdfs-native, which is not installed",
            hint='Install the extra, where the driver runs and for the slots: pip install "millstream[hdfs]".',
        )


@lru_cache(maxsize=32)
def from_uri(uri: str) -> Any:
    """Return what pyarrow makes of a URI: file system and path."""
    return arrow_fs().FileSystem.from_uri(uri)


@lru_cache(maxsize=32)
def s3(settings: S3Settings, bucket: str, *, in_one: bool = True) -> Any:
    """Return the file system; kept, with its connections, for all of this process.

    Args:
        settings: How to reach it.
        bucket: Whose region is looked up if it is not known.
        in_one: Whether what is written is sent with one request, not with three.
    """
    fs = arrow_fs()
    (scheme, endpoint), region = _parts(settings.endpoint), settings.region
    if region is None:
        region = "us-east-1" if endpoint is not None else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        access_key=settings.access_key,
        secret_key=settings.secret_key,
        session_token=settings.session_token,
        region=region,
        scheme=scheme,
        endpoint_override=endpoint,
        force_virtual_addressing=endpoint is not None and settings.path_style is False,
        connect_timeout=(settings.connection_timeout_ms or 0) / 1000,
        request_timeout=(settings.socket_timeout_ms or 0) / 1000,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=(settings.max_retries or 0) + 1),
        allow_delayed_open=in_one,
    )


@lru_cache(maxsize=32)
def gcs(settings: GcsSettings) -> Any:
    """Return Google's file system; kept, with its connections, for all of this process.

    Args:
        settings: How to reach it.

    Raises:
        ConfigurationError: If pyarrow is not installed, or credentials are named where it does not look for them.
    """
    check_pyarrow("gcs", 21)
    settings.check_key_file(os.environ)
    scheme, endpoint = _parts(settings.endpoint)
    token = settings.access_token
    return arrow_fs().GcsFileSystem(
        anonymous=settings.anonymous,
        access_token=token,
        # The server knows better when it ends.
        credential_token_expiration=None if token is None else datetime(2100, 1, 1, tzinfo=UTC),
        target_service_account=settings.service_account,
        scheme=scheme,
        endpoint_override=endpoint,
        project_id=settings.project,
        retry_time_limit=timedelta(seconds=max(settings.retry_timeout_ms // 1000, 1)),
    )


@lru_cache(maxsize=32)
def azure(settings: AzureSettings, container: str) -> Any:
    """Return the file system of a storage account; kept, with its connections, for all of this process.

    Args:
        settings: How to reach it.
        container: Asked for, where it is only known then whether a login succeeds.

    Raises:
        ConfigurationError: If pyarrow is not installed, or the account's key is no key.
        OSError: If the login fails.
    """
    check_pyarrow("azure", 26)
    scheme, blob = _parts(settings.endpoint)
    dfs_scheme, dfs = _parts(settings.dfs_endpoint)
    try:
        base64.b64decode(settings.key or "", validate=True)
    except binascii.Error:
        raise ConfigurationError(
            f'the key of the storage account "{settings.account}" is no key',
            detail="It has to be text in base64.",
            hint="Copy it anew, or give a shared access signature (fs.azure.sas.fixed.token).",
        ) from None
    file_system = arrow_fs().AzureFileSystem(
        settings.account,
        account_key=settings.key,
        sas_token=None if settings.key or not settings.sas_token else f"?{settings.sas_token.lstrip('?')}",
        client_id=settings.client_id,
        client_secret=settings.client_secret,
        tenant_id=settings.tenant,
        blob_storage_authority=blob,
        blob_storage_scheme=scheme if blob else None,
        dfs_storage_authority=dfs,
        dfs_storage_scheme=dfs_scheme if dfs else None,
    )
    if settings.key is None and settings.sas_token is None:
        _log_in(file_system, container)
    return file_system


def _log_in(file_system: Any, container: str) -> None:
    """Have a client log in now: what pyarrow raises of it is no `OSError`."""
    from pyarrow import ArrowException  # slow to import, and optional

    try:
        file_system.get_file_info(container)
    except OSError:
        return  # who logs in need not be allowed to look at a container
    except ArrowException as error:
        raise OSError(str(error)) from error


def _parts(endpoint: str | None) -> tuple[str, str | None]:
    """Return scheme and host of a server.

    >>> _parts("http://host:1/"), _parts("host:1"), _parts(None)
    (('http', 'host:1'), ('https', 'host:1'), ('https', None))
    """
    if endpoint is None or "://" not in endpoint:
        return "https", endpoint
    parts = urlsplit(endpoint)
    return parts.scheme, f"{parts.netloc}{parts.path.rstrip('/')}"


_PATIENCE = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "2000",
}
"""Hadoop's own are made for hours of waiting; a job that fails is started again, a checkpoint comes again."""


def hadoop_of(settings: FileSystemSettings) -> tuple[tuple[str, str], ...]:
    """Return Hadoop's configuration for a client."""
    return tuple(sorted((_PATIENCE | dict(settings.hadoop)).items()))


@lru_cache(maxsize=8)
def _hdfs(scheme: str, authority: str, hadoop: tuple[tuple[str, str], ...]) -> Any:
    from hdfs_native import fsspec  # optional

    kinds = {"hdfs": fsspec.HdfsFileSystem, "viewfs": fsspec.ViewfsFileSystem}
    host, _, port = authority.partition(":")
    file_system = kinds[scheme](host or None, int(port) if port else None, **dict(hadoop))
    fs = arrow_fs()
    return fs.PyFileSystem(fs.FSSpecHandler(file_system))
