"""Options of S3 and HDFS, where checkpoints may be kept; under Flink's keys.

Flink spells some keys in two ways, and so may users: see `SPELLINGS`.
"""

from __future__ import annotations

import re
from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = [
    "FILE_SYSTEM_OPTIONS",
    "HADOOP_PREFIX",
    "HDFS_TIMEOUT",
    "S3_ACCESS_KEY",
    "S3_CONNECTION_TIMEOUT",
    "S3_ENDPOINT",
    "S3_MAX_RETRIES",
    "S3_PATH_STYLE",
    "S3_REGION",
    "S3_SECRET_KEY",
    "S3_SESSION_TOKEN",
    "S3_SOCKET_TIMEOUT",
    "SPELLINGS",
    "TRUSTED_OWNERS",
    "is_secret",
]

HADOOP_PREFIX: Final = "flink.hadoop."
"""What follows it in a key is a key of Hadoop's configuration."""

S3_ACCESS_KEY: Final = ConfigOption(
    "s3.access-key",
    OptionType.STRING,
    None,
    "Access key of S3. Without it: AWS_ACCESS_KEY_ID, or whatever else the AWS SDK finds on the host. s3.access.key "
    "is the same.",
)
S3_SECRET_KEY: Final = ConfigOption(
    "s3.secret-key",
    OptionType.STRING,
    None,
    "Secret of that access key. Without it: AWS_SECRET_ACCESS_KEY. s3.secret.key is the same.",
)
S3_SESSION_TOKEN: Final = ConfigOption(
    "s3.session-token",
    OptionType.STRING,
    None,
    "Token that belongs to temporary credentials. Without it: AWS_SESSION_TOKEN.",
)
S3_ENDPOINT: Final = ConfigOption(
    "s3.endpoint",
    OptionType.STRING,
    None,
    "Server of S3, such as http://host:9000. Without it: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else Amazon's.",
)
S3_REGION: Final = ConfigOption(
    "s3.region",
    OptionType.STRING,
    None,
    "Region of the bucket. Without it: AWS_REGION, AWS_DEFAULT_REGION, else Amazon is asked. s3.endpoint.region is "
    "the same.",
)
S3_PATH_STYLE: Final = ConfigOption(
    "s3.path.style.access",
    OptionType.BOOLEAN,
    None,
    "Whether the bucket stands in the path of requests, not in the host's name. Without it: with an endpoint of "
    "your own. s3.path-style-access is the same.",
)
S3_CONNECTION_TIMEOUT: Final = ConfigOption(
    "s3.connection.timeout",
    OptionType.DURATION,
    5_000,
    "How long a connection to S3 may take to come about.",
)
S3_SOCKET_TIMEOUT: Final = ConfigOption(
    "s3.socket.timeout",
    OptionType.DURATION,
    10_000,
    "How long S3 may be silent before a request is given up.",
)
S3_MAX_RETRIES: Final = ConfigOption(
    "s3.retry.max-num-retries",
    OptionType.INTEGER,
    2,
    "How often a request to S3 is made again before it has failed.",
)
TRUSTED_OWNERS: Final = ConfigOption(
    "millstream.storage.trusted-owners",
    OptionType.STRING,
    None,
    "Users, by name or number and with commas between, whose files in local directories of checkpoints are read beside "
    "this user's own and root's: what is read runs as code. * for everybody's, also those that others can write, on "
    "file systems that know no owners.",
)
HDFS_TIMEOUT: Final = ConfigOption(
    "millstream.hdfs.timeout",
    OptionType.DURATION,
    20_000,
    "How long HDFS may take for one call, or for 4 MiB of a file, before it has failed.",
)

SPELLINGS: Final = {
    S3_ACCESS_KEY.key: ("s3.access.key",),
    S3_SECRET_KEY.key: ("s3.secret.key",),
    S3_REGION.key: ("s3.endpoint.region",),
    S3_PATH_STYLE.key: ("s3.path-style-access",),
}
"""Other keys of an option, by its own."""

FILE_SYSTEM_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    S3_ACCESS_KEY,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
    S3_ENDPOINT,
    S3_REGION,
    S3_PATH_STYLE,
    S3_CONNECTION_TIMEOUT,
    S3_SOCKET_TIMEOUT,
    S3_MAX_RETRIES,
    HDFS_TIMEOUT,
    TRUSTED_OWNERS,
)


def is_secret(key: str) -> bool:
    """Return whether an option's value is not to be shown.

    >>> [is_secret(key) for key in ("s3.access-key", "s3.secret.key", "flink.hadoop.x.password", "s3.region")]
    [True, True, True, False]
    >>> [is_secret(key) for key in ("fs.azure.account.key.a.dfs.core.windows.net", "fs.azure.sas.fixed.token.a")]
    [True, True]
    """
    return (
        re.search(
            r"secret|password|token|credential|(access|account)[-.]key|api-?key|exporter[.]headers",
            key,
            re.IGNORECASE,
        )
        is not None
    )
