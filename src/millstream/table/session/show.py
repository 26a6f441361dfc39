"""SHOW and DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from millstream.base.errors import NotSupportedError
from millstream.table.catalog.catalog import CatalogView
from millstream.table.catalog.resolved import ResolvedTable
from millstream.table.catalog.text import create_table_text, create_view_text, options_text
from millstream.table.errors import ValidationError
from millstream.table.result import TableResult
from millstream.table.session.contents import partitions_of
from millstream.table.sql import statements_ast as st
from millstream.table.sql.unparse import quote_name, quote_text
from millstream.types.datatypes import DataType, VarCharType

if TYPE_CHECKING:
    from millstream.table.session.executor import StatementExecutor

__all__ = ["describe", "like_pattern", "show"]

_TEXT = VarCharType()
_BOOLEAN_TEXT = {True: "TRUE", False: "FALSE"}


def like_pattern(pattern: str, *, case_sensitive: bool = True) -> re.Pattern[str]:
    r"""Return what matches as LIKE does: `%` any text, `_` a character, `\` before them takes them as they are.

    >>> bool(like_pattern("a_c%").fullmatch("abcd"))
    True
    """
    parts = []
    escaped = False
    for character in pattern:
        if escaped or character not in "\\%_":
            parts.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    return re.compile("".join(parts), re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE)


def show(executor: StatementExecutor, statement: st.Show) -> TableResult:
    """Execute SHOW.

    Raises:
        ValidationError: If what is named is not there.
        NotSupportedError: If it is something that millstream does not have.
    """
    if statement.kind.startswith("CREATE "):
        return _show_create(executor, statement)
    if statement.kind == "COLUMNS":
        return _show_columns(executor, statement)
    reader = _LISTS.get(statement.kind)
    if reader is None:
        raise NotSupportedError(f"SHOW {statement.kind} is not in millstream yet")
    header, rows = reader(executor, statement)
    return TableResult.of_rows([(name, _TEXT) for name in header], _filtered(rows, statement))


def _filtered(rows: Iterable[Sequence[str]], statement: st.Show) -> list[Sequence[str]]:
    if statement.like is None:
        return list(rows)
    pattern = like_pattern(statement.like, case_sensitive=statement.case_sensitive)
    return [row for row in rows if bool(pattern.fullmatch(row[0])) != statement.negated]


_Listed = tuple[Sequence[str], Iterable[Sequence[str]]]


def _single(header: str, names: Iterable[str]) -> _Listed:
    return (header,), [(name,) for name in names]


def _place(executor: StatementExecutor, statement: st.Show) -> tuple[str, str]:
    manager = executor.catalogs
    if not statement.name:
        return manager.current_catalog, manager.current_database
    catalog, database = manager.qualify_database(statement.name)
    manager.catalog(catalog).check_database(catalog, database)
    return catalog, database


def _databases(executor: StatementExecutor, statement: st.Show) -> _Listed:
    manager = executor.catalogs
    name = statement.name[0] if statement.name else manager.current_catalog
    return _single("database name", sorted(manager.catalog(name).databases()))


def _procedures(executor: StatementExecutor, statement: st.Show) -> _Listed:
    catalog, database = _place(executor, statement)
    return _single("procedure name", sorted(executor.catalogs.catalog(catalog).procedures(database)))


def _functions(executor: StatementExecutor, _: st.Show) -> _Listed:
    return _single("function name", executor.function_names())


def _jobs(executor: StatementExecutor, _: st.Show) -> _Listed:
    return ("job id", "job name", "status", "start time"), executor.job_rows()


def _partitions(executor: StatementExecutor, statement: st.Show) -> _Listed:
    return _single("partition name", partitions_of(executor, statement.name, statement.partition))


_LISTS: dict[str, Callable[[StatementExecutor, st.Show], _Listed]] = {
    "CATALOGS": lambda executor, _: _single("catalog name", executor.catalogs.catalogs()),
    "CURRENT CATALOG": lambda executor, _: _single(
        "current catalog name", [executor.catalogs.current_catalog]
    ),
    "CURRENT DATABASE": lambda executor, _: _single(
        "current database name", [executor.catalogs.current_database]
    ),
    "DATABASES": _databases,
    "FULL MODULES": lambda executor, _: (
        ("module name", "used"),
        [(name, _BOOLEAN_TEXT[used]) for name, used in executor.modules],
    ),
    "FUNCTIONS": _functions,
    "FILES": lambda executor, _: _single("files", executor.files),
    "JARS": lambda executor, _: _single("jars", []),
    "JOBS": _jobs,
    "MODULES": lambda executor, _: _single("module name", [name for name, used in executor.modules if used]),
    "PARTITIONS": _partitions,
    "PROCEDURES": _procedures,
    "TABLES": lambda executor, statement: _single(
        "table name", executor.catalogs.names(*_place(executor, statement))
    ),
    "USER FUNCTIONS": lambda executor, _: _single("function name", executor.catalogs.user_functions()),
    "VIEWS": lambda executor, statement: _single(
        "view name", executor.catalogs.views(*_place(executor, statement))
    ),
}


# --- columns


def describe(executor: StatementExecutor, statement: st.Describe) -> TableResult:
    """Execute DESCRIBE.

    Raises:
        ValidationError: If what is named is not there.
        NotSupportedError: If it is something that millstream does not have.
    """
    manager = executor.catalogs
    pairs: list[tuple[str, str]]
    if statement.kind == "TABLE":
        return _columns_result(executor, statement.name)
    if statement.kind == "CATALOG":
        name = statement.name[0]
        catalog = manager.catalog(name)
        pairs = [("name", name), ("type", catalog.options.get("type", "")), ("comment", catalog.comment)]
        if statement.extended:
            extra = {key: value for key, value in catalog.options.items() if key != "type"}
            pairs += [(f"option:{key}", value) for key, value in sorted(extra.items())]
        return TableResult.of_rows([("info name", _TEXT), ("info value", _TEXT)], pairs)
    if statement.kind == "DATABASE":
        place, name = manager.qualify_database(statement.name)
        manager.catalog(place).check_database(place, name)
        database = manager.catalog(place).database(name)
        pairs = [("name", name), ("comment", database.comment)]
        if statement.extended:
            pairs += [(f"option:{key}", value) for key, value in sorted(database.properties.items())]
        return TableResult.of_rows([("info name", _TEXT), ("info value", _TEXT)], pairs)
    if statement.kind == "FUNCTION":
        return TableResult.of_rows(
            [("info name", _TEXT), ("info value", _TEXT)], executor.function_facts(statement.name)
        )
    rows = [row for row in executor.job_rows() if row[0] == statement.name[0]]
    if not rows:
        raise ValidationError(f'job "{statement.name[0]}" was not found', hint="SHOW JOBS lists them.")
    return TableResult.of_rows(
        [(name, _TEXT) for name in ("job id", "job name", "status", "start time")], rows
    )


_COLUMN_HEADER = ("name", "type", "null", "key", "extras", "watermark")


def _show_columns(executor: StatementExecutor, statement: st.Show) -> TableResult:
    return _columns_result(executor, statement.name, statement)


def _columns_result(
    executor: StatementExecutor, name: st.Name, statement: st.Show | None = None
) -> TableResult:
    entry = executor.catalogs.table(name)
    rows = (
        _view_columns(executor, entry) if isinstance(entry, CatalogView) else _table_columns(executor, entry)
    )
    header = list(_COLUMN_HEADER)
    if any(row[-1] for row in rows):
        header.append("comment")
    else:
        rows = [row[:-1] for row in rows]
    kept = rows if statement is None else _filtered(rows, statement)
    return TableResult.of_rows([(each, _TEXT) for each in header], kept)


def _table_columns(executor: StatementExecutor, table: ResolvedTable) -> list[tuple[str, ...]]:
    types = executor.column_types(table)
    key = f"PRI({', '.join(table.primary_key)})"
    rows: list[tuple[str, ...]] = []
    for column in table.columns:
        kind = types[column.name]
        watermark = ""
        shown = _shown(kind)
        if table.watermark is not None and table.watermark[0] == column.name:
            watermark = table.watermark_text
            shown += " *ROWTIME*" if executor.streaming else ""
        if column.kind == "computed" and column.expression_text.upper() in ("PROCTIME()", "`PROCTIME`()"):
            shown += " *PROCTIME*"
        extras = ""
        if column.kind == "computed":
            extras = f"AS {column.expression_text}"
        elif column.kind == "metadata":
            source = "" if column.metadata_key in ("", column.name) else f" FROM '{column.metadata_key}'"
            extras = f"METADATA{source}{' VIRTUAL' if column.virtual else ''}"
        is_key = key if column.name in table.primary_key else ""
        rows.append(
            (column.name, shown, _BOOLEAN_TEXT[kind.nullable], is_key, extras, watermark, column.comment)
        )
    return rows


def _view_columns(executor: StatementExecutor, view: CatalogView) -> list[tuple[str, ...]]:
    schema = executor.view_schema(view)
    rows: list[tuple[str, ...]] = []
    for place, (name, kind) in enumerate(zip(schema.names, schema.types, strict=True)):
        shown = _shown(kind)
        if place in schema.rowtime and executor.streaming:
            shown += " *ROWTIME*"
        if place in schema.proctime:
            shown += " *PROCTIME*"
        rows.append((name, shown, _BOOLEAN_TEXT[kind.nullable], "", "", "", ""))
    return rows


def _shown(kind: DataType) -> str:
    text = str(kind)
    return text if kind.nullable else text.removesuffix(" NOT NULL")


# --- SHOW CREATE


def _show_create(executor: StatementExecutor, statement: st.Show) -> TableResult:
    manager = executor.catalogs
    if statement.kind == "CREATE CATALOG":
        catalog = manager.catalog(statement.name[0])
        comment = f"\nCOMMENT {quote_text(catalog.comment)}" if catalog.comment else ""
        options = options_text(catalog.options)
        return _result(f"CREATE CATALOG {quote_name(statement.name[0])}{comment}\nWITH (\n{options}\n)\n")
    entry = manager.table(statement.name)
    is_view = isinstance(entry, CatalogView)
    if is_view != (statement.kind == "CREATE VIEW"):
        wanted = "VIEW" if is_view else "TABLE"
        raise ValidationError(
            f'"{entry.full_name}" is a {wanted.lower()}',
            hint=f"Write SHOW CREATE {wanted} {'.'.join(statement.name)}.",
        )
    if isinstance(entry, CatalogView):
        return _result(_view_text(executor, entry))
    return _result(create_table_text(entry))


def _result(text: str) -> TableResult:
    return TableResult.of_rows([("result", _TEXT)], [(text,)])


def _view_text(executor: StatementExecutor, view: CatalogView) -> str:
    if not view.text:
        raise NotSupportedError(f'view "{view.full_name}" comes from the Table API and has no text')
    return create_view_text(view, view.columns or executor.view_schema(view).names)
