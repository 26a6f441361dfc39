"""The trees of statements; queries in them are of `ast.py`.

Names are tuples of one to three parts (catalog, database, name) as written. Options keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.table.sql.ast import Expression, Position, Query
from millstream.types.datatypes import DataType

__all__ = [
    "AlterCatalog",
    "AlterDatabase",
    "AlterFunction",
    "AlterTable",
    "AlterView",
    "Analyze",
    "Call",
    "ColumnDefinition",
    "CompilePlan",
    "CreateCatalog",
    "CreateDatabase",
    "CreateFunction",
    "CreateTable",
    "CreateView",
    "Describe",
    "Drop",
    "ExecutePlan",
    "Explain",
    "Insert",
    "JarCommand",
    "LikeClause",
    "Modules",
    "Name",
    "Options",
    "QueryStatement",
    "SetOption",
    "Show",
    "Statement",
    "StatementSet",
    "StatementSetMark",
    "StopJob",
    "TableChange",
    "Truncate",
    "Unsupported",
    "Use",
    "WatermarkDefinition",
]

Name = tuple[str, ...]
Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Statement:
    """A statement.

    Attributes:
        at: Where it begins.
        text: As written, without the semicolon.
    """

    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)
    text: str = field(default="", compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class QueryStatement(Statement):
    """A query: its result is shown."""

    query: Query


@dataclass(frozen=True)
class Insert(Statement):
    """`INSERT INTO | OVERWRITE target [PARTITION (...)] [(columns)] query [ON CONFLICT DO ...]`.

    Attributes:
        partition: Columns of static partitions with their literals.
        conflict: `NOTHING`, `ERROR`, `DEDUPLICATE`, or "".
    """

    target: Name
    query: Query
    columns: tuple[str, ...] = ()
    partition: tuple[tuple[str, Expression], ...] = ()
    overwrite: bool = False
    options: Options = ()
    conflict: str = ""


@dataclass(frozen=True)
class StatementSet(Statement):
    """`EXECUTE STATEMENT SET BEGIN insert; insert; END`: one job."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class StatementSetMark(Statement):
    """`BEGIN STATEMENT SET` or `END` on their own, as a shell gives them."""

    begins: bool


