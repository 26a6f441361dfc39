"""Properties of Flink's connectors for AWS: region, endpoint, and who one is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.base.optional import load_package

__all__ = ["AwsProperties"]

_HIDDEN = "******"
_SECRET = re.compile(r"accesskeyid|secretkey|sessiontoken|externalid", re.IGNORECASE)
_PROVIDER = "aws.credentials.provider"
_REGION, _ENDPOINT, _TRUST_ALL = "aws.region", "aws.endpoint", "aws.trust.all.certificates"
_DEFAULT_REGION = "us-east-1"
_ENVIRONMENT = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class AwsProperties(Mapping[str, str]):
    """Properties as a program gave them; keys, tokens and external ids are not shown.

    >>> AwsProperties({"aws.region": "eu-west-1", "aws.credentials.provider.basic.secretkey": "guess"})
    AwsProperties({'aws.region': 'eu-west-1', 'aws.credentials.provider.basic.secretkey': '******'})
    """

    def __init__(self, properties: Mapping[str, Any] | None = None) -> None:
        self._values = {str(key): _text(value) for key, value in (properties or {}).items()}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        shown = {key: _HIDDEN if _SECRET.search(key) else value for key, value in self._values.items()}
        return f"AwsProperties({shown})"

    @property
    def address(self) -> str:
        """Where the service is, for messages."""
        return self.get(_ENDPOINT) or f"AWS {self.get(_REGION, 'default region')}"

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret value is left."""
        secrets = {value for key, value in self._values.items() if _SECRET.search(key) and value}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return text

    def check(self) -> None:
        """See whether region and credentials are told in a way that can work.

        Raises:
            ConfigurationError: If a property is missing, or has a value that does not fit.
            NotSupportedError: If credentials come from where there is a JVM only.
        """
        if _REGION not in self and _ENDPOINT not in self:
            raise ConfigurationError(
                "no AWS region is named", hint='Set the property "aws.region", such as "eu-west-1".'
            )
        endpoint = self.get(_ENDPOINT, "")
        if endpoint and "://" not in endpoint:
            raise ConfigurationError(
                f'the property "aws.endpoint" is {endpoint!r}, which is no URL',
                hint="It begins with https:// or http://.",
            )
        self._check_provider(_PROVIDER)

    def open_client(self, service: str, *, extra: str, what: str, connections: int = 10) -> Any:
        """Return a client of boto3, without retries of its own; it is kept, with its connections, for this process.

        Args:
            service: As boto3 calls it: `kinesis`.
            extra: The extra that brings boto3.
            what: Who needs it, in the plural: `Kinesis sources and sinks`.
            connections: How many threads may use it at a time.

        Raises:
            ConfigurationError: If boto3 is missing, or a property does not fit.
        """
        return _client(self, service, extra, what, connections)

    def _new_client(self, service: str, extra: str, what: str, connections: int) -> Any:
        session_module = load_package("boto3.session", extra=extra, what=what)
        config = load_package("botocore.config", extra=extra, what=what)
        session = session_module.Session(botocore_session=self._session(_PROVIDER, extra, what))
        return session.client(
            service,
            region_name=self.get(_REGION, _DEFAULT_REGION),
            endpoint_url=self.get(_ENDPOINT) or None,
            verify=False if self.get(_TRUST_ALL, "").lower() == "true" else None,
            config=config.Config(
                connect_timeout=5,
                read_timeout=30,
                max_pool_connections=connections,
                retries={"total_max_attempts": 1},
            ),
        )

    def _provider(self, prefix: str) -> str:
        name = self.get(prefix, "").upper()
        if name:
            return name
        return "BASIC" if f"{prefix}.basic.accesskeyid" in self else "AUTO"

    def _check_provider(self, prefix: str) -> None:
        provider = self._provider(prefix)
        if provider in ("SYS_PROP", "CUSTOM"):
            raise NotSupportedError(
                f'the credentials provider {provider} ("{prefix}") belongs to a JVM',
                hint="Use BASIC, ENV_VAR, PROFILE, ASSUME_ROLE, WEB_IDENTITY_TOKEN or AUTO.",
            )
        if provider not in _NEEDED:
            raise ConfigurationError(
                f'the property "{prefix}" is {provider!r}',
                detail=f"It is one of {', '.join(sorted(_NEEDED))}.",
            )
        for name in _NEEDED[provider]:
            if not self.get(f"{prefix}.{name}"):
                raise ConfigurationError(
                    f'the property "{prefix}.{name}" is missing',
                    detail=f"The credentials provider is {provider}.",
                )
        if provider == "ASSUME_ROLE":
            self._check_provider(f"{prefix}.role.provider")

    def _session(self, prefix: str, extra: str, what: str) -> Any:
        """Return a session of botocore that knows who one is."""
        session = load_package("botocore.session", extra=extra, what=what).Session()
        provider = self._provider(prefix)
        if provider == "BASIC":
            session.set_credentials(
                self[f"{prefix}.basic.accesskeyid"],
                self[f"{prefix}.basic.secretkey"],
                self.get(f"{prefix}.basic.sessiontoken"),
            )
        elif provider == "ENV_VAR":
            self._take_environment(session)
        elif provider == "PROFILE":
            if f"{prefix}.profile.path" in self:
                session.set_config_variable("credentials_file", self[f"{prefix}.profile.path"])
            session.set_config_variable("profile", self.get(f"{prefix}.profile.name", "default"))
        elif provider in ("ASSUME_ROLE", "WEB_IDENTITY_TOKEN"):
            session._credentials = self._role(provider, prefix, extra, what)
        return session

    @staticmethod
    def _take_environment(session: Any) -> None:
        key, secret = map(os.environ.get, _ENVIRONMENT)
        if not key or not secret:
            raise ConfigurationError(
                f"the variables {' and '.join(_ENVIRONMENT)} are not set",
                detail="The credentials provider is ENV_VAR. They are needed here and where slots run.",
            )
        session.set_credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN"))

    def _role(self, provider: str, prefix: str, extra: str, what: str) -> Any:
        """Return credentials of a role, which are renewed before they expire."""
        credentials = load_package("botocore.credentials", extra=extra, what=what)
        base = self._session(f"{prefix}.role.provider", extra, what)
        region = self.get(_REGION, _DEFAULT_REGION)
        endpoint = self.get(f"{prefix}.role.stsEndpoint")

        def new_client(name: str, **arguments: Any) -> Any:
            return base.create_client(name, **{"region_name": region, "endpoint_url": endpoint, **arguments})

        more = {"RoleSessionName": self.get(f"{prefix}.role.sessionName", "millstream")}
        arn = self[f"{prefix}.role.arn"]
        if provider == "ASSUME_ROLE":
            if f"{prefix}.role.externalId" in self:
                more["ExternalId"] = self[f"{prefix}.role.externalId"]
            fetcher = credentials.AssumeRoleCredentialFetcher(
                new_client, base.get_credentials(), arn, extra_args=more
            )
        else:
            loader = load_package("botocore.utils", extra=extra, what=what).FileWebIdentityTokenLoader(
                self[f"{prefix}.webIdentityToken.file"]
            )
            fetcher = credentials.AssumeRoleWithWebIdentityCredentialFetcher(
                new_client, loader, arn, extra_args=more
            )
        return credentials.DeferredRefreshableCredentials(
            method="assume-role", refresh_using=fetcher.fetch_credentials
        )


_NEEDED: dict[str, tuple[str, ...]] = {
    "AUTO": (),
    "BASIC": ("basic.accesskeyid", "basic.secretkey"),
    "ENV_VAR": (),
    "PROFILE": (),
    "ASSUME_ROLE": ("role.arn",),
    "WEB_IDENTITY_TOKEN": ("role.arn", "webIdentityToken.file"),
}


@lru_cache(maxsize=32)
def _client(properties: AwsProperties, service: str, extra: str, what: str, connections: int) -> Any:
    """Return a client; any thread may use it, and to make one takes long."""
    return properties._new_client(service, extra, what, connections)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
