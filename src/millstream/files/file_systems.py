"""How to reach file systems that are not local: servers and credentials, and who is told of them.

As in Flink, where file systems are set up once for a process, a store is opened by its location alone. What it needs
besides comes from here, the first that says it::

    parameters in a URI   >   options of the job (`s3.…`)   >   environment (AWS_…)   >   what the AWS SDK finds

(`gs.…` and `fs.azure.…` likewise, without parameters: see `cloud_settings`.)

A job's settings hold on its own thread (`using`), and in processes that belong to one job (`install`). Locations that
are shown or stored never hold parameters: `parse_location` takes them off. What a URI says holds for what is opened by
it, and what an option's URI says for the bucket, in this job; nothing of it stays in the process for others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from millstream.base.errors import ConfigurationError
from millstream.config import options_checkpointing, options_file_systems
from millstream.config.configuration import Configuration
from millstream.config.option_types import ConfigOption, OptionType
from millstream.files.cloud_settings import (
    AZURE_SCHEMES,
    CLOUD_SCHEMES,
    AzureAccounts,
    AzureSettings,
    GcsSettings,
    check_authority,
)
from millstream.files.private_files import Trust

__all__ = [
    "LOCATION_OPTIONS",
    "FileSystemSettings",
    "Location",
    "S3Settings",
    "current",
    "install",
    "parse_location",
    "using",
]

LOCATION_OPTIONS: Final = (
    options_checkpointing.CHECKPOINT_DIRECTORY,
    options_checkpointing.SAVEPOINT_DIRECTORY,
    options_checkpointing.HA_DIRECTORY,
    options_checkpointing.RECOVERY_PATH,
)
_S3_SCHEMES: Final = ("s3", "s3a")
_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach S3; None leaves it to others.

    Attributes:
        access_key: Who asks.
        secret_key: Its secret.
        session_token: Of temporary credentials.
        endpoint: Server, with or without scheme.
        region: Of the bucket.
        path_style: Whether the bucket stands in the path.
        connection_timeout_ms: For a connection to come about.
        socket_timeout_ms: Longest silence within a request.
        max_retries: How often a request is made again.
    """

    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    connection_timeout_ms: int | None = None
    socket_timeout_ms: int | None = None
    max_retries: int | None = None

    def over(self, other: S3Settings) -> S3Settings:
        """Return these settings, and `other`'s where these say nothing; credentials go together."""
        said = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}
        if self.access_key is not None:
            other = replace(other, secret_key=None, session_token=None)
        return replace(other, **said)

    @staticmethod
    def of_environment(environment: Mapping[str, str]) -> S3Settings:
        """Return what the variables of AWS say."""

        def first(*names: str) -> str | None:
            return next((environment[name] for name in names if environment.get(name)), None)

        return S3Settings(
            access_key=first("AWS_ACCESS_KEY_ID"),
            secret_key=first("AWS_SECRET_ACCESS_KEY"),
            session_token=first("AWS_SESSION_TOKEN"),
            endpoint=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            region=first("AWS_REGION", "AWS_DEFAULT_REGION"),
        )

    @staticmethod
    def of_parameters(parameters: Mapping[str, str], where: str) -> S3Settings:
        """Return what parameters of a URI say, under pyarrow's names.

        Args:
            parameters: Name and value.
            where: The URI, for messages.

        Raises:
            ConfigurationError: If there is one that has no meaning here.
        """
        known = {"access_key", "secret_key", "session_token", "region", "scheme", "endpoint_override"}
        others = sorted(parameters.keys() - known - {"force_virtual_addressing"})
        if others:
            raise ConfigurationError(
                f'location "{where}" has the parameter "{others[0]}"',
                detail="Understood are region, scheme, endpoint_override and force_virtual_addressing, and access "
                "key and secret as in s3://KEY:SECRET@bucket/path.",
            )
        endpoint = parameters.get("endpoint_override")
        if endpoint is not None and "://" not in endpoint and "scheme" in parameters:
            endpoint = f"{parameters['scheme']}://{endpoint}"
        virtual = parameters.get("force_virtual_addressing")
        return S3Settings(
            access_key=parameters.get("access_key"),
            secret_key=parameters.get("secret_key"),
            session_token=parameters.get("session_token"),
            endpoint=endpoint,
            region=parameters.get("region"),
            path_style=None if virtual is None else not OptionType.BOOLEAN.convert(virtual),
        )

    def to_parameters(self) -> dict[str, str]:
        """Return what `of_parameters` makes these settings of."""
        said = {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "session_token": self.session_token,
            "region": self.region,
            "endpoint_override": self.endpoint,
            "force_virtual_addressing": None if self.path_style is None else str(not self.path_style).lower(),
        }
        return {name: value for name, value in said.items() if value is not None}

    def scrub(self, text: str) -> str:
        """Return a text without the credentials that may be in it."""
        for secret in (self.secret_key, self.session_token, self.access_key):
            if secret and len(secret) > 5:  # shorter ones are words
                text = text.replace(secret, _HIDDEN)
        return text


