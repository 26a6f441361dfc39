"""The options of a REST server, read once."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.base.errors import ConfigurationError
from millstream.config import options_rest as keys
from millstream.config.configuration import Configuration
from millstream.files.private_files import NotPrivateError, open_own

__all__ = ["RestSettings", "parse_ports"]

_RANGE = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Where a server listens, and who may ask.

    Attributes:
        bind_address: Address of the interface.
        ports: To be tried in this order; 0 for any that is free.
        address: Name or address under which clients find it, if it is not the one of the interface.
        token: What clients must know; None for nothing.
        hosts: More names that clients may use.
        certificate: File with the certificate chain, PEM; None for no TLS.
        private_key: File with its key, PEM; None if it is in the same file.
        private_key_password: Of the key.
    """

    bind_address: str = "localhost"
    ports: Sequence[int] = (8081,)
    address: str | None = None
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    certificate: str | None = None
    private_key: str | None = None
    private_key_password: str | None = field(default=None, repr=False)

    @staticmethod
    def of(configuration: Configuration) -> RestSettings:
        """Read the options.

        Raises:
            ConfigurationError: If they do not fit.
        """
        get = configuration.get
        ports = get(keys.REST_BIND_PORT)
        tls = get(keys.REST_SSL_ENABLED)
        certificate = get(keys.REST_SSL_CERTIFICATE)
        if tls and certificate is None:
            raise ConfigurationError(
                f"{keys.REST_SSL_ENABLED.key} is true, but there is no certificate",
                hint=f"Set {keys.REST_SSL_CERTIFICATE.key} to a PEM file, and {keys.REST_SSL_KEY.key}.",
            )
        address = get(keys.REST_ADDRESS)
        named = {
            name.strip().lower() for name in (get(keys.REST_ALLOWED_HOSTS) or "").split(",") if name.strip()
        }
        return RestSettings(
            bind_address=get(keys.REST_BIND_ADDRESS),
            ports=(get(keys.REST_PORT),) if ports is None else parse_ports(ports),
            address=address,
            token=_read_token(configuration),
            hosts=frozenset(named | ({address.lower()} if address else set())),
            certificate=certificate if tls else None,
            private_key=get(keys.REST_SSL_KEY) if tls else None,
            private_key_password=get(keys.REST_SSL_KEY_PASSWORD) if tls else None,
        )


def parse_ports(text: str) -> tuple[int, ...]:
    """Return the ports of a text such as `8081`, `50100-50200` or `8081,9000-9010`, as in Flink.

    Raises:
        ConfigurationError: If it is something else.

    >>> parse_ports("8081,9000-9002")
    (8081, 9000, 9001, 9002)
    """
    ports: list[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else -1
        last = int(match[2] or match[1]) if match else -1
        if not 0 <= first <= last <= 65_535:
            raise ConfigurationError(
                f'{keys.REST_BIND_PORT.key} is "{text}"',
                hint='Give a port, a range, or several: "8081", "50100-50200", "8081,9000-9010".',
            )
        ports.extend(range(first, last + 1))
    return tuple(dict.fromkeys(ports))


def _read_token(configuration: Configuration) -> str | None:
    token: str | None = configuration.get(keys.REST_TOKEN)
    path = configuration.get(keys.REST_TOKEN_FILE)
    if path is not None:
        try:
            with open_own(os.path.realpath(path)) as file:
                token = file.read().decode().strip()
        except NotPrivateError:
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f'{keys.REST_TOKEN_FILE.key} names "{path}", which cannot be read: {error}'
            ) from error
    if token is not None and (not token or not token.isascii()):
        raise ConfigurationError(
            "the token of the REST API is empty, or has characters that are not ASCII",
            hint="`openssl rand -hex 32` makes a good one.",
        )
    return token
