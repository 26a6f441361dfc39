"""How to reach Google Cloud Storage and Azure Blob Storage: what options and the environment say.

::

    gs://bucket/path
    abfs[s]://container@account.dfs.core.windows.net/path      wasb[s]://container@account.blob.core.windows.net/path
    abfs[s]://container/path                                   the account is told by an option
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from millstream.base.errors import ConfigurationError
from millstream.config import options_clouds
from millstream.config.configuration import Configuration
from millstream.config.option_types import ConfigOption

__all__ = [
    "AZURE_SCHEMES",
    "CLOUD_SCHEMES",
    "GCS_SCHEMES",
    "AzureAccounts",
    "AzureSettings",
    "GcsSettings",
    "check_authority",
]

GCS_SCHEMES: Final = ("gs", "gcs")
AZURE_SCHEMES: Final = ("abfs", "abfss", "wasb", "wasbs")
CLOUD_SCHEMES: Final = (*GCS_SCHEMES, *AZURE_SCHEMES)
_HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True)
class GcsSettings:
    """How to reach Google Cloud Storage.

    Attributes:
        endpoint: Server, with or without scheme; None for Google's.
        project: Of the buckets.
        anonymous: Whether not to log in.
        access_token: Of somebody who has logged in.
        service_account: Whom to act as.
        key_file: Credentials that an option of Hadoop's names.
        retry_timeout_ms: How long a request is made again.
    """

    endpoint: str | None = None
    project: str | None = None
    anonymous: bool = False
    access_token: str | None = field(default=None, repr=False)
    service_account: str | None = None
    key_file: str | None = None
    retry_timeout_ms: int = options_clouds.GCS_RETRY_TIMEOUT.default

    @staticmethod
    def of(configuration: Configuration) -> GcsSettings:
        """Read the options.

        Raises:
            ConfigurationError: If one of them has a value that does not fit.
        """
        key_file = options_clouds.GCS_KEY_FILE
        return GcsSettings(
            endpoint=configuration.get(options_clouds.GCS_ENDPOINT),
            project=configuration.get(options_clouds.GCS_PROJECT),
            anonymous=configuration.get(options_clouds.GCS_AUTH_TYPE).upper() == "UNAUTHENTICATED",
            access_token=configuration.get(options_clouds.GCS_ACCESS_TOKEN),
            service_account=configuration.get(options_clouds.GCS_SERVICE_ACCOUNT),
            key_file=configuration.get(key_file) or configuration.get(f"fs.{key_file}"),
            retry_timeout_ms=configuration.get(options_clouds.GCS_RETRY_TIMEOUT),
        )

    def check_key_file(self, environment: Mapping[str, str]) -> None:
        """Check that a file of credentials is where the client looks for it.

        Raises:
            ConfigurationError: If an option names one that the environment does not.
        """
        if self.key_file is not None and environment.get(_CREDENTIALS) != self.key_file:
            raise ConfigurationError(
                f'option "{options_clouds.GCS_KEY_FILE}" names a file that {_CREDENTIALS} does not',
                detail="The client for Google Cloud Storage takes the file from the environment alone.",
                hint=f"Set {_CREDENTIALS} for the driver, and on every host that runs the job.",
            )

    def scrub(self, text: str) -> str:
        """Return a text without the credentials that may be in it."""
        return _scrubbed(text, self.access_token)


_CREDENTIALS: Final = "GOOGLE_APPLICATION_CREDENTIALS"


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """How to reach one storage account; None leaves it to others.

    Attributes:
        account: Its name; empty if nobody says it.
        key: Its key.
        sas_token: A shared access signature, instead.
        client_id: Who logs in, instead.
        client_secret: Its secret.
        tenant: Where it is known.
        endpoint: Server of blobs, with or without scheme; begins with a dot where the account comes before it.
        dfs_endpoint: Server of the data lake, likewise.
    """

    account: str = ""
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    tenant: str | None = None
    endpoint: str | None = None
    dfs_endpoint: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody says how to log in."""
        return self.key is None and self.sas_token is None and self.client_id is None

    def scrub(self, text: str) -> str:
        """Return a text without the credentials that may be in it."""
        text = _scrubbed(text, self.key, self.sas_token, self.client_secret)
        return re.sub(r"(?<=[?&]sig=)[^&\s'\"]+", _HIDDEN, text)


