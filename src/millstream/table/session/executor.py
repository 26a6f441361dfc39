"""Executes statements: one method a kind, found by the class of the tree."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.errors import NotSupportedError
from millstream.config import options
from millstream.table.catalog.catalog import CatalogDatabase, CatalogFunction, CatalogView
from millstream.table.catalog.factories import build_catalog
from millstream.table.catalog.manager import CatalogManager
from millstream.table.catalog.resolved import ResolvedTable
from millstream.table.connectors.registry import find_connector
from millstream.table.errors import SqlError, ValidationError, did_you_mean
from millstream.table.expressions.rex import RowSchema
from millstream.table.result import TableResult
from millstream.table.session import contents, ddl, show
from millstream.table.session.jobs import SessionJobs
from millstream.table.sql import ast
from millstream.table.sql import statements_ast as st
from millstream.table.sql.parser import parse_statement
from millstream.table.table_config import TableConfig
from millstream.types.datatypes import DataType, VarCharType

__all__ = ["StatementExecutor"]


class StatementExecutor:
    """What a session knows, and what statements do to it.

    Args:
        environment: The `StreamExecutionEnvironment` that jobs run in.
        catalogs: All catalogs.
        config: The session's options.

    Attributes:
        catalogs: All catalogs.
        config: The session's options.
        modules: Names of modules, and whether each is used.
        files: Python files that were added.
    """

    def __init__(self, environment: Any, catalogs: CatalogManager, config: TableConfig) -> None:
        self.environment = environment
        self.catalogs: CatalogManager = catalogs
        self.config: TableConfig = config
        self._begun_with = dict(config.to_map())
        self.jobs = SessionJobs(environment, SystemClock())
        self.modules: list[tuple[str, bool]] = [("core", True)]
        self.files: list[str] = []
        self._pending: list[st.Insert] | None = None

    # --- texts

    def execute_text(self, text: str) -> TableResult:
        """Parse and execute one statement.

        Raises:
            SqlError: If it is not of Flink's SQL, or something in it does not fit; shows where.
        """
        return self.execute(parse_statement(text), text)

    def execute(self, statement: st.Statement, text: str) -> TableResult:
        """Execute a statement that was parsed of a text."""
        try:
            return self._executed(statement)
        except SqlError as error:
            error.in_text(text)
            raise
        except RecursionError:
            raise SqlError(
                "the statement is nested too deeply, with the views that it reads",
                hint="Have INSERT INTO write what an inner part gives to a table, and read that.",
            ) from None

    def _executed(self, statement: st.Statement) -> TableResult:
        if self._pending is not None and isinstance(statement, st.Insert):
            self._plan(statement)
            self._pending.append(statement)
            return TableResult.ok()
        if self._pending is not None and not isinstance(statement, st.StatementSetMark):
            raise ValidationError(
                "a statement set takes INSERT only",
                at=statement.at,
                hint="END; runs the INSERTs of the set, and ends it.",
            )
        method = _METHODS.get(type(statement))
        if method is None:
            raise NotSupportedError(f"{type(statement).__name__} is not in millstream yet")
        return method(self, statement)

    # --- the planner

    @property
    def streaming(self) -> bool:
        """Whether results are emitted as they come."""
        mode = self.environment._configuration.get(options.RUNTIME_MODE)
        return str(mode) != "BATCH"

    def context(self) -> Any:
        """Return the surroundings of a query."""
        from millstream.table.plan.context import PlanContext

        settings = {**self.config.to_map(), "table.local-time-zone": self.config.get_local_timezone()}
        return PlanContext(self.catalogs, settings, not self.streaming)

    def bind(self, query: Any) -> Any:
        """Return the bound plan of a query; of one that is bound, itself."""
        from millstream.table.plan.planner import to_logical

        return to_logical(query, self.context())

    def plan_query(self, query: Any, accepted: Any = None) -> Any:
        """Plan a query whose rows are collected."""
        from millstream.table.plan.planner import plan_query

        return (
            plan_query(query, self.context())
            if accepted is None
            else plan_query(query, self.context(), accepted)
        )

    def plan_insert(
        self,
        query: Any,
        table: ResolvedTable,
        *,
        columns: Sequence[str] = (),
        overwrite: bool = False,
        partition: Sequence[tuple[str, Any]] = (),
        conflict: str = "",
        at: ast.Position | None = None,
    ) -> Any:
        """Plan what fills a table."""
        from millstream.table.plan.planner import plan_sink

        if overwrite and self.streaming:
            raise ValidationError(
                "INSERT OVERWRITE needs batch mode",
                at=at,
                detail="A stream has no end at which what was there could be replaced.",
                hint="SET 'execution.runtime-mode' = 'batch', or write INSERT INTO.",
            )
        return plan_sink(
            query,
            table,
            self.context(),
            columns=columns,
            overwrite=overwrite,
            partition=partition,
            conflict=conflict,
            at=at,
        )

    def run_query(self, query: Any) -> TableResult:
        """Run a query; its rows come here."""
        planned = self.plan_query(query)
        schema: RowSchema = planned.logical.schema
        width = int(self.config.get("table.display.max-column-width", "30"))
        return self.jobs.collect(
            planned,
            schema,
            streaming=self.streaming,
            max_width=width,
            zone=self.config.get_local_timezone(),
        )

    def run_inserts(self, planned: Sequence[Any], targets: Sequence[str]) -> TableResult:
        """Run what fills tables, as one job."""
        replaced = [
            find_connector(each.physical.table).begin_overwrite()
            for each in planned
            if each.physical.table is not None and each.physical.overwrite
        ]
        result = self.jobs.insert(planned, targets)
        if replaced:
            result.wait()
            for finish in replaced:
                finish()
        if self.config.get("table.dml-sync", "false").lower() == "true":
            result.wait()
        return result

    def check_table(self, table: ResolvedTable) -> None:
        """Check what a table's expressions refer to, before it is kept.

        Raises:
            ValidationError: If a computed column or the watermark does not fit.
        """
        self._bound_table(table)

    def _bound_table(self, table: ResolvedTable) -> RowSchema:
        from millstream.table.plan.bind.tables import scan_of

        schema: RowSchema = scan_of(self.context(), table).schema
        return schema

    def column_types(self, table: ResolvedTable) -> Mapping[str, DataType]:
        """Return the types of all columns of a table, computed ones too."""
        schema = self._bound_table(table)
        return dict(zip(schema.names, schema.types, strict=True))

    def view_schema(self, view: CatalogView) -> RowSchema:
        """Return names and types of a view's columns."""
        schema: RowSchema = self.bind(view.query).schema
        if view.columns:
            return RowSchema(view.columns, schema.types, schema.rowtime, schema.proctime)
        return schema

    # --- queries and INSERT

    def _query(self, statement: st.QueryStatement) -> TableResult:
        return self.run_query(statement.query)

    def target(self, statement: st.Insert) -> ResolvedTable:
        """Return the table that an INSERT writes.

        Raises:
            ValidationError: If it is not there, or is a view.
        """
        entry = self.catalogs.table(statement.target)
        if isinstance(entry, CatalogView):
            raise ValidationError(f'"{entry.full_name}" is a view and cannot be written', at=statement.at)
        if not statement.options:
            return entry
        from dataclasses import replace

        return replace(entry, options={**entry.options, **dict(statement.options)})

    def _plan(self, statement: st.Insert) -> Any:
        table = self.target(statement)
        return self.plan_insert(
            statement.query,
            table,
            columns=statement.columns,
            overwrite=statement.overwrite,
            partition=statement.partition,
            conflict=statement.conflict,
            at=statement.at,
        )

    def _insert(self, statement: st.Insert) -> TableResult:
        return self.run_inserts([self._plan(statement)], [self.target(statement).full_name])

    def plan_inserts(self, statements: Sequence[st.Statement]) -> tuple[list[Any], list[str]]:
        """Plan INSERTs that are to be one job; returns the plans, and the full names of their tables."""
        inserts = [each for each in statements if isinstance(each, st.Insert)]
        return [self._plan(each) for each in inserts], [self.target(each).full_name for each in inserts]

    def _statement_set(self, statement: st.StatementSet) -> TableResult:
        return self.run_inserts(*self.plan_inserts(statement.statements))

    def _statement_set_mark(self, statement: st.StatementSetMark) -> TableResult:
        if statement.begins:
            if self._pending is not None:
                raise ValidationError("BEGIN STATEMENT SET inside a statement set", at=statement.at)
            self._pending = []
            return TableResult.ok()
        pending, self._pending = self._pending, None
        if pending is None:
            raise ValidationError("END without BEGIN STATEMENT SET before it", at=statement.at)
        if not pending:
            raise ValidationError("the statement set has no INSERT", at=statement.at)
        return self.run_inserts(*self.plan_inserts(pending))

    def explain(self, statement: st.Statement, details: Sequence[str] = ()) -> str:
        """Return the plan of a statement as text.

        Raises:
            ValidationError: If it has none.
        """
        from millstream.table.plan.explain import explain

        if isinstance(statement, st.QueryStatement):
            planned = [self.plan_query(statement.query)]
        elif isinstance(statement, st.Insert):
            planned = [self._plan(statement)]
        elif isinstance(statement, st.StatementSet):
            planned, _ = self.plan_inserts(statement.statements)
        elif isinstance(statement, st.CreateTable) and statement.query is not None:
            planned = [self.plan_query(statement.query)]
        else:
            raise ValidationError(
                f"{type(statement).__name__} has no plan",
                at=statement.at,
                hint="EXPLAIN takes a query or an INSERT.",
            )
        text: str = explain(planned, self.context(), tuple(details))
        return text

    def _explain(self, statement: st.Explain) -> TableResult:
        text = self.explain(statement.statement, statement.details)
        return TableResult.of_rows([("result", VarCharType())], [(text,)], raw=text)

    # --- tables, views, functions

    def _drop(self, statement: st.Drop) -> TableResult:
        manager = self.catalogs
        if statement.kind in ("TABLE", "VIEW"):
            manager.drop(
                statement.name,
                view=statement.kind == "VIEW",
                temporary=statement.temporary,
                if_exists=statement.if_exists,
            )
        elif statement.kind == "FUNCTION":
            manager.drop_function(
                statement.name,
                system=statement.system,
                temporary=statement.temporary,
                if_exists=statement.if_exists,
            )
        elif statement.kind == "CATALOG":
            manager.drop_catalog(statement.name[-1], if_exists=statement.if_exists)
        else:
            manager.drop_database(statement.name, if_exists=statement.if_exists, cascade=statement.cascade)
        return TableResult.ok()

    def _create_function(self, statement: st.CreateFunction) -> TableResult:
        check_language(statement.language, statement.name)
        identifier = statement.name if statement.system else self.catalogs.qualify(statement.name)
        function = CatalogFunction(identifier, statement.class_name, temporary=statement.temporary)
        self.catalogs.create_function(
            function, system=statement.system, if_not_exists=statement.if_not_exists
        )
        return TableResult.ok()

    def _alter_function(self, statement: st.AlterFunction) -> TableResult:
        check_language(statement.language, statement.name)
        found = self.catalogs.find_function(statement.name)
        if found is None:
            if statement.if_exists:
                return TableResult.ok()
            raise ValidationError(
                f'function "{".".join(statement.name)}" was not found',
                hint=did_you_mean(statement.name[-1], self.catalogs.user_functions()),
            )
        changed = CatalogFunction(found.identifier, statement.class_name, temporary=found.temporary)
        self.catalogs.create_function(changed, replaced=True)
        return TableResult.ok()

    def function_names(self) -> list[str]:
        """Return the names of all functions, built-in ones and users', as SHOW FUNCTIONS lists them."""
        from millstream.table.functions.registry import function_names

        return sorted({name.lower() for name in function_names()} | set(self.catalogs.user_functions()))

    def function_facts(self, name: st.Name) -> list[tuple[str, str]]:
        """Return what is known of a function.

        Raises:
            ValidationError: If it is not there.
        """
        found = self.catalogs.find_function(name)
        if found is not None:
            return [
                ("is system function", "false"),
                ("is temporary", str(found.temporary).lower()),
                ("class name", found.class_name),
                ("function language", found.language),
            ]
        if name[-1].lower() not in self.function_names():
            raise ValidationError(
                f'function "{".".join(name)}" was not found',
                hint=did_you_mean(name[-1], self.function_names()),
            )
        return [("is system function", "true"), ("is temporary", "false"), ("kind", "built-in")]

    # --- catalogs and databases

    def _create_catalog(self, statement: st.CreateCatalog) -> TableResult:
        if statement.name in self.catalogs.catalogs() and statement.if_not_exists:
            return TableResult.ok()
        configuration = self.environment._configuration
        catalog = build_catalog(statement.name, dict(statement.options), statement.comment, configuration)
        self.catalogs.register_catalog(statement.name, catalog)
        return TableResult.ok()

    def _alter_catalog(self, statement: st.AlterCatalog) -> TableResult:
        catalog = self.catalogs.catalog(statement.name)
        if statement.comment is not None:
            catalog.comment = statement.comment
        catalog.options.update(dict(statement.set_options))
        for key in statement.reset_options:
            catalog.options.pop(key, None)
        return TableResult.ok()

    def _create_database(self, statement: st.CreateDatabase) -> TableResult:
        self.catalogs.create_database(
            statement.name,
            CatalogDatabase(statement.comment, dict(statement.options)),
            if_not_exists=statement.if_not_exists,
        )
        return TableResult.ok()

    def _alter_database(self, statement: st.AlterDatabase) -> TableResult:
        self.catalogs.alter_database(statement.name, dict(statement.set_options))
        return TableResult.ok()

    def _use(self, statement: st.Use) -> TableResult:
        if statement.kind == "CATALOG":
            self.catalogs.use_catalog(statement.name[0])
        else:
            self.catalogs.use_database(statement.name)
        return TableResult.ok()

    def _modules(self, statement: st.Modules) -> TableResult:
        known = dict(self.modules)
        if statement.action == "LOAD":
            raise NotSupportedError(
                f'module "{statement.names[0]}" is not in millstream', detail="There is the module core only."
            )
        for name in statement.names:
            if name not in known:
                raise ValidationError(
                    f'module "{name}" was not found', detail=f"There are: {', '.join(known)}."
                )
        if statement.action == "UNLOAD":
            raise NotSupportedError("the module core cannot be unloaded: the functions are in it")
        if list(statement.names) != ["core"]:
            raise ValidationError("USE MODULES names a module twice")
        return TableResult.ok()

    # --- options

    def set_option(self, key: str, value: str) -> None:
        """Set an option of the session.

        Raises:
            ConfigurationError: If the value does not fit.
        """
        if key == "table.sql-dialect" and value.lower() != "default":
            raise NotSupportedError(f'the SQL dialect "{value}" is not in millstream')
        if key == options.RUNTIME_MODE.key:
            value = value.upper()
        if key == "table.local-time-zone":
            self.config.set_local_timezone(value)
            return
        self.config.set(key, value)

    def _set(self, statement: st.SetOption) -> TableResult:
        if statement.reset:
            for key in [statement.key] if statement.key else list(self.config.to_map()):
                self.config.reset(key)
                if key in self._begun_with:
                    self.set_option(key, self._begun_with[key])
            return TableResult.ok()
        if not statement.key:
            rows = sorted(self.config.to_map().items())
            return TableResult.of_rows([("key", VarCharType()), ("value", VarCharType())], rows)
        self.set_option(statement.key, statement.value)
        return TableResult.ok()

    # --- jobs and the rest

    def job_rows(self) -> list[tuple[str, str, str, str]]:
        """Return id, name, status and start of the session's jobs, the last one first."""
        rows = []
        for record in reversed(self.jobs.records):
            status = record.client.get_job_status().result().name
            started = datetime.datetime.fromtimestamp(record.started_ms / 1000, datetime.UTC)
            rows.append((record.job_id, record.name, status, started.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]))
        return rows

    def _stop_job(self, statement: st.StopJob) -> TableResult:
        record = next((each for each in self.jobs.records if each.job_id == statement.job), None)
        if record is None:
            raise ValidationError(f'job "{statement.job}" was not found', hint="SHOW JOBS lists them.")
        if not statement.savepoint:
            record.client.cancel().result()
            return TableResult.ok()
        directory = self.config.get("execution.checkpointing.savepoint-dir", "") or None
        path = record.client.stop_with_savepoint(statement.drain, directory).result()
        return TableResult.of_rows([("savepoint path", VarCharType())], [(path,)])

    def _compile_plan(self, statement: st.CompilePlan) -> TableResult:
        from millstream.table.session.compiled import compile_to_file

        return compile_to_file(self, statement)

    def _execute_plan(self, statement: st.ExecutePlan) -> TableResult:
        from millstream.table.session.compiled import execute_file

        return execute_file(self, statement)

    def _unsupported(self, statement: st.Unsupported) -> TableResult:
        raise NotSupportedError(
            f"{statement.what} is not in millstream", detail="Flink's SQL has it; millstream's does not yet."
        )