@dataclass(frozen=True, slots=True)
class FileSystemSettings:
    """What a job knows of file systems.

    Attributes:
        s3: Options, and the environment of the process that submitted the job if it names a location in S3.
        buckets: What URIs among the options say, by bucket; of several the first one, checkpoints' before others.
        gcs: How to reach Google Cloud Storage.
        azure: Azure's storage accounts; with the environment likewise.
        hadoop: Keys of Hadoop's configuration.
        hdfs_timeout_ms: For one call.
        trust: Whose local files are read.
    """

    s3: S3Settings = field(default_factory=S3Settings)
    buckets: Mapping[str, S3Settings] = field(default_factory=dict)
    gcs: GcsSettings = field(default_factory=GcsSettings)
    azure: AzureAccounts = field(default_factory=AzureAccounts)
    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    hdfs_timeout_ms: int = options_file_systems.HDFS_TIMEOUT.default
    trust: Trust = field(default_factory=Trust)

    @staticmethod
    def of(configuration: Configuration, environment: Mapping[str, str]) -> FileSystemSettings:
        """Read the options.

        Args:
            configuration: Options.
            environment: Of this process. What AWS's variables say goes along to other processes of the job, but
                only if an option names a location in S3; so do Azure's.

        Raises:
            ConfigurationError: If a location is a URI that cannot be understood.
        """
        named = [location for option in LOCATION_OPTIONS if (location := configuration.get(option))]
        parsed = [parse_location(location) for location in named if "://" in location]
        buckets: dict[str, S3Settings] = {}
        for place in parsed:
            if place.said != S3Settings():
                buckets.setdefault(place.authority, place.said)
        s3 = _s3_options(configuration)
        if any(each.scheme in _S3_SCHEMES for each in parsed):
            s3 = s3.over(S3Settings.of_environment(environment))
        azure = AzureAccounts.of(configuration)
        if any(each.scheme in AZURE_SCHEMES for each in parsed):
            azure = azure.told(environment)
        prefix = options_file_systems.HADOOP_PREFIX
        return FileSystemSettings(
            s3=s3,
            buckets=buckets,
            gcs=GcsSettings.of(configuration),
            azure=azure,
            hadoop={
                key[len(prefix) :]: str(configuration.get(key))
                for key in configuration.key_set()
                if key.startswith(prefix)
            },
            hdfs_timeout_ms=configuration.get(options_file_systems.HDFS_TIMEOUT),
            trust=Trust.of(configuration.get(options_file_systems.TRUSTED_OWNERS)),
        )

    def s3_for(self, place: Location) -> S3Settings:
        """Return how to reach a place in S3."""
        said = place.said.over(self.buckets.get(place.authority, S3Settings()))
        return said.over(self.s3).over(S3Settings.of_environment(os.environ)).over(_DEFAULTS)

    def azure_for(self, place: Location) -> AzureSettings:
        """Return how to reach a place in Azure.

        Raises:
            ConfigurationError: If nobody says in which account it is.
        """
        return self.azure.settings_for(place.authority, os.environ)


def _s3_options(configuration: Configuration) -> S3Settings:
    def get(option: ConfigOption) -> Any:
        for key in options_file_systems.SPELLINGS.get(option.key, ()):
            if configuration.contains_key(key) and not configuration.contains_key(option.key):
                return option.convert(configuration.get(key))
        # What nobody set stays open: the environment may say it.
        return configuration.get(option) if configuration.contains_key(option.key) else None

    return S3Settings(
        access_key=get(options_file_systems.S3_ACCESS_KEY),
        secret_key=get(options_file_systems.S3_SECRET_KEY),
        session_token=get(options_file_systems.S3_SESSION_TOKEN),
        endpoint=get(options_file_systems.S3_ENDPOINT),
        region=get(options_file_systems.S3_REGION),
        path_style=get(options_file_systems.S3_PATH_STYLE),
        connection_timeout_ms=get(options_file_systems.S3_CONNECTION_TIMEOUT),
        socket_timeout_ms=get(options_file_systems.S3_SOCKET_TIMEOUT),
        max_retries=get(options_file_systems.S3_MAX_RETRIES),
    )