@dataclass(frozen=True, slots=True)
class AzureAccounts:
    """What is known of storage accounts.

    Attributes:
        options: The options that begin with `fs.azure.`.
        fallback: What the environment of the process that submitted the job says.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    fallback: AzureSettings = field(default_factory=AzureSettings)

    @staticmethod
    def of(configuration: Configuration) -> AzureAccounts:
        """Read the options."""
        return AzureAccounts(
            {
                key: str(configuration.get(key))
                for key in configuration.key_set()
                if key.startswith(options_clouds.AZURE_PREFIX)
            }
        )

    def told(self, environment: Mapping[str, str]) -> AzureAccounts:
        """Return the same with what an environment says, for other processes of the job."""
        return replace(self, fallback=_of_environment(environment))

    def settings_for(self, authority: str, environment: Mapping[str, str]) -> AzureSettings:
        """Return how to reach an account.

        Args:
            authority: Of a location: a container, and the account's host behind an @ unless an option tells it.
            environment: Of this process.

        Raises:
            ConfigurationError: If nobody says which account it is.
        """
        others = (self.fallback, _of_environment(environment))
        host = authority.partition("@")[2]
        account = host.partition(".")[0] or self.options.get(options_clouds.AZURE_ACCOUNT.key, "")
        account = account or next((each.account for each in others if each.account), "")
        if not account:
            raise ConfigurationError(
                f'no storage account is known for the container "{authority}"',
                hint="Write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/path, or set "
                f"{options_clouds.AZURE_ACCOUNT.key} (AZURE_STORAGE_ACCOUNT).",
            )
        found = self._of_options(account)
        if found.is_open:
            known = next(
                (each for each in others if not each.is_open and each.account in ("", account)), found
            )
            found = replace(found, key=known.key, sas_token=known.sas_token)
        suffix = host.partition(".")[2]
        if found.endpoint is None and suffix and not suffix.endswith("core.windows.net"):
            suffix = re.sub(r"^(dfs|blob)\.", "", suffix)  # a cloud of its own, such as China's
            found = replace(
                found, endpoint=f".blob.{suffix}", dfs_endpoint=found.dfs_endpoint or f".dfs.{suffix}"
            )
        return found

    def _of_options(self, account: str) -> AzureSettings:
        def get(option: ConfigOption) -> str | None:
            for service in ("dfs", "blob"):
                for key in self.options:
                    if key.startswith(f"{option.key}.{account}.{service}."):
                        return self.options[key]
            return self.options.get(f"{option.key}.{account}") or self.options.get(option.key)

        endpoint = get(options_clouds.AZURE_CLIENT_ENDPOINT)
        tenant = re.sub(r"^https?://[^/]+/([^/]+).*", r"\1", endpoint) if endpoint else None
        return AzureSettings(
            account=account,
            key=get(options_clouds.AZURE_KEY),
            sas_token=get(options_clouds.AZURE_SAS_TOKEN),
            client_id=get(options_clouds.AZURE_CLIENT_ID),
            client_secret=get(options_clouds.AZURE_CLIENT_SECRET),
            tenant=tenant,
            endpoint=get(options_clouds.AZURE_ENDPOINT),
            dfs_endpoint=get(options_clouds.AZURE_DFS_ENDPOINT) or get(options_clouds.AZURE_ENDPOINT),
        )


def check_authority(scheme: str, rest: str) -> None:
    """Check what follows the scheme of a location.

    Args:
        scheme: One of `CLOUD_SCHEMES`.
        rest: All that follows `://`.

    Raises:
        ConfigurationError: If there is no bucket or container, or there are credentials or parameters; they are not
            repeated.
    """
    authority = rest.partition("/")[0]
    bucket, at, host = authority.partition("@")
    ours = scheme in AZURE_SCHEMES
    if not bucket or "?" in rest or ":" in bucket or (at and not (ours and re.fullmatch(r"[\w.:-]+", host))):
        form = (
            f"{scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/path" if ours else f"{scheme}://BUCKET/path"
        )
        options = "fs.azure." if ours else "gs."
        raise ConfigurationError(
            f"a location that begins with {scheme}:// is not understood",
            detail="What follows is not shown: it may hold credentials.",
            hint=f"Write {form}; options that begin with {options} say how it is reached.",
        )


def _of_environment(environment: Mapping[str, str]) -> AzureSettings:
    return AzureSettings(
        account=environment.get("AZURE_STORAGE_ACCOUNT", ""),
        key=environment.get("AZURE_STORAGE_KEY") or None,
        sas_token=None
        if environment.get("AZURE_STORAGE_KEY")
        else environment.get("AZURE_STORAGE_SAS_TOKEN"),
    )


def _scrubbed(text: str, *secrets: Any) -> str:
    for secret in secrets:
        if secret and len(secret) > 5:  # shorter ones are words
            text = text.replace(secret, _HIDDEN)
    return text