def check_language(language: str, name: Sequence[str]) -> None:
    """Refuse functions that are not Python's.

    Raises:
        NotSupportedError: If it is another language.
    """
    if language not in ("PYTHON", ""):
        raise NotSupportedError(
            f'function "{".".join(name)}" is of the language {language}',
            hint="Write it in Python: LANGUAGE PYTHON.",
        )
    if language == "":
        raise NotSupportedError(
            f'function "{".".join(name)}" has no language, which means JAVA in Flink',
            hint="Write it in Python: AS 'module.attribute' LANGUAGE PYTHON.",
        )


_METHODS: dict[type[st.Statement], Callable[[Any, Any], TableResult]] = {
    st.AlterCatalog: StatementExecutor._alter_catalog,
    st.AlterDatabase: StatementExecutor._alter_database,
    st.AlterFunction: StatementExecutor._alter_function,
    st.AlterTable: ddl.alter_table,
    st.AlterView: ddl.alter_view,
    st.Analyze: contents.analyze,
    st.Call: contents.call,
    st.CompilePlan: StatementExecutor._compile_plan,
    st.CreateCatalog: StatementExecutor._create_catalog,
    st.CreateDatabase: StatementExecutor._create_database,
    st.CreateFunction: StatementExecutor._create_function,
    st.CreateTable: ddl.create_table,
    st.CreateView: ddl.create_view,
    st.Describe: show.describe,
    st.Drop: StatementExecutor._drop,
    st.ExecutePlan: StatementExecutor._execute_plan,
    st.Explain: StatementExecutor._explain,
    st.Insert: StatementExecutor._insert,
    st.JarCommand: contents.change_files,
    st.Modules: StatementExecutor._modules,
    st.QueryStatement: StatementExecutor._query,
    st.SetOption: StatementExecutor._set,
    st.Show: show.show,
    st.StatementSet: StatementExecutor._statement_set,
    st.StatementSetMark: StatementExecutor._statement_set_mark,
    st.StopJob: StatementExecutor._stop_job,
    st.Truncate: contents.truncate_table,
    st.Unsupported: StatementExecutor._unsupported,
    st.Use: StatementExecutor._use,
}
