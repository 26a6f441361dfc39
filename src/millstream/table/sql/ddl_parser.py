"""Reads CREATE, ALTER and DROP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millstream.table.sql import statements_ast as st
from millstream.table.sql.ast import Query
from millstream.table.sql.lexer import Token, TokenKind
from millstream.table.sql.type_parser import parse_type

if TYPE_CHECKING:
    from millstream.table.sql.statement_parser import StatementParser

__all__ = ["DdlParser"]

_KINDS = ("TABLE", "VIEW", "FUNCTION", "CATALOG", "DATABASE", "MATERIALIZED", "MODEL", "CONNECTION")
_LIKE_WHAT = (
    "ALL",
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)


@dataclass
class _Columns:
    """What stands in the parentheses of CREATE TABLE."""

    columns: list[st.ColumnDefinition] = field(default_factory=list)
    bare_names: list[str] = field(default_factory=list)
    watermark: st.WatermarkDefinition | None = None
    primary_key: tuple[str, ...] = ()


class DdlParser:
    """Reads statements that define things."""

    def __init__(self, statements: StatementParser) -> None:
        self.statements = statements
        self.cursor = statements.cursor

    # --- CREATE

    def create(self) -> st.Statement:
        """Read what follows CREATE."""
        cursor = self.cursor
        replaced = False
        if cursor.take("OR"):
            replaced = cursor.expect_one_of("REPLACE", "ALTER") == "REPLACE"
        temporary = cursor.take("TEMPORARY")
        system = temporary and cursor.take("SYSTEM")
        kind = cursor.expect_one_of("FUNCTION") if system else cursor.expect_one_of(*_KINDS)
        if kind == "TABLE":
            return self._create_table(temporary, replaced)
        if kind == "VIEW":
            return self._create_view(temporary, replaced)
        if kind == "FUNCTION":
            return self._create_function(temporary, system)
        if kind in ("MATERIALIZED", "MODEL", "CONNECTION"):
            return self._unsupported(kind)
        if temporary or replaced:
            raise cursor.error(f"a {kind} is not temporary and is not replaced")
        return self._create_catalog() if kind == "CATALOG" else self._create_database()

    def replace(self) -> st.Statement:
        """Read what follows REPLACE."""
        self.cursor.expect("TABLE")
        return self._create_table(False, True)

    def _unsupported(self, kind: str) -> st.Statement:
        while not self.cursor.at_end:
            self.cursor.advance()
        return st.Unsupported({"MATERIALIZED": "MATERIALIZED TABLE"}.get(kind, kind))

    def _if_not_exists(self) -> bool:
        return self.cursor.take("IF", "NOT", "EXISTS")

    def _create_table(self, temporary: bool, replaced: bool) -> st.Statement:
        cursor = self.cursor
        if_not_exists = self._if_not_exists()
        name = cursor.dotted_name("a table")
        found = self._columns() if cursor.is_symbol("(") else _Columns()
        comment = cursor.string() if cursor.take("COMMENT") else ""
        distribution = self._distribution() if cursor.is_word("DISTRIBUTED") else ""
        partition_keys = cursor.names_in_parentheses("a column") if cursor.take("PARTITIONED", "BY") else ()
        options = self.options() if cursor.take("WITH") else ()
        like = self._like() if cursor.take("LIKE") else None
        query = self._query() if like is None and cursor.take("AS") else None
        if query is None:
            self._check_columns(found, like is not None)
        elif found.bare_names and found.columns:
            raise cursor.error("columns of CREATE TABLE ... AS have types, or none has")
        return st.CreateTable(
            name,
            tuple(found.columns),
            found.watermark,
            found.primary_key,
            partition_keys,
            options,
            comment,
            temporary,
            if_not_exists,
            replaced,
            like,
            query,
            tuple(found.bare_names),
            distribution,
        )

    def _check_columns(self, found: _Columns, like: bool) -> None:
        if found.bare_names:
            self.cursor.fail("AS")
        if not like and not found.columns:
            self.cursor.fail('"(" with columns', "LIKE", "AS")

    def _query(self) -> Query:
        queries = self.statements.queries
        if not queries.at_query:
            self.cursor.fail("SELECT", "VALUES", "WITH")
        return queries.parse()

    def _columns(self) -> _Columns:
        cursor = self.cursor
        cursor.expect_symbol("(")
        found = _Columns()
        while True:
            self._table_element(found)
            if not cursor.take_symbol(","):
                break
        cursor.expect_symbol(")")
        return found

    def _table_element(self, found: _Columns) -> None:
        cursor, start = self.cursor, self.cursor.current
        if cursor.is_word("WATERMARK", "FOR"):
            watermark = self._watermark()
            if found.watermark is not None:
                raise cursor.error("a table has two watermarks", token=start)
            found.watermark = watermark
            return
        if cursor.is_one_of("CONSTRAINT", "PRIMARY", "UNIQUE"):
            key = self._key()
            if found.primary_key:
                raise cursor.error("a table has two primary keys", token=start)
            found.primary_key = key
            return
        name = cursor.name("a column")
        known = [column.name for column in found.columns] + found.bare_names
        if name in known:
            raise cursor.error(f'column "{name}" is defined twice', token=start)
        if cursor.is_symbol(",") or cursor.is_symbol(")"):
            found.bare_names.append(name)
            return
        column, is_key = self._column(name, start)
        found.columns.append(column)
        if is_key:
            if found.primary_key:
                raise cursor.error("a table has two primary keys", token=start)
            found.primary_key = (name,)

    def _column(self, name: str, start: Token) -> tuple[st.ColumnDefinition, bool]:
        cursor = self.cursor
        is_key = False
        if cursor.take("AS"):
            begin = cursor.current
            expression = self.statements.queries.expressions.parse()
            text = cursor.text_since(begin)
            comment = cursor.string() if cursor.take("COMMENT") else ""
            place = self._place()
            made = st.ColumnDefinition(
                name,
                expression=expression,
                comment=comment,
                place=place,
                expression_text=text,
                at=start.position,
            )
            return made, False
        kind = parse_type(cursor)
        metadata, key, virtual = False, None, False
        if cursor.take("METADATA"):
            metadata = True
            key = cursor.string("a key in quotes") if cursor.take("FROM") else None
            virtual = cursor.take("VIRTUAL")
        else:
            while cursor.is_one_of("CONSTRAINT", "PRIMARY", "UNIQUE"):
                is_key = bool(self._key(inline=True)) or True
        comment = cursor.string() if cursor.take("COMMENT") else ""
        made = st.ColumnDefinition(
            name, kind, None, metadata, key, virtual, comment, self._place(), at=start.position
        )
        return made, is_key

    def _place(self) -> tuple[str, str] | None:
        if self.cursor.take("FIRST"):
            return "FIRST", ""
        if self.cursor.take("AFTER"):
            return "AFTER", self.cursor.name("a column")
        return None

    def _key(self, *, inline: bool = False) -> tuple[str, ...]:
        cursor, start = self.cursor, self.cursor.current
        if cursor.take("CONSTRAINT"):
            cursor.name("a name")
        if cursor.is_word("UNIQUE"):
            raise cursor.error(
                "a UNIQUE constraint is not in Flink's SQL", hint="Use PRIMARY KEY ... NOT ENFORCED."
            )
        cursor.expect("PRIMARY", "KEY")
        names = () if inline else cursor.names_in_parentheses("a column")
        at = cursor.since(start)
        if not cursor.take("NOT", "ENFORCED"):
            cursor.take("ENFORCED")
            raise cursor.error(
                "a primary key has to be NOT ENFORCED",
                at=at,
                hint="Write PRIMARY KEY (...) NOT ENFORCED: rows come from outside, so nothing checks the key.",
            )
        if len(set(names)) < len(names):
            raise cursor.error("a primary key names a column twice", at=at)
        return names

    def _watermark(self) -> st.WatermarkDefinition:
        cursor, start = self.cursor, self.cursor.current
        cursor.expect("WATERMARK", "FOR")
        column = cursor.dotted_name("a column")
        cursor.expect("AS")
        begin = cursor.current
        expression = self.statements.queries.expressions.parse()
        return st.WatermarkDefinition(column, expression, cursor.text_since(begin), at=start.position)

    def _distribution(self) -> str:
        cursor, start = self.cursor, self.cursor.current
        cursor.expect("DISTRIBUTED")
        if cursor.take("BY"):
            cursor.take_one_of("HASH", "RANGE")
            cursor.names_in_parentheses("a column")
            if not cursor.is_word("INTO"):
                return cursor.text_since(start)
        cursor.expect("INTO")
        cursor.integer("a number of buckets")
        cursor.expect("BUCKETS")
        return cursor.text_since(start)

    def _like(self) -> st.LikeClause:
        cursor, start = self.cursor, self.cursor.current
        source = cursor.dotted_name("a table")
        choices: list[tuple[str, str]] = []
        if cursor.take_symbol("("):
            while not cursor.is_symbol(")"):
                how = cursor.expect_one_of("INCLUDING", "EXCLUDING", "OVERWRITING")
                choices.append((cursor.expect_one_of(*_LIKE_WHAT), how))
            cursor.advance()
        return st.LikeClause(source, tuple(choices), at=cursor.since(start))

    def _create_view(self, temporary: bool, replaced: bool) -> st.Statement:
        cursor = self.cursor
        if_not_exists = self._if_not_exists()
        name = cursor.dotted_name("a view")
        columns: list[str] = []
        if cursor.take_symbol("("):
            while True:
                columns.append(cursor.name("a column"))
                if cursor.take("COMMENT"):
                    cursor.string()
                if not cursor.take_symbol(","):
                    break
            cursor.expect_symbol(")")
        comment = cursor.string() if cursor.take("COMMENT") else ""
        cursor.expect("AS")
        begin = cursor.current
        query = self._query()
        text = cursor.text_since(begin)
        return st.CreateView(name, query, text, tuple(columns), comment, temporary, if_not_exists, replaced)

    def _create_function(self, temporary: bool, system: bool) -> st.Statement:
        cursor = self.cursor
        if_not_exists = self._if_not_exists()
        name = cursor.dotted_name("a function")
        cursor.expect("AS")
        class_name = cursor.string("the function's name in quotes")
        language = cursor.expect_one_of("PYTHON", "JAVA", "SCALA") if cursor.take("LANGUAGE") else ""
        resources: list[tuple[str, str]] = []
        if cursor.take("USING"):
            while True:
                kind = cursor.expect_one_of("JAR", "FILE", "ARCHIVE")
                resources.append((kind, cursor.string("a path in quotes")))
                if not cursor.take_symbol(","):
                    break
        options = self.options() if cursor.take("WITH") else ()
        return st.CreateFunction(
            name, class_name, language, tuple(resources), temporary, system, if_not_exists, options
        )

    def _create_catalog(self) -> st.Statement:
        cursor = self.cursor
        if_not_exists = self._if_not_exists()
        name = cursor.name("a catalog")
        comment = cursor.string() if cursor.take("COMMENT") else ""
        options = self.options() if cursor.take("WITH") else ()
        return st.CreateCatalog(name, options, comment, if_not_exists)

    def _create_database(self) -> st.Statement:
        cursor = self.cursor
        if_not_exists = self._if_not_exists()
        name = cursor.dotted_name("a database")
        comment = cursor.string() if cursor.take("COMMENT") else ""
        options = self.options() if cursor.take("WITH") else ()
        return st.CreateDatabase(name, options, comment, if_not_exists)

    def options(self) -> st.Options:
        """Read `('key' = 'value', ...)`.

        Raises:
            SqlParseError: If a key comes twice.
        """
        cursor = self.cursor
        cursor.expect_symbol("(")
        found: dict[str, str] = {}
        while not cursor.is_symbol(")"):
            if found:
                cursor.expect_symbol(",")
            token = cursor.current
            key = cursor.string("a key in quotes")
            if key in found:
                raise cursor.error(f"option '{key}' is set twice", token=token)
            cursor.expect_symbol("=")
            found[key] = cursor.string("a value in quotes")
        cursor.advance()
        return tuple(found.items())

    def _keys(self) -> tuple[str, ...]:
        cursor = self.cursor
        cursor.expect_symbol("(")
        keys = [cursor.string("a key in quotes")]
        while cursor.take_symbol(","):
            keys.append(cursor.string("a key in quotes"))
        cursor.expect_symbol(")")
        return tuple(keys)

    # --- DROP

    def drop(self) -> st.Statement:
        """Read what follows DROP."""
        cursor = self.cursor
        temporary = cursor.take("TEMPORARY")
        system = temporary and cursor.take("SYSTEM")
        kind = cursor.expect_one_of(*_KINDS)
        if kind in ("MATERIALIZED", "MODEL", "CONNECTION"):
            return self._unsupported(kind)
        if_exists = cursor.take("IF", "EXISTS")
        name = cursor.dotted_name(f"a {kind.lower()}")
        cascade = False
        if kind == "DATABASE":
            cascade = cursor.take_one_of("RESTRICT", "CASCADE") == "CASCADE"
        return st.Drop(kind, name, if_exists, temporary, system, cascade)

    # --- ALTER

    def alter(self) -> st.Statement:
        """Read what follows ALTER."""
        cursor = self.cursor
        temporary = cursor.take("TEMPORARY")
        if temporary:
            cursor.take("SYSTEM")
        kind = cursor.expect_one_of("FUNCTION") if temporary else cursor.expect_one_of(*_KINDS)
        if kind in ("MATERIALIZED", "MODEL", "CONNECTION"):
            return self._unsupported(kind)
        if_exists = cursor.take("IF", "EXISTS")
        if kind == "TABLE":
            return st.AlterTable(cursor.dotted_name("a table"), self._table_change(), if_exists)
        if kind == "VIEW":
            return self._alter_view(if_exists)
        if kind == "FUNCTION":
            name = cursor.dotted_name("a function")
            cursor.expect("AS")
            class_name = cursor.string("the function's name in quotes")
            language = cursor.expect_one_of("PYTHON", "JAVA", "SCALA") if cursor.take("LANGUAGE") else ""
            return st.AlterFunction(name, class_name, language, temporary, if_exists)
        if kind == "DATABASE":
            database = cursor.dotted_name("a database")
            cursor.expect("SET")
            return st.AlterDatabase(database, self.options())
        return self._alter_catalog()

    def _alter_catalog(self) -> st.Statement:
        cursor = self.cursor
        name = cursor.name("a catalog")
        if cursor.take("SET"):
            return st.AlterCatalog(name, self.options())
        if cursor.take("RESET"):
            return st.AlterCatalog(name, reset_options=self._keys())
        cursor.expect("COMMENT")
        return st.AlterCatalog(name, comment=cursor.string())

    def _alter_view(self, if_exists: bool) -> st.Statement:
        cursor = self.cursor
        name = cursor.dotted_name("a view")
        if cursor.take("RENAME"):
            cursor.expect("TO")
            return st.AlterView(name, cursor.dotted_name("a view"), if_exists=if_exists)
        cursor.expect("AS")
        begin = cursor.current
        query = self._query()
        return st.AlterView(name, query=query, query_text=cursor.text_since(begin), if_exists=if_exists)

    def _table_change(self) -> st.TableChange:
        cursor = self.cursor
        if cursor.take("SET"):
            return st.TableChange("SET", self.options())
        if cursor.take("RESET"):
            return st.TableChange("RESET", names=self._keys())
        if cursor.take("RENAME"):
            if cursor.take("TO"):
                return st.TableChange("RENAME", names=cursor.dotted_name("a table"))
            old = ".".join(cursor.dotted_name("a column"))
            cursor.expect("TO")
            return st.TableChange("RENAME COLUMN", names=(old, cursor.name("a column")))
        if cursor.take("COMMENT"):
            return st.TableChange("COMMENT", comment=cursor.string())
        if cursor.take("DROP"):
            return self._table_drop()
        action = cursor.expect_one_of("ADD", "MODIFY")
        return self._table_add(action)

    def _table_add(self, action: str) -> st.TableChange:
        cursor = self.cursor
        if cursor.take("DISTRIBUTION"):
            while not cursor.at_end:
                cursor.advance()
            return st.TableChange("DISTRIBUTION")
        if action == "ADD" and (cursor.is_word("PARTITION") or cursor.is_word("IF", "NOT", "EXISTS")):
            there = cursor.take("IF", "NOT", "EXISTS")
            partitions = []
            while cursor.is_word("PARTITION"):
                partitions.append(self.statements.partition())
                if cursor.take("WITH"):
                    self.options()
            return st.TableChange("ADD PARTITION", partitions=tuple(partitions), if_exists=there)
        found = _Columns()
        if cursor.is_symbol("("):
            found = self._columns()
        else:
            self._table_element(found)
        if found.bare_names:
            cursor.fail("a type")
        return st.TableChange(
            action, columns=tuple(found.columns), watermark=found.watermark, primary_key=found.primary_key
        )

    def _table_drop(self) -> st.TableChange:
        cursor = self.cursor
        if cursor.take("PRIMARY", "KEY"):
            return st.TableChange("DROP PRIMARY KEY")
        if cursor.take("CONSTRAINT"):
            return st.TableChange("DROP CONSTRAINT", names=(cursor.name("a name"),))
        if cursor.take("WATERMARK"):
            return st.TableChange("DROP WATERMARK")
        if cursor.take("DISTRIBUTION"):
            return st.TableChange("DISTRIBUTION")
        if cursor.is_word("PARTITION") or cursor.is_word("IF", "EXISTS"):
            gone = cursor.take("IF", "EXISTS")
            partitions = []
            while cursor.is_word("PARTITION"):
                partitions.append(self.statements.partition())
                cursor.take_symbol(",")
            return st.TableChange("DROP PARTITION", partitions=tuple(partitions), if_exists=gone)
        if cursor.is_symbol("("):
            return st.TableChange("DROP COLUMN", names=cursor.names_in_parentheses("a column"))
        cursor.take("COLUMN")
        if cursor.current.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            cursor.fail("a column")
        return st.TableChange("DROP COLUMN", names=(".".join(cursor.dotted_name("a column")),))
