"""Options of Google Cloud Storage and Azure Blob Storage, under the keys of Flink's and Hadoop's file systems.

Keys of Google's may begin with `gs.` or `fs.gs.`. Keys of Azure's may end with an account, as in
`fs.azure.account.key.<account>.dfs.core.windows.net`, or with its first name alone; these come before those without.
"""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = [
    "AZURE_ACCOUNT",
    "AZURE_CLIENT_ENDPOINT",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_DFS_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_KEY",
    "AZURE_PREFIX",
    "AZURE_SAS_TOKEN",
    "CLOUD_OPTIONS",
    "GCS_ACCESS_TOKEN",
    "GCS_AUTH_TYPE",
    "GCS_ENDPOINT",
    "GCS_KEY_FILE",
    "GCS_PROJECT",
    "GCS_RETRY_TIMEOUT",
    "GCS_SERVICE_ACCOUNT",
]

AZURE_PREFIX: Final = "fs.azure."

GCS_ENDPOINT: Final = ConfigOption(
    "gs.storage.root.url",
    OptionType.STRING,
    None,
    "Server of Google Cloud Storage, such as http://host:4443. Without it Google's. As all keys that begin with gs., "
    "it may begin with fs.gs. as well.",
    fallback_keys=("fs.gs.storage.root.url",),
)
GCS_PROJECT: Final = ConfigOption(
    "gs.project.id",
    OptionType.STRING,
    None,
    "Project of Google Cloud. Without it: GOOGLE_CLOUD_PROJECT.",
    fallback_keys=("fs.gs.project.id",),
)
GCS_AUTH_TYPE: Final = ConfigOption(
    "gs.auth.type",
    OptionType.STRING,
    "APPLICATION_DEFAULT",
    "How to log in to Google Cloud Storage. APPLICATION_DEFAULT: as the host is set up, such as by the file that "
    "GOOGLE_APPLICATION_CREDENTIALS names. UNAUTHENTICATED: not at all.",
    choices=("APPLICATION_DEFAULT", "UNAUTHENTICATED"),
    fallback_keys=("fs.gs.auth.type",),
)
GCS_ACCESS_TOKEN: Final = ConfigOption(
    "gs.auth.access-token",
    OptionType.STRING,
    None,
    "OAuth token for Google Cloud Storage, instead of what the host is set up with. It is not renewed.",
    fallback_keys=("fs.gs.auth.access-token",),
)
GCS_SERVICE_ACCOUNT: Final = ConfigOption(
    "gs.auth.impersonation.service.account",
    OptionType.STRING,
    None,
    "Service account of Google Cloud to act as.",
    fallback_keys=("fs.gs.auth.impersonation.service.account",),
)
GCS_RETRY_TIMEOUT: Final = ConfigOption(
    "gs.retry.total-timeout",
    OptionType.DURATION,
    20_000,
    "How long a request to Google Cloud Storage is made again before it has failed; whole seconds.",
    fallback_keys=("fs.gs.retry.total-timeout",),
)
GCS_KEY_FILE: Final = "gs.auth.service.account.json.keyfile"
"""Hadoop's key for a file of credentials; pyarrow takes it by the environment only."""

AZURE_ACCOUNT: Final = ConfigOption(
    "fs.azure.account.name",
    OptionType.STRING,
    None,
    "Storage account of locations that name none, such as abfs://container/path. Without it: AZURE_STORAGE_ACCOUNT.",
)
AZURE_KEY: Final = ConfigOption(
    "fs.azure.account.key",
    OptionType.STRING,
    None,
    "Key of the storage account. Without key, token and client: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or "
    "whatever else Azure's SDK finds on the host. As all keys that begin with fs.azure., it may end with an account: "
    "fs.azure.account.key.ACCOUNT.dfs.core.windows.net or fs.azure.account.key.ACCOUNT.",
)
AZURE_SAS_TOKEN: Final = ConfigOption(
    "fs.azure.sas.fixed.token",
    OptionType.STRING,
    None,
    "Shared access signature for the storage account, instead of its key.",
)
AZURE_CLIENT_ID: Final = ConfigOption(
    "fs.azure.account.oauth2.client.id",
    OptionType.STRING,
    None,
    "Client of Microsoft Entra to log in as, instead of the account's key.",
)
AZURE_CLIENT_SECRET: Final = ConfigOption(
    "fs.azure.account.oauth2.client.secret", OptionType.STRING, None, "Secret of that client."
)
AZURE_CLIENT_ENDPOINT: Final = ConfigOption(
    "fs.azure.account.oauth2.client.endpoint",
    OptionType.STRING,
    None,
    "Where that client logs in: https://login.microsoftonline.com/TENANT/oauth2/token; the tenant alone will do.",
)
AZURE_ENDPOINT: Final = ConfigOption(
    "fs.azure.blob.endpoint",
    OptionType.STRING,
    None,
    "Server of Azure Blob Storage, such as http://host:10000 for an emulator. Without it Microsoft's.",
)
AZURE_DFS_ENDPOINT: Final = ConfigOption(
    "fs.azure.dfs.endpoint",
    OptionType.STRING,
    None,
    "Server of Azure Data Lake Storage. Without it: fs.azure.blob.endpoint if that is set, else Microsoft's.",
)

CLOUD_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    GCS_ENDPOINT,
    GCS_PROJECT,
    GCS_AUTH_TYPE,
    GCS_ACCESS_TOKEN,
    GCS_SERVICE_ACCOUNT,
    GCS_RETRY_TIMEOUT,
    AZURE_ACCOUNT,
    AZURE_KEY,
    AZURE_SAS_TOKEN,
    AZURE_CLIENT_ID,
    AZURE_CLIENT_SECRET,
    AZURE_CLIENT_ENDPOINT,
    AZURE_ENDPOINT,
    AZURE_DFS_ENDPOINT,
)
