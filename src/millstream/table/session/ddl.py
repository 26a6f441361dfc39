"""CREATE, ALTER and DROP of tables and views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.base.errors import NotSupportedError
from millstream.table.catalog.catalog import CatalogView
from millstream.table.catalog.definition import as_column, build_table, columns_in, watermark_of
from millstream.table.catalog.resolved import ResolvedTable, TableColumn
from millstream.table.errors import ValidationError, did_you_mean
from millstream.table.result import TableResult
from millstream.table.session.contents import alter_partitions
from millstream.table.session.naming import with_full_names
from millstream.table.sql import statements_ast as st

if TYPE_CHECKING:
    from millstream.table.session.executor import StatementExecutor

__all__ = ["alter_table", "alter_view", "create_table", "create_view", "rebuilt"]

_LIKE_DEFAULTS = {
    "CONSTRAINTS": "INCLUDING",
    "DISTRIBUTION": "INCLUDING",
    "GENERATED": "INCLUDING",
    "METADATA": "INCLUDING",
    "OPTIONS": "OVERWRITING",
    "PARTITIONS": "INCLUDING",
    "WATERMARKS": "INCLUDING",
}


def create_table(executor: StatementExecutor, statement: st.CreateTable) -> TableResult:
    """Execute CREATE TABLE, with LIKE or AS too.

    Raises:
        ValidationError: If its parts do not fit each other, or there is one of that name.
    """
    manager = executor.catalogs
    identifier = manager.qualify(statement.name)
    there = manager.find(statement.name)
    if there is not None and statement.if_not_exists:
        return TableResult.ok()
    if statement.query is not None:
        return _create_as(executor, statement)
    if statement.replace:
        raise NotSupportedError(
            "REPLACE TABLE without AS is not in Flink's SQL", hint="Write ... AS SELECT ..."
        )
    watermark, watermark_text = watermark_of(statement.watermark)
    columns = [as_column(each) for each in statement.columns]
    table = (
        build_table(
            identifier,
            columns,
            watermark=watermark,
            watermark_text=watermark_text,
            primary_key=statement.primary_key if statement.like is None else (),
            partition_keys=statement.partition_keys if statement.like is None else (),
            options=dict(statement.options),
            comment=statement.comment,
            temporary=statement.temporary,
            distribution=statement.distribution,
        )
        if statement.like is None
        else _like(executor, statement, columns)
    )
    executor.check_table(table)
    manager.create(table, if_not_exists=statement.if_not_exists)
    return TableResult.ok()


def _like(
    executor: StatementExecutor, statement: st.CreateTable, columns: Sequence[TableColumn]
) -> ResolvedTable:
    assert statement.like is not None
    source = executor.catalogs.table(statement.like.source)
    if isinstance(source, CatalogView):
        raise ValidationError(
            f'LIKE names the view "{source.full_name}"', at=statement.like.at, hint="Name a table."
        )
    how = dict(_LIKE_DEFAULTS)
    for what, choice in statement.like.choices:
        if what == "ALL":
            how = {
                each: "OVERWRITING" if choice == "INCLUDING" and each == "OPTIONS" else choice for each in how
            }
    how.update({what: choice for what, choice in statement.like.choices if what != "ALL"})
    merged = _merged_columns(source, columns, how, statement)
    watermark, watermark_text = watermark_of(statement.watermark)
    if watermark is None and how["WATERMARKS"] != "EXCLUDING":
        watermark, watermark_text = source.watermark, source.watermark_text
    elif watermark is not None and source.watermark is not None and how["WATERMARKS"] == "INCLUDING":
        raise ValidationError(
            "both the table and the one it is like have a watermark",
            at=statement.like.at,
            hint="Write LIKE ... (OVERWRITING WATERMARKS) or (EXCLUDING WATERMARKS).",
        )
    options = dict(source.options) if how["OPTIONS"] != "EXCLUDING" else {}
    for key, value in statement.options:
        if how["OPTIONS"] == "INCLUDING" and key in options:
            raise ValidationError(
                f"both the table and the one it is like have the option '{key}'",
                at=statement.like.at,
                hint="Write LIKE ... (OVERWRITING OPTIONS).",
            )
        options[key] = value
    primary_key = statement.primary_key or (source.primary_key if how["CONSTRAINTS"] != "EXCLUDING" else ())
    partitions = statement.partition_keys or (
        source.partition_keys if how["PARTITIONS"] != "EXCLUDING" else ()
    )
    return build_table(
        executor.catalogs.qualify(statement.name),
        merged,
        watermark=watermark,
        watermark_text=watermark_text,
        primary_key=primary_key,
        partition_keys=partitions,
        options=options,
        comment=statement.comment,
        temporary=statement.temporary,
        distribution=statement.distribution,
    )


def _merged_columns(
    source: ResolvedTable, columns: Sequence[TableColumn], how: dict[str, str], statement: st.CreateTable
) -> list[TableColumn]:
    assert statement.like is not None
    kept = []
    for column in source.columns:
        what = {"computed": "GENERATED", "metadata": "METADATA"}.get(column.kind)
        if what is None or how[what] != "EXCLUDING":
            kept.append(column)
    for column in columns:
        same = next((place for place, each in enumerate(kept) if each.name == column.name), None)
        what = {"computed": "GENERATED", "metadata": "METADATA"}.get(column.kind)
        if same is None:
            kept.append(column)
        elif what is not None and how[what] == "OVERWRITING":
            kept[same] = column
        else:
            raise ValidationError(
                f'column "{column.name}" is in the table and in the one it is like', at=statement.like.at
            )
    return kept


def _create_as(executor: StatementExecutor, statement: st.CreateTable) -> TableResult:
    """CREATE TABLE ... AS query: the table, then a job that fills it."""
    assert statement.query is not None
    manager = executor.catalogs
    bound = executor.bind(statement.query)
    columns = _columns_of_query(bound.schema, statement)
    watermark, watermark_text = watermark_of(statement.watermark)
    table = build_table(
        manager.qualify(statement.name),
        columns,
        watermark=watermark,
        watermark_text=watermark_text,
        primary_key=statement.primary_key,
        partition_keys=statement.partition_keys,
        options=dict(statement.options),
        comment=statement.comment,
        temporary=statement.temporary,
        distribution=statement.distribution,
    )
    executor.check_table(table)
    written = [column.name for column in columns[len(columns) - len(bound.schema) :]]
    planned = executor.plan_insert(
        statement.query, table, columns=tuple(statement.query_columns) or tuple(written)
    )
    manager.create(table, if_not_exists=statement.if_not_exists, replaced=statement.replace)
    return executor.run_inserts([planned], [table.full_name])


def _columns_of_query(schema: object, statement: st.CreateTable) -> list[TableColumn]:
    names: tuple[str, ...] = schema.names  # type: ignore[attr-defined]
    types: tuple[object, ...] = schema.types  # type: ignore[attr-defined]
    found = {
        name: TableColumn(name, "physical", kind)  # type: ignore[arg-type]
        for name, kind in zip(names, types, strict=True)
    }
    if statement.query_columns:
        for name in statement.query_columns:
            if name not in found:
                raise ValidationError(
                    f'the query of CREATE TABLE has no column "{name}"',
                    detail=f"It has: {', '.join(names)}.",
                    hint=did_you_mean(name, names),
                )
        if len(statement.query_columns) != len(names):
            raise ValidationError(
                f"the query of CREATE TABLE has {len(names)} columns, {len(statement.query_columns)} are named"
            )
        return [found[name] for name in statement.query_columns]
    declared = [as_column(each) for each in statement.columns]
    extra = [column for column in declared if column.name not in found]
    for column in declared:
        if column.name in found:
            found[column.name] = column
    return extra + [found[name] for name in names]


def create_view(executor: StatementExecutor, statement: st.CreateView) -> TableResult:
    """Execute CREATE VIEW.

    Raises:
        ValidationError: If the query does not fit, or there is one of that name.
    """
    manager = executor.catalogs
    bound = executor.bind(statement.query)
    if statement.columns and len(statement.columns) != len(bound.schema):
        raise ValidationError(
            f"the view has {len(statement.columns)} names of columns, its query gives {len(bound.schema)} columns",
            detail=f"The query gives: {', '.join(bound.schema.names)}.",
        )
    names = statement.columns or bound.schema.names
    for name in names:
        if list(names).count(name) > 1:
            raise ValidationError(
                f'the view has the column "{name}" twice',
                hint="Give columns names of their own: SELECT a AS x, ...",
            )
    view = CatalogView(
        manager.qualify(statement.name),
        statement.query_text,
        with_full_names(statement.query, manager),
        statement.columns,
        statement.comment,
        statement.temporary,
    )
    manager.create(view, if_not_exists=statement.if_not_exists, replaced=statement.replace)
    return TableResult.ok()


def alter_view(executor: StatementExecutor, statement: st.AlterView) -> TableResult:
    """Execute ALTER VIEW."""
    manager = executor.catalogs
    entry = manager.find(statement.name)
    if entry is None and statement.if_exists:
        return TableResult.ok()
    entry = manager.table(statement.name)
    if not isinstance(entry, CatalogView):
        raise ValidationError(f'"{entry.full_name}" is a table', hint="Write ALTER TABLE.")
    if statement.rename_to:
        manager.rename(entry, _same_place(executor, entry, statement.rename_to))
        return TableResult.ok()
    assert statement.query is not None
    executor.bind(statement.query)
    query = with_full_names(statement.query, manager)
    manager.alter(replace(entry, text=statement.query_text, query=query, columns=()))
    return TableResult.ok()


def _same_place(executor: StatementExecutor, entry: ResolvedTable | CatalogView, name: st.Name) -> str:
    if len(name) > 1:
        where = executor.catalogs.qualify(name)[:2]
        if where != entry.identifier[:2]:
            raise ValidationError("RENAME TO another database is not possible", hint="Create it there.")
    return name[-1]


def alter_table(executor: StatementExecutor, statement: st.AlterTable) -> TableResult:
    """Execute ALTER TABLE.

    Raises:
        ValidationError: If the table is not there, or the change does not fit.
        NotSupportedError: If millstream does not have the change.
    """
    manager = executor.catalogs
    entry = manager.find(statement.name)
    if entry is None and statement.if_exists:
        return TableResult.ok()
    entry = manager.table(statement.name)
    if isinstance(entry, CatalogView):
        raise ValidationError(f'"{entry.full_name}" is a view', hint="Write ALTER VIEW.")
    change = statement.change
    if change.action == "RENAME":
        manager.rename(entry, _same_place(executor, entry, change.names))
        return TableResult.ok()
    if change.action in ("ADD PARTITION", "DROP PARTITION"):
        alter_partitions(entry, change)
        return TableResult.ok()
    if change.action == "DISTRIBUTION":
        raise NotSupportedError(f"ALTER TABLE ... {change.action} is not in millstream yet")
    changed = _changed(entry, change)
    executor.check_table(changed)
    manager.alter(changed)
    return TableResult.ok()


def _changed(table: ResolvedTable, change: st.TableChange) -> ResolvedTable:
    if change.action == "SET":
        return replace(table, options={**table.options, **dict(change.options)})
    if change.action == "RESET":
        if "connector" in change.names:
            raise ValidationError("RESET of 'connector' is not possible")
        return replace(
            table, options={key: value for key, value in table.options.items() if key not in change.names}
        )
    if change.action == "COMMENT":
        return replace(table, comment=change.comment)
    if change.action == "DROP WATERMARK":
        if table.watermark is None:
            raise ValidationError(f'table "{table.full_name}" has no watermark')
        return rebuilt(table, watermark=None, watermark_text="")
    if change.action in ("DROP PRIMARY KEY", "DROP CONSTRAINT"):
        if not table.primary_key:
            raise ValidationError(f'table "{table.full_name}" has no primary key')
        return rebuilt(table, primary_key=())
    if change.action == "RENAME COLUMN":
        return _column_renamed(table, *change.names)
    if change.action == "DROP COLUMN":
        return _columns_dropped(table, change.names)
    return _columns_put(table, change)


def rebuilt(table: ResolvedTable, **changes: object) -> ResolvedTable:
    """Return a table with some parts replaced, checked as a whole."""
    parts: dict[str, object] = {
        "watermark": table.watermark,
        "watermark_text": table.watermark_text,
        "primary_key": table.primary_key,
        "partition_keys": table.partition_keys,
        "options": table.options,
        "comment": table.comment,
        "temporary": table.temporary,
        "distribution": table.distribution,
    }
    columns = changes.pop("columns", table.columns)
    parts.update(changes)
    return build_table(table.identifier, columns, **parts)  # type: ignore[arg-type]


def _existing(table: ResolvedTable, name: str) -> int:
    names = [column.name for column in table.columns]
    if name not in names:
        raise ValidationError(
            f'table "{table.full_name}" has no column "{name}"',
            detail=f"It has: {', '.join(names)}.",
            hint=did_you_mean(name, names),
        )
    return names.index(name)


def _check_unused(table: ResolvedTable, name: str, what: str) -> None:
    users = [
        f'the computed column "{column.name}"'
        for column in table.columns
        if column.expression is not None
        and any(each.parts[0] == name for each in columns_in(column.expression))
    ]
    if name in table.primary_key:
        users.append("the primary key")
    if name in table.partition_keys:
        users.append("PARTITIONED BY")
    if table.watermark is not None:
        in_expression = any(each.parts[0] == name for each in columns_in(table.watermark[1]))
        if table.watermark[0] == name or in_expression:
            users.append("the watermark")
    if users:
        raise ValidationError(f'column "{name}" cannot be {what}: {users[0]} refers to it')


def _column_renamed(table: ResolvedTable, old: str, new: str) -> ResolvedTable:
    place = _existing(table, old)
    if any(column.name == new for column in table.columns):
        raise ValidationError(f'table "{table.full_name}" has a column "{new}" already')
    kept = replace(table, primary_key=())
    _check_unused(kept, old, "renamed")
    columns = list(table.columns)
    columns[place] = replace(columns[place], name=new)
    key = tuple(new if name == old else name for name in table.primary_key)
    return rebuilt(table, columns=columns, primary_key=key)


def _columns_dropped(table: ResolvedTable, names: Sequence[str]) -> ResolvedTable:
    for name in names:
        _existing(table, name)
    left = replace(
        table, columns=tuple(c for c in table.columns if not (c.kind == "computed" and c.name in names))
    )
    for name in names:
        _check_unused(left, name, "dropped")
    columns = [column for column in table.columns if column.name not in names]
    if not columns:
        raise ValidationError(f'table "{table.full_name}" would have no column left')
    return rebuilt(table, columns=columns)


def _columns_put(table: ResolvedTable, change: st.TableChange) -> ResolvedTable:
    """ADD or MODIFY columns, the primary key, the watermark."""
    columns = list(table.columns)
    adding = change.action == "ADD"
    for definition in change.columns:
        column = as_column(definition)
        known = any(each.name == column.name for each in columns)
        if adding and known:
            raise ValidationError(
                f'table "{table.full_name}" has a column "{column.name}" already',
                at=definition.at,
                hint="MODIFY it.",
            )
        place = len(columns)
        if not adding:
            place = _existing(replace(table, columns=tuple(columns)), column.name)
            del columns[place]
        if definition.place is not None:
            where, name = definition.place
            place = 0 if where == "FIRST" else _existing(replace(table, columns=tuple(columns)), name) + 1
        columns.insert(place, column)
    key = table.primary_key
    if change.primary_key:
        if adding and key:
            raise ValidationError(f'table "{table.full_name}" has a primary key already', hint="MODIFY it.")
        key = change.primary_key
    watermark, text = table.watermark, table.watermark_text
    if change.watermark is not None:
        if adding and watermark is not None:
            raise ValidationError(f'table "{table.full_name}" has a watermark already', hint="MODIFY it.")
        watermark, text = watermark_of(change.watermark)
    return rebuilt(table, columns=columns, primary_key=key, watermark=watermark, watermark_text=text)
