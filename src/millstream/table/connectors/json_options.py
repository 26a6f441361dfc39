"""Options of JSON that Flink's formats have and that have one value here, in files and in messages."""

from __future__ import annotations

from millstream.table.connectors.options import ConnectorOptions

__all__ = ["check_json_options"]

_VALUES = {
    "timestamp-format.standard": "sql",
    "encode.decimal-as-plain-number": "false",
    "encode.ignore-null-fields": "false",
    "map-null-key.mode": "fail",
    "map-null-key.literal": None,
}


def check_json_options(options: ConnectorOptions, before: str) -> None:
    """Check them.

    Args:
        options: Of the table.
        before: What stands before the options' keys, such as `json.`.

    Raises:
        NotSupportedError: If one has another value than the one that is here.
    """
    for key, value in _VALUES.items():
        options.only(before + key, value)
