"""Sees whether a cluster can be found, before Spark looks for it.

Spark tries for a minute, prints a hundred lines and ends its JVM, and the job then fails of that.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from millstream.base.clock import Clock
from millstream.base.errors import ConfigurationError, MillstreamError

__all__ = ["SparkMasterError", "check_hadoop_is_configured", "check_master_answers"]

_SCHEME = "spark://"
_HADOOP_VARIABLES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
_TIMEOUT_S = 5.0
_PAUSE_S = 0.25


class SparkMasterError(MillstreamError, ConnectionError):
    """No master of a standalone cluster answers."""

    code = "SPARK_MASTER"
    domain = "external"
    retryable = True


def check_hadoop_is_configured(environment: Mapping[str, str]) -> None:
    """See that YARN's configuration is there.

    Args:
        environment: Variables of the process.

    Raises:
        ConfigurationError: If no variable names a directory with it.
    """
    named = {name: environment[name] for name in _HADOOP_VARIABLES if environment.get(name)}
    if any(Path(directory).is_dir() for directory in named.values()):
        return
    seen = "; ".join(f"{name} is {directory!r}" for name, directory in named.items())
    raise ConfigurationError(
        'target "yarn" needs Hadoop\'s configuration, which is not there',
        detail=f"{seen}, which is no directory."
        if named
        else "Neither YARN_CONF_DIR nor HADOOP_CONF_DIR is set.",
        hint="Set one of them to the directory that has yarn-site.xml and core-site.xml of the cluster "
        "(often /etc/hadoop/conf).",
    )


def check_master_answers(url: str, clock: Clock) -> None:
    """Return when one of the masters accepts a connection.

    Args:
        url: `spark://host:port`, or several hosts and ports with commas between them.
        clock: Time.

    Raises:
        ConfigurationError: If the URL does not name hosts and ports.
        SparkMasterError: If none does within five seconds.
    """
    addresses = {each: _parse(each, url) for each in url.removeprefix(_SCHEME).split(",")}
    deadline = clock.monotonic() + _TIMEOUT_S
    while True:
        reasons = []
        for shown, address in addresses.items():
            try:
                socket.create_connection(address, timeout=_TIMEOUT_S).close()
            except OSError as error:
                reasons.append(f"{shown}: {error.strerror or error}")
            else:
                return
        if clock.monotonic() >= deadline:
            raise SparkMasterError(
                f'no Spark master answers at "{url}"',
                detail="; ".join(reasons),
                hint="Start it (start-master.sh), or check host and port: a master's log and its page tell its URL.",
            )
        clock.wait(_PAUSE_S)


def _parse(address: str, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(_SCHEME + address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise ConfigurationError(
            f'"{address}" in master "{url}" is no host and port',
            hint="Write spark://host:port; a master listens on port 7077 unless it was told otherwise.",
        )
    return host, port
