"""Statements that make tables and views again, in Flink's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.table.catalog.catalog import CatalogView
from millstream.table.catalog.resolved import ResolvedTable, quoted
from millstream.table.sql.unparse import quote_name, quote_text, type_text

__all__ = ["create_table_text", "create_view_text", "options_text"]


def options_text(options: Mapping[str, str]) -> str:
    """Return options as they stand in WITH."""
    return ",\n".join(f"  {quote_text(key)} = {quote_text(value)}" for key, value in options.items())


def create_table_text(table: ResolvedTable) -> str:
    """Return the statement that makes a table, in Flink's form."""
    lines = []
    for column in table.columns:
        text = quote_name(column.name)
        if column.kind == "computed":
            text += f" AS {column.expression_text}"
        else:
            assert column.type is not None
            text += f" {type_text(column.type)}"
            if column.kind == "metadata":
                if column.metadata_key not in ("", column.name):
                    text += f" METADATA FROM {quote_text(column.metadata_key)}"
                else:
                    text += " METADATA"
                text += " VIRTUAL" if column.virtual else ""
        if column.comment:
            text += f" COMMENT {quote_text(column.comment)}"
        lines.append(f"  {text}")
    if table.watermark is not None:
        lines.append(f"  WATERMARK FOR {quote_name(table.watermark[0])} AS {table.watermark_text}")
    if table.primary_key:
        name = quote_name("PK_" + "_".join(table.primary_key))
        columns = ", ".join(map(quote_name, table.primary_key))
        lines.append(f"  CONSTRAINT {name} PRIMARY KEY ({columns}) NOT ENFORCED")
    temporary = "TEMPORARY " if table.temporary else ""
    text = f"CREATE {temporary}TABLE {quoted(table.identifier)} (\n" + ",\n".join(lines) + "\n)\n"
    if table.comment:
        text += f"COMMENT {quote_text(table.comment)}\n"
    if table.distribution:
        text += f"{table.distribution}\n"
    if table.partition_keys:
        text += f"PARTITIONED BY ({', '.join(map(quote_name, table.partition_keys))})\n"
    if table.options:
        text += f"WITH (\n{options_text(table.options)}\n)\n"
    return text


def create_view_text(view: CatalogView, names: Sequence[str] = ()) -> str:
    """Return the statement that makes a view.

    Args:
        view: The view.
        names: Of its columns; those it was given by default.
    """
    shown = names or view.columns
    columns = " (\n" + ",\n".join(f"  {quote_name(name)}" for name in shown) + "\n)" if shown else ""
    comment = f"\nCOMMENT {quote_text(view.comment)}" if view.comment else ""
    temporary = "TEMPORARY " if view.temporary else ""
    return f"CREATE {temporary}VIEW {quoted(view.identifier)}{columns}{comment}\nAS {view.text}\n"