@dataclass(frozen=True)
class Explain(Statement):
    """`EXPLAIN [ESTIMATED_COST, CHANGELOG_MODE, ...] statement`."""

    statement: Statement
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE.

    Attributes:
        name: Its name.
        type: None of computed ones.
        expression: Of computed ones.
        metadata: Whether it is read from, or written to, what the connector knows beside the row.
        metadata_key: The connector's name for it; None if it is the column's.
        virtual: Whether it is not written.
        comment: What it means.
        place: Of ALTER TABLE: "FIRST", or the name of the column it comes after.
    """

    name: str
    type: DataType | None = None
    expression: Expression | None = None
    metadata: bool = False
    metadata_key: str | None = None
    virtual: bool = False
    comment: str = ""
    place: tuple[str, str] | None = None
    expression_text: str = field(default="", compare=False)
    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class WatermarkDefinition:
    """`WATERMARK FOR column AS expression`; `column` may be a field of a row, with dots."""

    column: Name
    expression: Expression
    expression_text: str = field(default="", compare=False)
    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class LikeClause:
    """`LIKE source (INCLUDING ALL EXCLUDING OPTIONS ...)`: choices as (what, how)."""

    source: Name
    choices: tuple[tuple[str, str], ...] = ()
    at: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class CreateTable(Statement):
    """`CREATE [TEMPORARY] TABLE`, with columns, or LIKE, or AS a query (which may come with column names)."""

    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    watermark: WatermarkDefinition | None = None
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Options = ()
    comment: str = ""
    temporary: bool = False
    if_not_exists: bool = False
    replace: bool = False
    like: LikeClause | None = None
    query: Query | None = None
    query_columns: tuple[str, ...] = ()
    distribution: str = ""


@dataclass(frozen=True)
class CreateView(Statement):
    """`CREATE [TEMPORARY] VIEW name [(columns)] AS query`."""

    name: Name
    query: Query
    query_text: str
    columns: tuple[str, ...] = ()
    comment: str = ""
    temporary: bool = False
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """`CREATE [TEMPORARY [SYSTEM]] FUNCTION name AS 'class' [LANGUAGE PYTHON] [USING ...]`."""

    name: Name
    class_name: str
    language: str = ""
    resources: tuple[tuple[str, str], ...] = ()
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False
    options: Options = ()


@dataclass(frozen=True)
class AlterFunction(Statement):
    """`ALTER FUNCTION name AS 'class' [LANGUAGE ...]`."""

    name: Name
    class_name: str
    language: str = ""
    temporary: bool = False
    if_exists: bool = False


@dataclass(frozen=True)
class CreateCatalog(Statement):
    """`CREATE CATALOG name [COMMENT ...] WITH (...)`."""

    name: str
    options: Options = ()
    comment: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateDatabase(Statement):
    """`CREATE DATABASE [catalog.]name`."""

    name: Name
    options: Options = ()
    comment: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterCatalog(Statement):
    """`ALTER CATALOG name SET | RESET | COMMENT`."""

    name: str
    set_options: Options = ()
    reset_options: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True)
class AlterDatabase(Statement):
    """`ALTER DATABASE name SET (...)`."""

    name: Name
    set_options: Options = ()


@dataclass(frozen=True)
class AlterView(Statement):
    """`ALTER VIEW name RENAME TO other | AS query`."""

    name: Name
    rename_to: Name = ()
    query: Query | None = None
    query_text: str = ""
    if_exists: bool = False


@dataclass(frozen=True)
class TableChange:
    """One change of ALTER TABLE: `action` says which, the rest what (`if_exists`: or IF NOT EXISTS, of partitions).

    Actions: `SET`, `RESET`, `RENAME`, `RENAME COLUMN`, `ADD`, `MODIFY`, `DROP COLUMN`, `DROP WATERMARK`,
    `DROP PRIMARY KEY`, `COMMENT`, `ADD PARTITION`, `DROP PARTITION`, `DROP CONSTRAINT`, `DISTRIBUTION`.
    """

    action: str
    options: Options = ()
    names: Name = ()
    columns: tuple[ColumnDefinition, ...] = ()
    watermark: WatermarkDefinition | None = None
    primary_key: tuple[str, ...] = ()
    comment: str = ""
    partitions: tuple[tuple[tuple[str, Expression | None], ...], ...] = ()
    if_exists: bool = False


@dataclass(frozen=True)
class AlterTable(Statement):
    """`ALTER TABLE [IF EXISTS] name change`."""

    name: Name
    change: TableChange
    if_exists: bool = False


@dataclass(frozen=True)
class Drop(Statement):
    """`DROP [TEMPORARY [SYSTEM]] TABLE | VIEW | FUNCTION | CATALOG | DATABASE name`."""

    kind: str
    name: Name
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Use(Statement):
    """`USE [catalog.]database`, `USE CATALOG name`."""

    kind: str
    name: Name


@dataclass(frozen=True)
class Modules(Statement):
    """`LOAD MODULE name WITH (...)`, `UNLOAD MODULE name`, `USE MODULES a, b`."""

    action: str
    names: tuple[str, ...]
    options: Options = ()


@dataclass(frozen=True)
class Show(Statement):
    """`SHOW kind [FROM name] [[NOT] LIKE | ILIKE pattern]`, `SHOW CREATE TABLE name`, `SHOW PARTITIONS name`."""

    kind: str
    name: Name = ()
    like: str | None = None
    case_sensitive: bool = True
    negated: bool = False
    partition: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True)
class Describe(Statement):
    """`DESCRIBE [EXTENDED] kind name`; kind TABLE, CATALOG, DATABASE, FUNCTION, JOB."""

    kind: str
    name: Name
    extended: bool = False


@dataclass(frozen=True)
class SetOption(Statement):
    """`SET 'key' = 'value'`, `SET`, `RESET ['key']`."""

    key: str = ""
    value: str = ""
    reset: bool = False


@dataclass(frozen=True)
class CompilePlan(Statement):
    """`COMPILE [AND EXECUTE] PLAN 'file' [IF NOT EXISTS] FOR statement`."""

    path: str
    statement: Statement
    if_not_exists: bool = False
    execute: bool = False


@dataclass(frozen=True)
class ExecutePlan(Statement):
    """`EXECUTE PLAN 'file'`."""

    path: str


@dataclass(frozen=True)
class Analyze(Statement):
    """`ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]`."""

    name: Name
    columns: tuple[str, ...] = ()
    all_columns: bool = False
    partition: tuple[tuple[str, Expression | None], ...] = ()


@dataclass(frozen=True)
class Truncate(Statement):
    """`TRUNCATE TABLE name`."""

    name: Name


@dataclass(frozen=True)
class Call(Statement):
    """`CALL procedure(arguments)`."""

    name: Name
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class StopJob(Statement):
    """`STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]`."""

    job: str
    savepoint: bool = False
    drain: bool = False


@dataclass(frozen=True)
class JarCommand(Statement):
    """`ADD JAR | FILE | FILES 'path', 'path'`, `REMOVE JAR | FILE | FILES 'path', 'path'`; kind JAR or FILE."""

    action: str
    kind: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Unsupported(Statement):
    """What Flink has and millstream does not: running it says so."""

    what: str
