"""How the libraries of table formats reach object stores: the options `s3.…` of a job, under their names.

What a URI, the job's options and the environment say is put together in `files.file_systems`, as for all other files;
these are only other names for it. What a catalog says of its own store (credentials that it lends) comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from millstream.files.file_systems import S3Settings, current, parse_location
from millstream.files.remote import S3_SCHEMES

__all__ = ["addressed", "deltalake_options", "is_in_s3", "pyiceberg_properties"]

_PROPERTIES = {
    "access_key": "s3.access-key-id",
    "secret_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "endpoint": "s3.endpoint",
    "region": "s3.region",
}


def is_in_s3(location: str) -> bool:
    """Return whether a path or URI is of S3.

    >>> is_in_s3("s3a://bucket/t"), is_in_s3("/data/t")
    (True, False)
    """
    return location.partition("://")[0].lower() in S3_SCHEMES and "://" in location


def deltalake_options(location: str) -> dict[str, str] | None:
    """Return deltalake's storage options for a table.

    A commit is a conditional put: of two that make the same version S3 lets one through.

    Args:
        location: Of the table, a path or URI with what it says of how to reach it.

    Raises:
        ConfigurationError: If the URI cannot be understood.
    """
    if not is_in_s3(location):
        return None
    settings = current().s3_for(parse_location(location))
    endpoint = settings.endpoint
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    said = {
        "AWS_ACCESS_KEY_ID": settings.access_key,
        "AWS_SECRET_ACCESS_KEY": settings.secret_key,
        "AWS_SESSION_TOKEN": settings.session_token,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": settings.region or ("us-east-1" if endpoint is not None else None),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true" if settings.path_style is False else "false",
        "connect_timeout": f"{settings.connection_timeout_ms}ms" if settings.connection_timeout_ms else None,
        "timeout": f"{settings.socket_timeout_ms}ms" if settings.socket_timeout_ms else None,
        "max_retries": str(settings.max_retries or 0),
        "aws_conditional_put": "etag",
    }
    if endpoint is not None and urlsplit(endpoint).scheme == "http":
        said["AWS_ALLOW_HTTP"] = "true"
    return {name: value for name, value in said.items() if value is not None}


def pyiceberg_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a catalog, with what the job says of S3 where they say nothing.

    Args:
        properties: What the program says; its `warehouse` tells the bucket.

    Raises:
        ConfigurationError: If the warehouse is a URI that cannot be understood.
    """
    warehouse = properties.get("warehouse", "")
    settings = current().s3
    if is_in_s3(warehouse):
        place = parse_location(warehouse)
        settings = current().s3_for(place)
        properties = {**properties, "warehouse": str(place)}
    if properties.keys() & {"s3.access-key-id", "s3.secret-access-key", "s3.session-token"}:
        settings = replace(settings, access_key=None, secret_key=None, session_token=None)
    said = {key: value for name, key in _PROPERTIES.items() if (value := getattr(settings, name)) is not None}
    if settings.endpoint is not None and "://" not in settings.endpoint:
        said["s3.endpoint"] = f"https://{settings.endpoint}"
    if settings.endpoint is not None and settings.region is None:
        said["s3.region"] = "us-east-1"
    if settings.path_style is not None:
        said["s3.force-virtual-addressing"] = str(not settings.path_style).lower()
    if settings.connection_timeout_ms:
        said["s3.connect-timeout"] = str(settings.connection_timeout_ms / 1000)
    if settings.socket_timeout_ms:
        said["s3.request-timeout"] = str(settings.socket_timeout_ms / 1000)
    return {**said, **properties}


def addressed(location: str, properties: Mapping[str, str]) -> str:
    """Return the location of a table as files below it are opened: with what its catalog says of how to reach it.

    Args:
        location: A path or URI.
        properties: Of the table's files, as pyiceberg has them.

    Raises:
        ConfigurationError: If the URI cannot be understood.
    """
    if not is_in_s3(location):
        return location
    place = parse_location(location)
    said = S3Settings(
        access_key=properties.get("s3.access-key-id"),
        secret_key=properties.get("s3.secret-access-key"),
        session_token=properties.get("s3.session-token"),
        endpoint=properties.get("s3.endpoint"),
        region=properties.get("s3.region"),
    )
    virtual = properties.get("s3.force-virtual-addressing")
    if virtual is not None:
        said = replace(said, path_style=virtual.lower() != "true")
    return replace(place, said=place.said.over(said)).address
