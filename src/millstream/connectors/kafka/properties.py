"""Kafka's properties as Java programs give them, and what librdkafka calls the same.

Most names are the same. The others are renamed, taken apart (`sasl.jaas.config`), ignored because they mean nothing
here (serializers: the schema of the source or sink does that), or refused because records would not be what the
program asks for (a partitioner in Java, a key store that librdkafka cannot read).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from millstream.base.errors import ConfigurationError

__all__ = ["ClientKind", "KafkaProperties", "translate"]

ClientKind = Literal["producer", "consumer", "admin"]

HIDDEN = "******"

_SECRET = re.compile(r"password|secret|jaas|token$|credential|\.key(\.pem)?$|certificate\.key", re.IGNORECASE)
_LOGIN = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*$", re.DOTALL)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.clientId": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.clientSecret": "sasl.oauthbearer.client.secret",
}

_SCHEMA = "the schema of the source or sink makes the bytes"
_JVM = "it is about objects of a JVM"
_OWN = "millstream decides this itself"
_IGNORED = {
    "key.serializer": _SCHEMA,
    "value.serializer": _SCHEMA,
    "key.deserializer": _SCHEMA,
    "value.deserializer": _SCHEMA,
    "metric.reporters": _JVM,
    "metrics.num.samples": _JVM,
    "metrics.recording.level": _JVM,
    "metrics.sample.window.ms": _JVM,
    "auto.include.jmx.reporter": _JVM,
    "enable.metrics.push": _JVM,
    "security.providers": _JVM,
    "ssl.provider": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.engine.factory.class": _JVM,
    "sasl.login.class": _JVM,
    "ssl.protocol": "OpenSSL chooses the newest version that both sides have",
    "ssl.enabled.protocols": "OpenSSL chooses the newest version that both sides have",
    "partition.assignment.strategy": "splits are assigned by the job",
    "max.poll.records": "the size of batches follows from epochs",
    "exclude.internal.topics": "no pattern matches internal topics",
    "max.block.ms": "delivery.timeout.ms bounds how long a record waits",
    "partitioner.ignore.keys": "the partitioner of librdkafka goes by keys",
    "partitioner.adaptive.partitioning.enable": "librdkafka has none",
    "partitioner.availability.timeout.ms": "librdkafka has none",
    "default.api.timeout.ms": "each call has its own",
    "metadata.max.idle.ms": "librdkafka forgets topics by itself",
    "metadata.recovery.rebootstrap.trigger.ms": "librdkafka has its own",
    "enable.auto.commit": _OWN,
    "auto.commit.interval.ms": _OWN,
    "transactional.id": _OWN,
    "delivery.report.only.error": _OWN,
    "flink.disable-metrics": _JVM,
    "register.consumer.metrics": _JVM,
    "register.producer.metrics": _JVM,
}

_REFUSED = {
    "partitioner.class": "Give the serialization schema's builder a function: set_partitioner(...).",
    "interceptor.classes": "Do what they do in a map function, before the sink or behind the source.",
    "sasl.client.callback.handler.class": "Use sasl.jaas.config with user name and password, or OAuth by its URL.",
}

# What only one kind of client has; librdkafka warns where another is given it.
_ONLY = {
    "producer": {
        "acks", "request.required.acks", "linger.ms", "queue.buffering.max.ms", "batch.size", "batch.num.messages",
        "compression.type", "compression.codec", "compression.level", "retries", "message.send.max.retries",
        "enable.idempotence", "delivery.timeout.ms", "message.timeout.ms", "transaction.timeout.ms", "buffer.memory",
        "queue.buffering.max.messages", "queue.buffering.max.kbytes", "partitioner", "retry.backoff.ms",
        "retry.backoff.max.ms", "sticky.partitioning.linger.ms",
    },
    "consumer": {
        "group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "auto.offset.reset",
        "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.wait.max.ms", "fetch.queue.backoff.ms",
        "fetch.error.backoff.ms", "max.partition.fetch.bytes", "isolation.level", "session.timeout.ms",
        "heartbeat.interval.ms", "max.poll.interval.ms", "check.crcs", "queued.min.messages",
        "queued.max.messages.kbytes", "enable.partition.eof",
    },
}  # fmt: skip


class KafkaProperties(Mapping[str, str]):
    """Properties as a program gave them; what is secret among them is not shown.

    >>> KafkaProperties({"acks": "all", "sasl.password": "guess"})
    KafkaProperties({'acks': 'all', 'sasl.password': '******'})
    """

    def __init__(self, properties: Mapping[str, Any] | None = None) -> None:
        self._values = {str(key): _text(value) for key, value in (properties or {}).items()}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {key: HIDDEN if _SECRET.search(key) else value for key, value in self._values.items()}
        return f"KafkaProperties({shown})"

    def updated(self, properties: Mapping[str, Any]) -> KafkaProperties:
        """Return a copy in which some have other values."""
        return KafkaProperties({**self._values, **properties})

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret value is left."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _secrets(self) -> set[str]:
        secrets = {value for key, value in self._values.items() if _SECRET.search(key)}
        login = _LOGIN.match(self._values.get("sasl.jaas.config", ""))
        if login:
            secrets |= {value for key, value in _options(login[2]).items() if _SECRET.search(key)}
        return {secret for secret in secrets if secret}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def translate(properties: Mapping[str, str], kind: ClientKind) -> tuple[dict[str, Any], dict[str, str]]:
    """Return librdkafka's configuration for one kind of client, and what was ignored with the reason.

    Names that neither Kafka nor this table knows are passed on: librdkafka has properties of its own.

    Raises:
        ConfigurationError: If a property asks for what librdkafka cannot do.
    """
    config: dict[str, Any] = {}
    ignored: dict[str, str] = {}
    foreign = set().union(*(names for owner, names in _ONLY.items() if owner != kind))
    for key, value in properties.items():
        if key in _REFUSED:
            raise ConfigurationError(
                f"Kafka's property {key!r} names Java classes, which are not there", hint=_REFUSED[key]
            )
        if key in _IGNORED:
            ignored[key] = _IGNORED[key]
        elif key in _CONVERSIONS:
            _CONVERSIONS[key](value, properties, kind, config)
        elif key not in foreign:
            config[_RENAMED.get(key, key)] = value
    return config, ignored


Conversion = Callable[[str, Mapping[str, str], ClientKind, dict[str, Any]], None]


def _log_in(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    """Take `sasl.jaas.config` apart: `….PlainLoginModule required username="u" password="p";`."""
    match = _LOGIN.match(value)
    if match is None:
        raise ConfigurationError(
            "Kafka's property 'sasl.jaas.config' does not parse",
            detail="Its value is not shown: it may hold a password.",
            hint='It looks like: org.apache.kafka.common.security.plain.PlainLoginModule required username="…" '
            'password="…";',
        )
    module, options = match[1].rpartition(".")[2], _options(match[2])
    if module in ("PlainLoginModule", "ScramLoginModule"):
        config["sasl.username"] = options.get("username", "")
        config["sasl.password"] = options.get("password", "")
    elif module == "Krb5LoginModule":
        for option, name in (("keyTab", "sasl.kerberos.keytab"), ("principal", "sasl.kerberos.principal")):
            if option in options:
                config[name] = options[option]
    elif module == "OAuthBearerLoginModule":
        config["sasl.oauthbearer.method"] = "oidc"
        for option, name in (
            ("clientId", "sasl.oauthbearer.client.id"),
            ("clientSecret", "sasl.oauthbearer.client.secret"),
            ("scope", "sasl.oauthbearer.scope"),
        ):
            if option in options:
                config[name] = options[option]
    else:
        raise ConfigurationError(
            f"login module {module!r} of 'sasl.jaas.config' is not supported",
            hint="Use PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule or Krb5LoginModule.",
        )


def _options(text: str) -> dict[str, str]:
    """Return the options of a login module.

    >>> _options('username="u" password="a\\\\"b";')
    {'username': 'u', 'password': 'a"b'}
    """
    return {
        match[1]: re.sub(r"\\(.)", r"\1", next(each for each in match.groups()[1:] if each is not None))
        for match in _OPTION.finditer(text)
    }


def _trust(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    if _store_type("ssl.truststore", value, properties) != "PEM":
        raise ConfigurationError(
            f"trust store {value!r} is a Java key store, which librdkafka does not read",
            hint="Export its certificates (keytool -exportcert -rfc), and set ssl.truststore.type=PEM.",
        )
    config["ssl.ca.location"] = value


def _identify(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    form = _store_type("ssl.keystore", value, properties)
    if form == "PEM":  # key and certificates in one file
        config["ssl.key.location"] = config["ssl.certificate.location"] = value
    elif form == "PKCS12":
        config["ssl.keystore.location"] = value
        if "ssl.keystore.password" in properties:
            config["ssl.keystore.password"] = properties["ssl.keystore.password"]
    else:
        raise ConfigurationError(
            f"key store {value!r} is a Java key store, which librdkafka does not read",
            hint="Convert it (keytool -importkeystore -deststoretype PKCS12), and set ssl.keystore.type=PKCS12.",
        )


def _store_type(which: str, path: str, properties: Mapping[str, str]) -> str:
    by_name = {"pem": "PEM", "crt": "PEM", "cer": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}
    return properties.get(f"{which}.type", by_name.get(path.rpartition(".")[2].lower(), "JKS")).upper()


def _check_host(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    config["ssl.endpoint.identification.algorithm"] = value or "none"


def _buffer(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    if kind == "producer":
        config["queue.buffering.max.kbytes"] = str(max(int(value) // 1024, 1))


def _request_timeout(
    value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]
) -> None:
    config["request.timeout.ms" if kind == "producer" else "socket.timeout.ms"] = value


def _socket_buffer(name: str) -> Conversion:
    def convert(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
        if value != "-1":  # the system's own
            config[name] = value

    return convert


def _callback(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    if not value.endswith("OAuthBearerLoginCallbackHandler"):
        raise ConfigurationError(
            f"Kafka's property 'sasl.login.callback.handler.class' names the Java class {value!r}, which is not there",
            hint="OAuth works by sasl.oauthbearer.token.endpoint.url with client id and secret.",
        )
    config["sasl.oauthbearer.method"] = "oidc"


def _drop(value: str, properties: Mapping[str, str], kind: ClientKind, config: dict[str, Any]) -> None:
    """Leave out what another property's conversion reads."""


_CONVERSIONS: dict[str, Conversion] = {
    "sasl.jaas.config": _log_in,
    "sasl.login.callback.handler.class": _callback,
    "ssl.truststore.location": _trust,
    "ssl.truststore.type": _drop,
    "ssl.truststore.password": _drop,
    "ssl.keystore.location": _identify,
    "ssl.keystore.type": _drop,
    "ssl.keystore.password": _drop,
    "ssl.endpoint.identification.algorithm": _check_host,
    "buffer.memory": _buffer,
    "request.timeout.ms": _request_timeout,
    "send.buffer.bytes": _socket_buffer("socket.send.buffer.bytes"),
    "receive.buffer.bytes": _socket_buffer("socket.receive.buffer.bytes"),
}
