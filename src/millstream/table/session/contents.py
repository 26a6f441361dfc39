"""Statements about what tables and catalogs hold: partitions, statistics, procedures, files of the session."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.config import options_python
from millstream.table.catalog.catalog import CatalogView, Statistics
from millstream.table.catalog.resolved import ResolvedTable
from millstream.table.catalog.statistics import CatalogColumnStatistics, CatalogTableStatistics
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.result import TableResult
from millstream.table.sql import ast
from millstream.table.sql import statements_ast as st
from millstream.table.sql.unparse import quote_name, quote_text
from millstream.types import datatypes as types

if TYPE_CHECKING:
    from millstream.table.session.executor import StatementExecutor

__all__ = ["alter_partitions", "analyze", "call", "change_files", "partitions_of", "truncate_table"]

Partition = Sequence[tuple[str, ast.Expression | None]]


# --- files of the session


def change_files(executor: StatementExecutor, statement: st.JarCommand) -> TableResult:
    """Execute ADD or REMOVE of files: what functions import is shipped with the session's next jobs.

    Raises:
        NotSupportedError: If they are jars.
        ConfigurationError: If a file that is added is not there.
        ValidationError: If a file that is removed was not added.
    """
    if statement.kind == "JAR":
        raise NotSupportedError(
            f"{statement.action} JAR '{statement.paths[0]}' is not possible: millstream runs no Java classes",
            hint="Connectors and formats are built in; write functions in Python (LANGUAGE PYTHON).",
        )
    for path in statement.paths:
        if statement.action == "REMOVE":
            if path not in executor.files:
                hint = did_you_mean(path, executor.files)
                raise ValidationError(f"file '{path}' was not added", at=statement.at, hint=hint)
            executor.files.remove(path)
            _forget_file(executor.environment._configuration, path)
            if _place(path) in sys.path and _place(path) not in map(_place, executor.files):
                sys.path.remove(_place(path))
        else:
            if not os.path.exists(path):
                raise ConfigurationError(
                    f"file '{path}' of ADD FILE was not found",
                    hint="Write its path from here, or an absolute one.",
                )
            executor.environment.add_python_file(path)
            executor.files.append(path)
            if _place(path) not in sys.path:  # CREATE FUNCTION imports it here
                sys.path.append(_place(path))
    return TableResult.ok()


def _place(path: str) -> str:
    """Return where Python finds what is in a file: its directory, or itself if it is a directory or an archive."""
    whole = os.path.abspath(path)
    return os.path.dirname(whole) if whole.endswith(".py") else whole


def _forget_file(configuration: Any, path: str) -> None:
    parts = (configuration.get(options_python.PYTHON_FILES) or "").split(",")
    if path in parts:
        parts.remove(path)
    configuration.set(options_python.PYTHON_FILES, ",".join(parts))


# --- partitions


def partitions_of(executor: StatementExecutor, name: st.Name, partition: Partition) -> list[str]:
    """Return the partitions of a table of files, `key=value/key=value`.

    Raises:
        ValidationError: If it has none.
    """
    from millstream.table.connectors.listing import list_partitions

    table = _partitioned(executor.catalogs.table(name))
    wanted = {key: value for key, value in _constants(table, partition).items() if value is not None}
    return list_partitions(table, wanted)


def _partitioned(entry: Any) -> ResolvedTable:
    if isinstance(entry, CatalogView) or not entry.partition_keys:
        raise ValidationError(f'"{entry.full_name}" is not partitioned')
    found: ResolvedTable = entry
    return found


def _constants(table: ResolvedTable, partition: Partition) -> dict[str, str | None]:
    """Return the values of PARTITION (...) as they are in names of directories; None without value."""
    found: dict[str, str | None] = {}
    for key, value in partition:
        if key not in table.partition_keys:
            raise ValidationError(
                f'"{key}" is no partition column of "{table.full_name}"',
                detail=f"They are: {', '.join(table.partition_keys)}.",
                hint=did_you_mean(key, table.partition_keys),
            )
        if value is not None and not isinstance(value, ast.LiteralValue):
            raise ValidationError(f'PARTITION has no constant for "{key}"', at=value.at)
        found[key] = None if value is None else str(value.value)
    return found


def alter_partitions(table: ResolvedTable, change: st.TableChange) -> None:
    """Make or remove the directories of partitions.

    Raises:
        ValidationError: If the table has no partitions, a value is missing, or a partition is there (not there).
    """
    from millstream.table.connectors.listing import partition_directory

    _partitioned(table)
    for partition in change.partitions:
        values = _constants(table, partition)
        missing = [key for key in table.partition_keys if values.get(key) is None]
        if missing:
            raise ValidationError(f'PARTITION has no value for "{missing[0]}"')
        directory = partition_directory(table, values)
        there = os.path.isdir(directory)
        name = "/".join(f"{key}={values[key]}" for key in table.partition_keys)
        if change.action == "ADD PARTITION":
            if there and not change.if_exists:
                raise ValidationError(
                    f'partition {name} of "{table.full_name}" exists already', hint="Write ADD IF NOT EXISTS."
                )
            os.makedirs(directory, exist_ok=True)
        elif there:
            shutil.rmtree(directory)
        elif not change.if_exists:
            raise ValidationError(
                f'partition {name} of "{table.full_name}" was not found', hint="SHOW PARTITIONS lists them."
            )


def truncate_table(executor: StatementExecutor, statement: st.Truncate) -> TableResult:
    """Execute TRUNCATE TABLE.

    Raises:
        ValidationError: If it is a view, or the session is not in batch mode.
        NotSupportedError: If the table is not of local files.
    """
    from millstream.table.connectors.listing import truncate

    entry = executor.catalogs.table(statement.name)
    if isinstance(entry, CatalogView):
        raise ValidationError(f'"{entry.full_name}" is a view', at=statement.at)
    if executor.streaming:
        raise ValidationError(
            "TRUNCATE TABLE needs batch mode", hint="SET 'execution.runtime-mode' = 'batch'."
        )
    truncate(entry)
    return TableResult.ok()


# --- statistics


def analyze(executor: StatementExecutor, statement: st.Analyze) -> TableResult:
    """Execute ANALYZE TABLE: count, and keep the numbers in the catalog for as long as the session lives.

    Raises:
        ValidationError: If it is a view, a column is not there, partition columns are not named, or the session is not
            in batch mode.
    """
    entry = executor.catalogs.table(statement.name)
    if isinstance(entry, CatalogView):
        raise ValidationError(f'"{entry.full_name}" is a view and has no statistics', at=statement.at)
    if executor.streaming:
        raise ValidationError(
            "ANALYZE TABLE needs batch mode",
            at=statement.at,
            detail="A stream is never counted to its end.",
            hint="SET 'execution.runtime-mode' = 'batch'.",
        )
    names = _analyzed_columns(entry, statement)
    catalog = executor.catalogs.catalog(entry.identifier[0])
    for partition, condition in _analyzed_parts(executor, entry, statement):
        catalog.statistics[entry.identifier[1], entry.name, partition] = _counted(
            executor, entry, names, condition
        )
    return TableResult.ok()


def _analyzed_columns(table: ResolvedTable, statement: st.Analyze) -> list[str]:
    physical = [column.name for column in table.physical]
    for name in statement.columns:
        if table.column(name) is None:
            raise ValidationError(
                f'table "{table.full_name}" has no column "{name}"', hint=did_you_mean(name, physical)
            )
        if name not in physical:
            raise ValidationError(f'column "{name}" is computed or metadata and has no statistics')
    return physical if statement.all_columns else list(statement.columns)


def _analyzed_parts(
    executor: StatementExecutor, table: ResolvedTable, statement: st.Analyze
) -> list[tuple[str, str]]:
    """Return for each part that is counted its name and the condition of its rows."""
    if not table.partition_keys:
        if statement.partition:
            _constants(table, statement.partition)
        return [("", "")]
    named = _constants(table, statement.partition)
    if set(named) != set(table.partition_keys):
        raise ValidationError(
            f'"{table.full_name}" is partitioned: all partition columns have to be named',
            at=statement.at,
            hint=f"Write PARTITION ({', '.join(table.partition_keys)}), some with = value.",
        )
    parts = []
    for partition in partitions_of(executor, statement.name, statement.partition):
        values = dict(part.split("=", 1) for part in partition.split("/"))
        tests = [
            f"CAST({quote_name(key)} AS STRING) = {quote_text(values[key])}" for key in table.partition_keys
        ]
        parts.append((partition, f" WHERE {' AND '.join(tests)}"))
    return parts


_SIZED = (types.VarCharType, types.VarBinaryType)
_ORDERED = (types.NumericType, types.DateType, types.TimeType, types.TimestampType)


def _measures(name: str, kind: Any) -> list[tuple[str, str]]:
    """Return what is counted of a column: name and expression."""
    column = quote_name(name)
    found = [("null_count", f"COUNT(*) - COUNT({column})")]
    if isinstance(kind, types.BooleanType):
        found += [
            ("true_count", f"COUNT(*) FILTER (WHERE {column})"),
            ("false_count", f"COUNT(*) FILTER (WHERE NOT {column})"),
        ]
    elif isinstance(kind, _ORDERED):
        found += [("ndv", f"COUNT(DISTINCT {column})"), ("min", f"MIN({column})"), ("max", f"MAX({column})")]
    elif isinstance(kind, _SIZED):
        length = "CHAR_LENGTH" if isinstance(kind, types.VarCharType) else "OCTET_LENGTH"
        found += [
            ("ndv", f"COUNT(DISTINCT {column})"),
            ("max_length", f"MAX({length}({column}))"),
            ("avg_length", f"AVG(CAST({length}({column}) AS DOUBLE))"),
        ]
    return found


def _counted(
    executor: StatementExecutor, table: ResolvedTable, names: Sequence[str], condition: str
) -> Statistics:
    from millstream.table.sql.parser import parse_query

    kinds = {column.name: column.type for column in table.physical}
    measures = [(name, *each) for name in names for each in _measures(name, kinds[name])]
    expressions = ", ".join(["COUNT(*)", *(expression for _, _, expression in measures)])
    full = ".".join(map(quote_name, table.identifier))
    result = executor.run_query(parse_query(f"SELECT {expressions} FROM {full}{condition}"))
    with result.collect() as rows:
        row = tuple(next(iter(rows)))
    columns: dict[str, dict[str, Any]] = {}
    for (name, measure, _), value in zip(measures, row[1:], strict=True):
        columns.setdefault(name, {})[measure] = value
    return CatalogTableStatistics(row[0]), CatalogColumnStatistics(columns)


# --- procedures


def call(executor: StatementExecutor, statement: st.Call) -> TableResult:
    """Execute CALL.

    Raises:
        ValidationError: If the procedure is not there, or an argument is no constant.
    """
    catalog, database, name = executor.catalogs.qualify(statement.name)
    keeper = executor.catalogs.catalog(catalog)
    known = keeper.procedures(database) if database in keeper.databases() else {}
    if name not in known:
        raise ValidationError(
            f'procedure "{".".join(statement.name)}" was not found',
            at=statement.at,
            detail=f"{catalog}.{database} has: {', '.join(sorted(known)) or 'no procedures'}.",
            hint=did_you_mean(name, list(known)),
        )
    values: list[Any] = []
    named: dict[str, Any] = {}
    for argument in statement.arguments:
        if isinstance(argument, ast.NamedArgument):
            named[argument.name] = _argument(executor, argument.value)
        else:
            values.append(_argument(executor, argument))
    return _listed(known[name](*values, **named))


def _argument(executor: StatementExecutor, expression: ast.Expression) -> Any:
    """Return the value of an argument: any expression without columns."""
    from millstream.table.plan.bind.expressions import ExpressionBinder, Extension, constant
    from millstream.table.plan.bind.scope import Scope

    binder = ExpressionBinder(executor.context(), Scope(), Extension("CALL"))
    return constant(binder.bind(expression))


_COLUMN_TYPES: dict[type, types.DataType] = {
    bool: types.BooleanType(),
    int: types.BigIntType(),
    float: types.DoubleType(),
}


def _listed(given: Iterable[Any] | None) -> TableResult:
    """Return what a procedure gave as a table: dicts have columns of their own, other values are in `result`."""
    rows = [] if given is None else list(given)
    if rows and all(isinstance(row, dict) for row in rows):
        names = list(rows[0])
        table = [[row.get(name) for name in names] for row in rows]
    else:
        names, table = ["result"], [[row] for row in rows]
    kinds = []
    for place in range(len(names)):
        seen = {type(row[place]) for row in table if row[place] is not None}
        kinds.append(_COLUMN_TYPES.get(seen.pop()) if len(seen) == 1 else None)
    texts = [
        [
            value if value is None or kind is not None else str(value)
            for value, kind in zip(row, kinds, strict=True)
        ]
        for row in table
    ]
    return TableResult.of_rows(
        [(name, kind or types.VarCharType()) for name, kind in zip(names, kinds, strict=True)], texts
    )
