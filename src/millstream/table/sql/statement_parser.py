"""Reads statements: which one it is, and those that are neither DDL nor queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millstream.table.sql import statements_ast as st
from millstream.table.sql.ast import Expression
from millstream.table.sql.cursor import Cursor
from millstream.table.sql.ddl_parser import DdlParser
from millstream.table.sql.lexer import Token, TokenKind
from millstream.table.sql.query_parser import QueryParser

__all__ = ["StatementParser"]

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN")
_SHOWN = (
    "CATALOGS",
    "COLUMNS",
    "CONNECTIONS",
    "CREATE",
    "CURRENT",
    "DATABASES",
    "FILES",
    "FULL",
    "FUNCTIONS",
    "JARS",
    "JOBS",
    "MATERIALIZED",
    "MODELS",
    "MODULES",
    "PARTITIONS",
    "PROCEDURES",
    "TABLES",
    "USER",
    "VIEWS",
)
_DESCRIBED = ("CATALOG", "DATABASE", "FUNCTION", "MODEL", "CONNECTION", "JOB")


class StatementParser:
    """Reads statements at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.queries = QueryParser(cursor)
        self.ddl = DdlParser(self)
        self._readers: dict[str, Callable[[], st.Statement]] = {
            "ADD": lambda: self._jar("ADD"),
            "ALTER": self.ddl.alter,
            "ANALYZE": self._analyze,
            "BEGIN": self._begin,
            "CALL": self._call,
            "COMPILE": self._compile,
            "CREATE": self.ddl.create,
            "DELETE": lambda: self._unsupported("DELETE"),
            "DESC": self._describe,
            "DESCRIBE": self._describe,
            "DROP": self.ddl.drop,
            "END": self._end,
            "EXECUTE": self._execute,
            "EXPLAIN": self._explain,
            "INSERT": self._insert,
            "LOAD": lambda: self._module("LOAD"),
            "REMOVE": lambda: self._jar("REMOVE"),
            "REPLACE": self.ddl.replace,
            "RESET": self._reset,
            "SET": self._set,
            "SHOW": self._show,
            "STOP": self._stop,
            "TRUNCATE": self._truncate,
            "UNLOAD": lambda: self._module("UNLOAD"),
            "UPDATE": lambda: self._unsupported("UPDATE"),
            "UPSERT": lambda: self._unsupported("UPSERT INTO"),
            "USE": self._use,
        }

    def parse(self) -> st.Statement:
        """Read one statement, up to its semicolon or the end."""
        cursor, start = self.cursor, self.cursor.current
        reader = self._readers.get(start.value) if start.kind is TokenKind.WORD else None
        if reader is not None:
            cursor.advance()
            made = reader()
        elif self.queries.at_query:
            made = st.QueryStatement(self.queries.parse())
        else:
            cursor.fail("SELECT", *self._readers)
        if not cursor.at_end:
            cursor.fail()
        return self.placed(made, start)

    def placed(self, made: st.Statement, start: Token) -> st.Statement:
        """Note where a statement stands, and its text."""
        return replace(made, at=start.position, text=self.cursor.text_since(start))

    # --- INSERT and sets

    def _insert(self) -> st.Statement:
        cursor = self.cursor
        overwrite = cursor.expect_one_of("INTO", "OVERWRITE") == "OVERWRITE"
        cursor.take("TABLE")
        target = cursor.dotted_name("a table")
        options: st.Options = ()
        for name, arguments in self.queries.hints():
            if name == "OPTIONS":
                options += tuple(each for each in arguments if isinstance(each, tuple))
        partition = tuple((name, value) for name, value in self.partition() if value is not None)
        columns: tuple[str, ...] = ()
        if cursor.is_symbol("(") and not self.queries.at_query:
            columns = self._insert_columns()
            if not partition and cursor.is_word("PARTITION"):
                partition = tuple((name, value) for name, value in self.partition() if value is not None)
        if not self.queries.at_query:
            cursor.fail("SELECT", "VALUES", "WITH", "a query in parentheses")
        query = self.queries.parse()
        conflict = ""
        if cursor.take("ON", "CONFLICT"):
            cursor.expect("DO")
            conflict = cursor.expect_one_of("NOTHING", "ERROR", "DEDUPLICATE")
        return st.Insert(target, query, columns, partition, overwrite, options, conflict)

    def _insert_columns(self) -> tuple[str, ...]:
        cursor = self.cursor
        cursor.expect_symbol("(")
        names = [".".join(cursor.dotted_name("a column"))]
        while cursor.take_symbol(","):
            token = cursor.current
            name = ".".join(cursor.dotted_name("a column"))
            if name in names:
                raise cursor.error(f'column "{name}" is named twice', token=token)
            names.append(name)
        cursor.expect_symbol(")")
        return tuple(names)

    def partition(self) -> tuple[tuple[str, Expression | None], ...]:
        """Read `PARTITION (a = 1, b)` if it stands here."""
        cursor = self.cursor
        if not cursor.take("PARTITION"):
            return ()
        cursor.expect_symbol("(")
        found: list[tuple[str, Expression | None]] = []
        while True:
            name = cursor.name("a column")
            value = self.queries.expressions.parse(40) if cursor.take_symbol("=") else None
            found.append((name, value))
            if not cursor.take_symbol(","):
                break
        cursor.expect_symbol(")")
        return tuple(found)

    def _set_body(self) -> st.StatementSet:
        cursor = self.cursor
        cursor.expect("BEGIN")
        statements: list[st.Statement] = []
        while not cursor.take("END"):
            start = cursor.current
            if not cursor.take("INSERT"):
                cursor.fail("INSERT", "END")
            statements.append(self.placed(self._insert(), start))
            cursor.expect_symbol(";")
        if not statements:
            raise cursor.error("a statement set has no statement", token=cursor.tokens[cursor.index - 1])
        return st.StatementSet(tuple(statements))

    def _begin(self) -> st.Statement:
        self.cursor.expect("STATEMENT", "SET")
        return st.StatementSetMark(True)

    def _end(self) -> st.Statement:
        return st.StatementSetMark(False)

    def _execute(self) -> st.Statement:
        cursor, start = self.cursor, self.cursor.current
        if cursor.take("STATEMENT", "SET"):
            return self._set_body()
        if cursor.take("PLAN"):
            return st.ExecutePlan(cursor.string("a file in quotes"))
        if cursor.take("INSERT"):
            return self.placed(self._insert(), start)
        if self.queries.at_query:
            return st.QueryStatement(self.queries.parse())
        cursor.fail("STATEMENT SET", "PLAN", "INSERT", "SELECT")

    def _explain(self) -> st.Statement:
        cursor = self.cursor
        details: list[str] = []
        if not cursor.take("PLAN", "FOR"):
            while word := cursor.take_one_of(*_DETAILS):
                details.append(word)
                if not cursor.take_symbol(","):
                    break
        return st.Explain(self._explained(), tuple(details))

    def _explained(self) -> st.Statement:
        cursor, start = self.cursor, self.cursor.current
        if cursor.take("STATEMENT", "SET"):
            return self._set_body()
        if cursor.take("INSERT"):
            return self.placed(self._insert(), start)
        if cursor.take("EXECUTE"):
            return self._execute()
        if cursor.take("CREATE"):
            return self.placed(self.ddl.create(), start)
        if cursor.current.value in ("DELETE", "UPDATE", "UPSERT") and cursor.current.kind is TokenKind.WORD:
            word = cursor.advance().value
            return self._unsupported(word)
        if not self.queries.at_query:
            cursor.fail("SELECT", "INSERT", "STATEMENT SET", *_DETAILS)
        return self.placed(st.QueryStatement(self.queries.parse()), start)

    def _compile(self) -> st.Statement:
        cursor = self.cursor
        execute = cursor.take("AND", "EXECUTE")
        cursor.expect("PLAN")
        path = cursor.string("a file in quotes")
        if_not_exists = cursor.take("IF", "NOT", "EXISTS")
        cursor.expect("FOR")
        start = cursor.current
        if cursor.take("STATEMENT", "SET"):
            statement: st.Statement = self._set_body()
        else:
            cursor.expect("INSERT")
            statement = self.placed(self._insert(), start)
        return st.CompilePlan(path, statement, if_not_exists, execute)

    # --- session

    def _use(self) -> st.Statement:
        cursor = self.cursor
        if cursor.take("CATALOG"):
            return st.Use("CATALOG", (cursor.name("a catalog"),))
        if cursor.take("MODULES"):
            names = [cursor.name("a module")]
            while cursor.take_symbol(","):
                names.append(cursor.name("a module"))
            return st.Modules("USE", tuple(names))
        return st.Use("DATABASE", cursor.dotted_name("a database"))

    def _module(self, action: str) -> st.Statement:
        cursor = self.cursor
        cursor.expect("MODULE")
        name = cursor.name("a module")
        options = self.ddl.options() if action == "LOAD" and cursor.take("WITH") else ()
        return st.Modules(action, (name,), options)

    def _show(self) -> st.Statement:
        cursor = self.cursor
        word = cursor.expect_one_of(*_SHOWN)
        if word == "CREATE":
            kind = cursor.expect_one_of("TABLE", "VIEW", "CATALOG", "MATERIALIZED", "MODEL")
            if kind == "MATERIALIZED":
                cursor.expect("TABLE")
                kind = "MATERIALIZED TABLE"
            if kind in ("MATERIALIZED TABLE", "MODEL"):
                return self._unsupported(f"SHOW CREATE {kind}")
            return st.Show(f"CREATE {kind}", cursor.dotted_name("a name"))
        if word in ("CONNECTIONS", "MODELS", "MATERIALIZED"):
            if word == "MATERIALIZED":
                cursor.expect("TABLES")
                word = "MATERIALIZED TABLES"
            return self._unsupported(f"SHOW {word}")
        if word == "CURRENT":
            return st.Show(f"CURRENT {cursor.expect_one_of('CATALOG', 'DATABASE')}")
        if word == "FULL":
            cursor.expect("MODULES")
            return st.Show("FULL MODULES")
        if word == "USER":
            cursor.expect("FUNCTIONS")
            word = "USER FUNCTIONS"
        return self._show_list(word)

    def _show_list(self, word: str) -> st.Statement:
        cursor = self.cursor
        name: st.Name = ()
        if word == "PARTITIONS":
            name = cursor.dotted_name("a table")
            partition = tuple((key, value) for key, value in self.partition() if value is not None)
            return st.Show(word, name, partition=partition)
        if word in ("TABLES", "VIEWS", "FUNCTIONS", "USER FUNCTIONS", "PROCEDURES", "DATABASES", "COLUMNS"):
            if cursor.take_one_of("FROM", "IN"):
                name = cursor.dotted_name("a name")
            elif word == "COLUMNS":
                cursor.fail("FROM", "IN")
        if word in ("FILES", "JARS", "JOBS", "MODULES"):
            return st.Show(word)
        negated = cursor.take("NOT")
        kind = cursor.take_one_of("LIKE", "ILIKE")
        if negated and not kind:
            cursor.fail("LIKE", "ILIKE")
        like = cursor.string("a pattern in quotes") if kind else None
        return st.Show(word, name, like, kind != "ILIKE", negated)

    def _describe(self) -> st.Statement:
        cursor = self.cursor
        kind = "TABLE"
        behind = cursor.ahead(1)
        if behind.kind in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING):
            kind = cursor.take_one_of(*_DESCRIBED) or "TABLE"
        if kind in ("MODEL", "CONNECTION"):
            return self._unsupported(f"DESCRIBE {kind}")
        if kind == "JOB":
            return st.Describe(kind, (cursor.string("the id of a job in quotes"),))
        extended = cursor.take("EXTENDED")
        name = cursor.dotted_name("a table")
        self.partition()
        return st.Describe(kind, name, extended)

    def _set(self) -> st.Statement:
        cursor = self.cursor
        if cursor.at_end:
            return st.SetOption()
        if cursor.current.kind is TokenKind.STRING:
            key = cursor.string()
            cursor.expect_symbol("=")
            return st.SetOption(key, cursor.string("a value in quotes"))
        start = cursor.current
        while not cursor.at_end and not cursor.is_symbol("="):
            cursor.advance()
        key = cursor.text_since(start)
        cursor.expect_symbol("=")
        if cursor.is_string and (cursor.ahead(1).value == ";" or not cursor.ahead(1).text):
            return st.SetOption(key, cursor.string())
        return st.SetOption(key, self._raw("a value"))

    def _reset(self) -> st.Statement:
        cursor = self.cursor
        if cursor.at_end:
            return st.SetOption(reset=True)
        if cursor.current.kind is TokenKind.STRING:
            return st.SetOption(cursor.string(), reset=True)
        return st.SetOption(self._raw("an option"), reset=True)

    def _raw(self, what: str) -> str:
        cursor, start = self.cursor, self.cursor.current
        if cursor.at_end:
            cursor.fail(what)
        while not cursor.at_end:
            cursor.advance()
        return cursor.text_since(start)

    # --- others

    def _analyze(self) -> st.Statement:
        cursor = self.cursor
        cursor.expect("TABLE")
        name = cursor.dotted_name("a table")
        partition = self.partition()
        cursor.expect("COMPUTE", "STATISTICS")
        columns: tuple[str, ...] = ()
        every = False
        if cursor.take("FOR"):
            every = cursor.take("ALL")
            cursor.expect("COLUMNS")
            if not every:
                found = [cursor.name("a column")]
                while cursor.take_symbol(","):
                    found.append(cursor.name("a column"))
                columns = tuple(found)
        return st.Analyze(name, columns, every, partition)

    def _truncate(self) -> st.Statement:
        self.cursor.expect("TABLE")
        return st.Truncate(self.cursor.dotted_name("a table"))

    def _call(self) -> st.Statement:
        cursor = self.cursor
        name = cursor.dotted_name("a procedure")
        cursor.expect_symbol("(")
        arguments = () if cursor.is_symbol(")") else self._arguments()
        cursor.expect_symbol(")")
        return st.Call(name, arguments)

    def _arguments(self) -> tuple[Expression, ...]:
        cursor = self.cursor
        found = [self.queries.expressions.calls.argument()]
        while cursor.take_symbol(","):
            found.append(self.queries.expressions.calls.argument())
        return tuple(found)

    def _stop(self) -> st.Statement:
        cursor = self.cursor
        cursor.expect("JOB")
        job = cursor.string("the id of a job in quotes")
        savepoint = drain = False
        while cursor.take("WITH"):
            word = cursor.expect_one_of("SAVEPOINT", "DRAIN")
            savepoint, drain = savepoint or word == "SAVEPOINT", drain or word == "DRAIN"
        if drain and not savepoint:
            raise cursor.error("WITH DRAIN needs WITH SAVEPOINT", token=cursor.tokens[cursor.index - 1])
        return st.StopJob(job, savepoint, drain)

    def _jar(self, action: str) -> st.Statement:
        cursor = self.cursor
        kind = cursor.expect_one_of("JAR", "FILE", "FILES").removesuffix("S")
        paths = [cursor.string("a path in quotes")]
        while kind == "FILE" and cursor.take_symbol(","):
            paths.append(cursor.string("a path in quotes"))
        return st.JarCommand(action, kind, tuple(paths))

    def _unsupported(self, what: str) -> st.Statement:
        """Take the rest of a statement that millstream does not have."""
        cursor = self.cursor
        while not cursor.at_end:
            cursor.advance()
        return st.Unsupported(what)