_DEFAULTS: Final = S3Settings(
    connection_timeout_ms=options_file_systems.S3_CONNECTION_TIMEOUT.default,
    socket_timeout_ms=options_file_systems.S3_SOCKET_TIMEOUT.default,
    max_retries=options_file_systems.S3_MAX_RETRIES.default,
)


# Locations


@dataclass(frozen=True, slots=True)
class Location:
    """A URI, taken apart.

    Attributes:
        scheme: As it was written.
        authority: Bucket, or host and port, or container@host in Azure; may be empty.
        path: Without a slash at the end; with one at the beginning if it is not empty.
        said: What its parameters say of S3.
    """

    scheme: str
    authority: str
    path: str
    said: S3Settings = field(default_factory=S3Settings)

    def __str__(self) -> str:
        """Return the URI, without parameters."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def bucket(self) -> str:
        """Bucket or container."""
        return self.authority.partition("@")[0]

    @property
    def address(self) -> str:
        """The URI with its parameters, in front of the path: never shown, nor stored."""
        parameters = urlencode(self.said.to_parameters(), quote_via=quote)
        return f"{self.scheme}://{self.authority}{'?' if parameters else ''}{parameters}{self.path}"


def parse_location(location: str) -> Location:
    """Take a URI apart.

    Parts of a path that somebody added behind the parameters belong to the path.

    >>> str(parse_location("s3a://KEY:SECRET@bucket/a?region=eu-west-1/chk-7/"))
    's3a://bucket/a/chk-7'

    Raises:
        ConfigurationError: If it cannot be understood; credentials in it are not repeated.
    """
    scheme, _, rest = location.partition("://")
    scheme = scheme.lower()
    if scheme in CLOUD_SCHEMES:
        check_authority(scheme, rest)
    rest, query = _cut_query(rest)
    authority, slash, path = rest.partition("/")
    path = re.sub(r"/{2,}", "/", f"{slash}{path}").rstrip("/")
    if scheme not in _S3_SCHEMES:
        return Location(scheme, authority, path)
    if (":" in authority and "@" not in authority) or not authority:
        raise ConfigurationError(
            f"a location that begins with {scheme}:// names no bucket",
            detail="What follows is not shown: it may hold credentials.",
            hint=f"Write {scheme}://bucket/path; in {scheme}://KEY:SECRET@bucket/path, a slash within the secret is "
            "%2F.",
        )
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    credentials, at, bucket = authority.rpartition("@")
    if at:
        key, _, secret = credentials.partition(":")
        parameters |= {"access_key": unquote(key), "secret_key": unquote(secret)}
    found = Location(scheme, bucket, path)
    return replace(found, said=S3Settings.of_parameters(parameters, str(found)))


def _cut_query(rest: str) -> tuple[str, str]:
    """Return a URI without its parameters, and those; what follows a slash behind them is path again."""
    before, mark, behind = rest.partition("?")
    if not mark:
        return rest, ""
    query, slash, more = behind.partition("/")
    return f"{before.rstrip('/')}{slash}{more}", query


# Who is told


_of_job: ContextVar[FileSystemSettings | None] = ContextVar("file_systems", default=None)
_installed: FileSystemSettings | None = None


def current() -> FileSystemSettings:
    """Return the settings of the job that this thread runs, else of the process, else of the command line."""
    settings = _of_job.get() or _installed
    if settings is None:
        settings = FileSystemSettings.of(Configuration.load(os.environ), os.environ)
    return settings


@contextmanager
def using(settings: FileSystemSettings) -> Iterator[None]:
    """Have settings hold on this thread."""
    token = _of_job.set(settings)
    try:
        yield
    finally:
        _of_job.reset(token)


def install(settings: FileSystemSettings) -> None:
    """Have settings hold for this whole process: it belongs to one job."""
    global _installed
    _installed = settings
