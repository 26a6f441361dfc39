"""Where programs of the Table API and SQL begin (PyFlink's `TableEnvironment`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.config.configuration import Configuration
from millstream.table.catalog.catalog import Catalog as Keeper
from millstream.table.catalog.catalog import CatalogFunction, CatalogView
from millstream.table.catalog.definition import as_column, build_table, watermark_of
from millstream.table.catalog.descriptor import CatalogDescriptor
from millstream.table.catalog.factories import build_catalog
from millstream.table.catalog.manager import CatalogManager
from millstream.table.catalog.resolved import ResolvedTable
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.errors import SqlError, ValidationError
from millstream.table.installed import check_installed
from millstream.table.plan_reference import PlanReference
from millstream.table.result import TableResult
from millstream.table.schema import Schema
from millstream.table.session.executor import StatementExecutor
from millstream.table.sql import statements_ast as st
from millstream.table.sql.parser import parse_identifier, parse_query, parse_statement
from millstream.table.statement_set import StatementSet
from millstream.table.table_config import TableConfig
from millstream.table.table_descriptor import TableDescriptor

if TYPE_CHECKING:
    from millstream.table.catalog.api import Catalog
    from millstream.table.model_descriptor import ModelDescriptor
    from millstream.table.table import Table

__all__ = ["TableEnvironment"]


class TableEnvironment:
    """Declares tables, and runs SQL and Table programs.

    Args:
        stream_environment: The `StreamExecutionEnvironment` that jobs run in.
        settings: Mode and names of the first catalog and database.

    Raises:
        ConfigurationError: If the extra `sql` is not installed (pyarrow and numpy).

    Example:
        >>> from millstream.common import Configuration
        >>> from millstream.table import TableEnvironment
        >>> options = {"execution.target": "local", "execution.runtime-mode": "BATCH"}
        >>> t_env = TableEnvironment.create(Configuration.from_dict(options))
        >>> orders = t_env.from_elements([("ann", 10), ("bob", 25), ("ann", 5)], ["buyer", "amount"])
        >>> t_env.create_temporary_view("orders", orders)
        >>> totals = "SELECT buyer, SUM(amount) AS total FROM orders GROUP BY buyer ORDER BY buyer"
        >>> t_env.execute_sql(totals).print()
        +--------------------------------+----------------------+
        |                          buyer |                total |
        +--------------------------------+----------------------+
        |                            ann |                   15 |
        |                            bob |                   25 |
        +--------------------------------+----------------------+
        2 rows in set
    """

    def __init__(self, stream_environment: Any, settings: EnvironmentSettings | None = None) -> None:
        check_installed()
        names = settings or EnvironmentSettings.in_streaming_mode()
        self._environment = stream_environment
        self._config = TableConfig(stream_environment._configuration)
        self._catalogs = CatalogManager(names.get_built_in_catalog_name(), names.get_built_in_database_name())
        self._executor = StatementExecutor(stream_environment, self._catalogs, self._config)
        self._unnamed = itertools.count()

    @staticmethod
    def create(
        environment_settings: EnvironmentSettings | Configuration | None = None,
    ) -> TableEnvironment:
        """Make an environment.

        Args:
            environment_settings: Mode and options; streaming mode by default.

        Raises:
            TypeMismatchError: If it is something else.
        """
        from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment

        if isinstance(environment_settings, Configuration):
            builder = EnvironmentSettings.new_instance().with_configuration(environment_settings)
            environment_settings = builder.build()
        check_settings(environment_settings)
        environment = StreamExecutionEnvironment.get_execution_environment()
        if environment_settings is not None:
            environment.configure(environment_settings.get_configuration())
        return TableEnvironment(environment, environment_settings)

    def __repr__(self) -> str:
        mode = "streaming" if self._executor.streaming else "batch"
        return f"{type(self).__name__}({mode}, {len(self.list_tables())} tables)"

    def get_config(self) -> TableConfig:
        """Return the options; what is set there is set here."""
        return self._config

    # --- SQL

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement: of a query, the result has its rows; of an INSERT, its job runs when this returns.

        Raises:
            SqlError: If it is not of Flink's SQL, or something in it does not fit; shows where.
        """
        return self._executor.execute_text(stmt)

    def sql_query(self, query: str) -> Table:
        """Return a query as a table.

        Raises:
            SqlError: If it is not a query of Flink's SQL, or something in it does not fit; shows where.
        """
        tree = parse_query(query)
        try:
            return self._table(self._executor.bind(tree))
        except SqlError as error:
            error.in_text(query)
            raise

    def explain_sql(self, stmt: str, *extra_details: Any) -> str:
        """Return the plan of a query or INSERT as text.

        Args:
            stmt: The statement.
            extra_details: Of `ExplainDetail`.
        """
        statement = parse_statement(stmt)
        details = tuple(_detail_name(each) for each in extra_details)
        if isinstance(statement, st.Explain):
            details = statement.details + details
            statement = statement.statement
        try:
            return self._executor.explain(statement, details)
        except SqlError as error:
            error.in_text(stmt)
            raise

    def create_statement_set(self) -> StatementSet:
        """Return a set of INSERTs that will be one job."""
        return StatementSet(self)

    def compile_plan_sql(self, stmt: str) -> Any:
        """Return the plan of an INSERT, to be kept and executed later."""
        from millstream.table.plan.compiled import CompiledPlan

        statement = parse_statement(stmt)
        inserts = statement.statements if isinstance(statement, st.StatementSet) else (statement,)
        planned, targets = self._executor.plan_inserts(inserts)
        return CompiledPlan(self, planned, targets)

    def load_plan(self, plan_reference: PlanReference) -> Any:
        """Return a plan that was kept. It holds Python objects: load plans of people you trust only.

        Raises:
            TypeMismatchError: If it is no `PlanReference`.
            ConfigurationError: If it cannot be read, or is no plan of this version.
        """
        from millstream.table.plan.compiled import CompiledPlan, load_plan

        if not isinstance(plan_reference, PlanReference):
            raise TypeMismatchError(
                f"a plan was referred to by a {type(plan_reference).__name__}",
                hint="Use PlanReference.from_file(...) or from_json_string(...).",
            )
        return CompiledPlan(self, *load_plan(plan_reference.read(), self.plan_context()))

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Run a plan that was kept as a job; the job runs when this returns.

        Raises:
            TypeMismatchError: If it is no `PlanReference`.
            ConfigurationError: If it cannot be read, or is no plan of this version.
        """
        result: TableResult = self.load_plan(plan_reference).execute()
        return result

    # --- tables

    def create_temporary_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,
    ) -> None:
        """Declare a table for this session.

        Args:
            path: Its name.
            descriptor: What it is.
            ignoreIfExists: Whether one that is there is left as it is; else that is an error (PyFlink's spelling).

        Raises:
            ValidationError: If there is one of that name, or its parts do not fit.
        """
        self._create_table(path, descriptor, True, bool(ignoreIfExists))

    def create_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = False,
    ) -> bool:
        """Declare a table in its catalog; returns whether it was not there.

        Args:
            path: Its name.
            descriptor: What it is.
            ignoreIfExists: Whether one that is there is left as it is; else that is an error (PyFlink's spelling).

        Raises:
            ValidationError: If there is one of that name, or its parts do not fit.
        """
        return self._create_table(path, descriptor, False, bool(ignoreIfExists))

    def _create_table(
        self, path: str, descriptor: TableDescriptor, temporary: bool, if_not_exists: bool
    ) -> bool:
        table = self.resolve(parse_identifier(path), descriptor, temporary=temporary)
        if not (if_not_exists and self._catalogs.find(table.identifier) is not None):
            self._executor.check_table(table)
        return self._catalogs.create(table, if_not_exists=if_not_exists)

    def resolve(
        self, parts: Sequence[str], descriptor: TableDescriptor, *, temporary: bool = True
    ) -> ResolvedTable:
        """Return the table that a descriptor describes.

        Raises:
            TypeMismatchError: If it is no descriptor.
        """
        if not isinstance(descriptor, TableDescriptor):
            raise TypeMismatchError(
                f"a table was described by a {type(descriptor).__name__}",
                hint="Use TableDescriptor.for_connector(...).",
            )
        schema = descriptor.table_schema
        watermark, watermark_text = watermark_of(schema.watermark)
        return build_table(
            self._catalogs.qualify(parts),
            [as_column(each) for each in schema.definitions],
            watermark=watermark,
            watermark_text=watermark_text,
            primary_key=schema.key,
            partition_keys=descriptor.partition_keys,
            options=descriptor.get_options(),
            comment=descriptor.table_comment or "",
            temporary=temporary,
        )

    def from_path(self, path: str) -> Table:
        """Return a table or view by its name.

        Raises:
            ValidationError: If there is none.
        """
        from millstream.table.sql import ast

        parts = parse_identifier(path)
        self._catalogs.table(parts)
        query = ast.Select((ast.SelectItem(ast.Star()),), ast.TableName(parts))
        return self._table(self._executor.bind(query))

    def from_call(self, path_or_function: Any, *arguments: Any) -> Table:
        """Return what a process table function gives.

        Args:
            path_or_function: The function's name, or a `ProcessTableFunction`: an object or a class.
            arguments: Tables by `as_argument`, expressions, values; None leaves one out.

        Raises:
            ValidationError: If they do not fit.
        """
        from millstream.table.partitioned_table import call_of
        from millstream.table.sql import ast

        call = call_of(self, path_or_function, arguments)
        query = ast.Select((ast.SelectItem(ast.Star()),), ast.TableFunction(call))
        return self._table(self._executor.bind(query))

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return the rows of a table that has no name."""
        return self.from_path(self.register_unnamed(descriptor))

    def register_unnamed(self, descriptor: TableDescriptor) -> str:
        """Declare a table that only one expression uses; returns the name it was given."""
        name = f"*anonymous_{descriptor.connector}${next(self._unnamed) + 1}*"
        self._catalogs.create(self.resolve((name,), descriptor))
        return f"`{name}`"

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Any, *fields_or_schema: Any
    ) -> None:
        """Give a table, or a stream as a table, a name in this session.

        Args:
            view_path: The name.
            table_or_data_stream: A `Table`, or a `DataStream` whose records' type is declared.
            fields_or_schema: Of a stream: a `Schema`, or expressions that name the columns.

        Raises:
            ValidationError: If there is one of that name.
            TypeMismatchError: If it is neither, or a column does not fit.
        """
        from millstream.datastream.data_stream import DataStream

        table = table_or_data_stream
        if isinstance(table, DataStream):
            from millstream.table.session.streams import table_of_stream

            table = self._table(table_of_stream(self, table, fields_or_schema))
        elif fields_or_schema:
            raise TypeMismatchError(
                f"view {view_path} was given columns: those of a table are its own",
                hint="Name them with table.alias(...) before.",
            )
        self._create_view(view_path, table, True, False)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool | None = False) -> bool:
        """Give a table a name in its catalog; returns whether it was not there."""
        return self._create_view(view_path, table, False, bool(ignore_if_exists))

    def _create_view(self, path: str, table: Any, temporary: bool, if_not_exists: bool) -> bool:
        node = getattr(table, "node", None)
        if node is None:
            raise TypeMismatchError(f"a view was given a {type(table).__name__}, not a Table")
        view = CatalogView(self._catalogs.qualify(parse_identifier(path)), "", node, temporary=temporary)
        return self._catalogs.create(view, if_not_exists=if_not_exists)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Forget a table of this session; returns whether it was there."""
        return self._catalogs.drop(parse_identifier(table_path), view=False, temporary=True, if_exists=True)

    def drop_temporary_view(self, view_path: str) -> bool:
        """Forget a view of this session; returns whether it was there."""
        return self._catalogs.drop(parse_identifier(view_path), view=True, temporary=True, if_exists=True)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Remove a table from its catalog; returns whether it was there."""
        parts = parse_identifier(table_path)
        return self._catalogs.drop(parts, view=False, temporary=False, if_exists=bool(ignore_if_not_exists))

    def drop_view(self, view_path: str, ignore_if_not_exists: bool | None = True) -> bool:
        """Remove a view from its catalog; returns whether it was there."""
        parts = parse_identifier(view_path)
        return self._catalogs.drop(parts, view=True, temporary=False, if_exists=bool(ignore_if_not_exists))

    # --- values

    def from_elements(self, elements: Iterable[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """Return rows of Python values as a table.

        Args:
            elements: Tuples, lists, Rows, or bare values.
            schema: A row type, names of columns, or None for `_1`, `_2`, ...
            verify_schema: Whether each value is checked against its type.

        Raises:
            TypeMismatchError: If a value does not fit.
        """
        from millstream.table.session.elements import elements_table

        return self._table(elements_table(self._environment, elements, schema, verify_schema=verify_schema))

    def from_pandas(self, pdf: Any, schema: Any = None, splits_num: int = 1) -> Table:
        """Return the rows of a pandas DataFrame as a table.

        Args:
            pdf: The DataFrame.
            schema: A row type, a list of types, or names of columns; by default what the DataFrame has.
            splits_num: Accepted for compatibility.
        """
        from millstream.table.session.elements import pandas_table

        return self._table(pandas_table(self._environment, pdf, schema))

    def from_arrow(self, table: Any) -> Table:
        """Return the rows of an Arrow table as a table (millstream's own)."""
        from millstream.table.session.elements import arrow_table

        return self._table(arrow_table(self._environment, table))

    # --- functions

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Give a user's function a name that hides a built-in function's."""
        self._create_function((name,), function, system=True)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Give a user's function a name in this session."""
        self._create_function(self._catalogs.qualify(parse_identifier(path)), function, system=False)

    register_function = create_temporary_system_function

    def _create_function(self, identifier: tuple[str, ...], function: Any, *, system: bool) -> None:
        from millstream.table.catalog.python_functions import definition_of

        definition = definition_of(function, ".".join(identifier))
        class_name = f"{type(definition.function).__module__}.{definition.name}"
        made = CatalogFunction(identifier, class_name, definition=definition, temporary=True)
        self._catalogs.create_function(made, system=system)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Forget a function; returns whether it was there."""
        return self._catalogs.drop_function((name,), system=True, if_exists=True)

    def drop_temporary_function(self, path: str) -> bool:
        """Forget a function of this session; returns whether it was there."""
        return self._catalogs.drop_function(parse_identifier(path), temporary=True, if_exists=True)

    def drop_function(self, path: str) -> bool:
        """Remove a function from its catalog; returns whether it was there."""
        return self._catalogs.drop_function(parse_identifier(path), if_exists=True)

    def create_java_temporary_system_function(self, name: str, function_class_name: str) -> None:
        """Refuse a Java class.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_java(name, function_class_name)

    def create_java_function(
        self, path: str, function_class_name: str, ignore_if_exists: bool | None = None
    ) -> None:
        """Refuse a Java class.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_java(path, function_class_name)

    def create_java_temporary_function(self, path: str, function_class_name: str) -> None:
        """Refuse a Java class.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_java(path, function_class_name)

    # --- models

    def create_model(
        self, model_path: str, model_descriptor: ModelDescriptor, ignore_if_exists: bool | None = False
    ) -> None:
        """Refuse a model.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_models("create_model", model_path)

    def create_temporary_model(
        self, model_path: str, model_descriptor: ModelDescriptor, ignore_if_exists: bool | None = False
    ) -> None:
        """Refuse a model.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_models("create_temporary_model", model_path)

    def drop_model(self, model_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Return False: there are no models.

        Raises:
            ValidationError: If `ignore_if_not_exists` is not set.
        """
        if not ignore_if_not_exists:
            raise ValidationError(f'model "{model_path}" was not found: there are no models')
        return False

    def drop_temporary_model(self, model_path: str) -> bool:
        """Return False: there are no models."""
        return False

    # --- catalogs

    def create_catalog(self, catalog_name: str, catalog_descriptor: CatalogDescriptor) -> None:
        """Make a catalog by its options, as CREATE CATALOG does.

        Args:
            catalog_name: Its name.
            catalog_descriptor: Its options, `type` among them, and comment.

        Raises:
            ValidationError: If there is one of that name.
            ConfigurationError: If it names no type, or an option does not fit.
            TypeMismatchError: If it is no `CatalogDescriptor`.
        """
        if not isinstance(catalog_descriptor, CatalogDescriptor):
            raise TypeMismatchError(
                f'catalog "{catalog_name}" was described by a {type(catalog_descriptor).__name__}',
                hint="Use CatalogDescriptor.of(name, configuration).",
            )
        options = dict(catalog_descriptor.get_configuration().to_dict())
        made = build_catalog(catalog_name, options, catalog_descriptor.get_comment() or "")
        self._catalogs.register_catalog(catalog_name, made)

    def register_catalog(self, catalog_name: str, catalog: Catalog | Keeper) -> None:
        """Add a catalog.

        Args:
            catalog_name: Its name here.
            catalog: What `get_catalog` of another environment gave, or an object of a class of one's own.

        Raises:
            ValidationError: If there is one of that name.
            TypeMismatchError: If it is none.
        """
        from millstream.table.catalog.api import Catalog

        keeper = catalog.keeper if isinstance(catalog, Catalog) else catalog
        if not isinstance(keeper, Keeper):
            raise TypeMismatchError(f"register_catalog was given a {type(catalog).__name__}, not a Catalog")
        self._catalogs.register_catalog(catalog_name, keeper)

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """Return a catalog; None if there is none."""
        from millstream.table.catalog.api import Catalog

        if catalog_name not in self.list_catalogs():
            return None
        return Catalog(self._catalogs, catalog_name, self._view_schema)

    def _view_schema(self, view: CatalogView) -> Schema:
        bound = view.query if hasattr(view.query, "schema") else self._executor.bind(view.query)
        names = list(view.columns or bound.schema.names)
        return Schema(list(zip(names, bound.schema.types, strict=True)))

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog the current one."""
        self._catalogs.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        """Make a database of the current catalog the current one."""
        self._catalogs.use_database((database_name,))

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self._catalogs.current_catalog

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self._catalogs.current_database

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs."""
        return self._catalogs.catalogs()

    def list_databases(self) -> list[str]:
        """Return the names of the current catalog's databases."""
        return list(self._catalogs.catalog(self._catalogs.current_catalog).databases())

    def list_tables(self) -> list[str]:
        """Return the names of tables and views of the current database."""
        return self._catalogs.names()

    def list_views(self) -> list[str]:
        """Return the names of views of the current database."""
        return self._catalogs.views()

    def list_materialized_tables(self) -> list[str]:
        """Return no names: there are no materialized tables."""
        return []

    def list_models(self) -> list[str]:
        """Return no names: there are no models."""
        return []

    def list_temporary_models(self) -> list[str]:
        """Return no names: there are no models."""
        return []

    def list_temporary_tables(self) -> list[str]:
        """Return the names of tables and views of this session in the current database."""
        return self._catalogs.temporary_names()

    def list_temporary_views(self) -> list[str]:
        """Return the names of views of this session in the current database."""
        views = set(self._catalogs.views())
        return [name for name in self._catalogs.temporary_names() if name in views]

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of users' functions."""
        return self._catalogs.user_functions()

    def list_functions(self) -> list[str]:
        """Return the names of all functions."""
        return self._executor.function_names()

    def list_modules(self) -> list[str]:
        """Return the names of modules in use."""
        return [name for name, used in self._executor.modules if used]

    def list_full_modules(self) -> list[Any]:
        """Return all modules, and whether each is in use."""
        from millstream.table.module import ModuleEntry

        return [ModuleEntry(name, used) for name, used in self._executor.modules]

    def use_modules(self, *module_names: str) -> None:
        """Set the modules in use, in order; there is the module core only."""
        self._executor.execute(st.Modules("USE", module_names), "")

    def load_module(self, module_name: str, module: Any) -> None:
        """Refuse a module.

        Raises:
            NotSupportedError: Always.
        """
        self._executor.execute(st.Modules("LOAD", (module_name,)), "")

    def unload_module(self, module_name: str) -> None:
        """Refuse to unload a module.

        Raises:
            NotSupportedError: Always.
        """
        self._executor.execute(st.Modules("UNLOAD", (module_name,)), "")

    # --- files that users' functions need

    def add_python_file(self, file_path: str) -> None:
        """Ship a file or directory that functions import from."""
        self._environment.add_python_file(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Ship an archive, unpacked where functions run."""
        self._environment.add_python_archive(archive_path, target_dir)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Have packages installed where functions run."""
        self._environment.set_python_requirements(requirements_file_path, requirements_cache_dir)

    # --- what tables ask of their environment

    def plan_context(self) -> Any:
        """Return the surroundings of a query."""
        return self._executor.context()

    def execute_query(self, node: Any) -> TableResult:
        """Run a bound query; its rows come here."""
        return self._executor.run_query(node)

    def parse_path(self, path: str) -> tuple[str, ...]:
        """Return the parts of a table's name."""
        return parse_identifier(path)

    def execute_insert(self, node: Any, path: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Run a bound query into a table."""
        planned, target = self.plan_insert(node, path, overwrite)
        return self._executor.run_inserts([planned], [target])

    def plan_insert(self, node: Any, path: str | TableDescriptor, overwrite: bool = False) -> tuple[Any, str]:
        """Plan a bound query into a table; returns the plan and the table's full name.

        Raises:
            ValidationError: If there is no such table, or the query does not fit it.
        """
        name = path if isinstance(path, str) else self.register_unnamed(path)
        entry = self._catalogs.table(parse_identifier(name))
        if isinstance(entry, CatalogView):
            raise ValidationError(f'"{entry.full_name}" is a view and cannot be written')
        return self._executor.plan_insert(node, entry, overwrite=overwrite), entry.full_name

    def run_inserts(self, planned: Sequence[Any], targets: Sequence[str]) -> TableResult:
        """Run planned inserts as one job."""
        return self._executor.run_inserts(planned, targets)

    def explain_nodes(self, nodes: Sequence[Any], details: Sequence[Any] = ()) -> str:
        """Return the plans of bound queries as text."""
        from millstream.table.plan.explain import explain

        planned = [self._executor.plan_query(node) for node in nodes]
        text: str = explain(planned, self.plan_context(), tuple(_detail_name(each) for each in details))
        return text

    def explain_planned(self, planned: Sequence[Any], details: Sequence[Any] = ()) -> str:
        """Return plans as text."""
        from millstream.table.plan.explain import explain

        text: str = explain(list(planned), self.plan_context(), tuple(_detail_name(each) for each in details))
        return text

    def insert_of(self, text: str) -> tuple[Any, str]:
        """Plan an INSERT of a statement set; returns the plan and the table's full name.

        Raises:
            SqlError: If it is no INSERT, or something in it does not fit.
        """
        statement = parse_statement(text)
        if not isinstance(statement, st.Insert):
            raise ValidationError(
                "a statement set takes INSERT only",
                at=statement.at,
                hint="Run other statements with execute_sql.",
            ).in_text(text)
        try:
            planned, targets = self._executor.plan_inserts([statement])
        except SqlError as error:
            error.in_text(text)
            raise
        return planned[0], targets[0]

    def view_name_of(self, node: Any) -> str:
        """Give a table a name of its own that SQL texts can use (`"SELECT * FROM %s" % table`); returns it."""
        name = f"UnnamedTable${next(self._unnamed)}"
        view = CatalogView(self._catalogs.qualify((name,)), "", node, temporary=True)
        self._catalogs.create(view)
        return f"`{view.identifier[0]}`.`{view.identifier[1]}`.`{name}`"

    def _table(self, node: Any) -> Table:
        from millstream.table.table import Table

        return Table(self, node)


def check_settings(settings: object) -> None:
    """Refuse what are no settings.

    Raises:
        TypeMismatchError: If they are something else.
    """
    if settings is not None and not isinstance(settings, EnvironmentSettings):
        raise TypeMismatchError(
            f"environment_settings is a {type(settings).__name__}",
            hint="Use EnvironmentSettings.in_streaming_mode() or in_batch_mode().",
        )


def _detail_name(detail: Any) -> str:
    name = detail if isinstance(detail, str) else getattr(detail, "name", None)
    if not isinstance(name, str):
        raise ConfigurationError(f"{detail!r} is no ExplainDetail")
    return name.upper()


def _refuse_models(method: str, path: str) -> None:
    raise NotSupportedError(
        f'{method}("{path}"): models are not in millstream yet',
        hint="Call the model in a function of your own: udf(...), or an AsyncScalarFunction.",
    )


def _refuse_java(name: str, class_name: str) -> None:
    raise NotSupportedError(
        f'function "{name}" is the Java class {class_name}: millstream runs no Java classes',
        hint="Write it in Python, with udf(...), and use create_temporary_function(...).",
    )
