"""What sources and sinks of MySQL and MariaDB know of the server and of PyMySQL."""

from __future__ import annotations

from typing import Any

__all__ = ["AWAY", "SSL_MODES", "ssl_arguments"]

AWAY = frozenset(
    {1021, 1040, 1041, 1053, 1077, 1079, 1081, 1114, 1129, 1158, 1159, 1160, 1161, 1203, 1226, 1927}
    | {2002, 2003, 2006, 2013, 2055, 3168, 4031}
)
"""Numbers of errors of a server that is away, or about to go, or has no room for now."""

_OFF = {"false", "disabled", "disable"}
_UNCHECKED = {"true", "required", "require", "trust"}
SSL_MODES = frozenset({*_OFF, *_UNCHECKED, "preferred", "verify_ca", "verify_identity", "verify_full"})
"""What may be said of encryption."""


def ssl_arguments(value: str) -> dict[str, Any]:
    """Return PyMySQL's arguments for one of `sslMode`, or for true and false."""
    mode = value.lower().replace("-", "_")
    if mode in _OFF:
        return {"ssl_disabled": True}
    if mode == "preferred":
        return {}
    if mode in _UNCHECKED:
        return {"ssl": {"check_hostname": False, "verify_mode": "none"}}
    return {"ssl_verify_cert": True, "ssl_verify_identity": mode not in ("verify_ca",)}
