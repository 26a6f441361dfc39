"""Options of the REST API: where it listens, and who may ask."""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = [
    "REST_ADDRESS",
    "REST_ALLOWED_HOSTS",
    "REST_BIND_ADDRESS",
    "REST_BIND_PORT",
    "REST_ENABLED",
    "REST_OPTIONS",
    "REST_PORT",
    "REST_SSL_CERTIFICATE",
    "REST_SSL_ENABLED",
    "REST_SSL_KEY",
    "REST_SSL_KEY_PASSWORD",
    "REST_SUBMIT",
    "REST_TOKEN",
    "REST_TOKEN_FILE",
    "REST_UPLOAD_BYTES",
]

REST_ENABLED: Final = ConfigOption(
    "millstream.rest.enabled",
    OptionType.BOOLEAN,
    None,
    "Whether a program that runs jobs serves the REST API for them. Without it: if rest.port or rest.bind-port is "
    "set.",
)
REST_PORT: Final = ConfigOption(
    "rest.port", OptionType.INTEGER, 8081, "Port of the REST API; 0 takes any that is free."
)
REST_BIND_PORT: Final = ConfigOption(
    "rest.bind-port",
    OptionType.STRING,
    None,
    "Ports of which the first that is free is taken: 50100-50200, or 8081,9000-9010. Without it: rest.port.",
)
REST_BIND_ADDRESS: Final = ConfigOption(
    "rest.bind-address",
    OptionType.STRING,
    "localhost",
    "Address on which the REST API listens; 0.0.0.0 for all of the host.",
)
REST_ADDRESS: Final = ConfigOption(
    "rest.address",
    OptionType.STRING,
    None,
    "Name or address under which clients find the REST API. Without it: rest.bind-address.",
)
REST_ALLOWED_HOSTS: Final = ConfigOption(
    "millstream.rest.allowed-hosts",
    OptionType.STRING,
    None,
    "More names that requests may have in their Host header, with commas between them. localhost, IP addresses, the "
    "host's name and rest.address always may.",
)
REST_TOKEN: Final = ConfigOption(
    "millstream.rest.token",
    OptionType.STRING,
    None,
    "Token that clients of the REST API must send (Authorization: Bearer). Without it: whoever can connect may ask.",
)
REST_TOKEN_FILE: Final = ConfigOption(
    "millstream.rest.token-file",
    OptionType.STRING,
    None,
    "File with that token; nobody else may be able to change it.",
)
REST_SSL_ENABLED: Final = ConfigOption(
    "security.ssl.rest.enabled", OptionType.BOOLEAN, False, "Whether the REST API speaks HTTPS."
)
REST_SSL_CERTIFICATE: Final = ConfigOption(
    "millstream.rest.ssl.certificate",
    OptionType.STRING,
    None,
    "File with the certificate of the REST API and those that signed it, PEM.",
)
REST_SSL_KEY: Final = ConfigOption(
    "millstream.rest.ssl.key",
    OptionType.STRING,
    None,
    "File with the certificate's private key, PEM. Without it: it is in the certificate's file.",
)
REST_SSL_KEY_PASSWORD: Final = ConfigOption(
    "millstream.rest.ssl.key-password", OptionType.STRING, None, "Password of the private key."
)

REST_SUBMIT: Final = ConfigOption(
    "web.submit.enable",
    OptionType.BOOLEAN,
    False,
    "Whether a cluster takes programs by its REST API and runs them (Flink: true). Whoever may ask then runs code as "
    "the cluster's user: set millstream.rest.token.",
)
REST_UPLOAD_BYTES: Final = ConfigOption(
    "millstream.rest.upload.max-bytes",
    OptionType.INTEGER,
    67_108_864,
    "How large an uploaded program may be, and all that is in an archive.",
)

REST_OPTIONS: Final = (
    REST_ENABLED,
    REST_PORT,
    REST_BIND_PORT,
    REST_BIND_ADDRESS,
    REST_ADDRESS,
    REST_ALLOWED_HOSTS,
    REST_TOKEN,
    REST_TOKEN_FILE,
    REST_SSL_ENABLED,
    REST_SSL_CERTIFICATE,
    REST_SSL_KEY,
    REST_SSL_KEY_PASSWORD,
    REST_SUBMIT,
    REST_UPLOAD_BYTES,
)
