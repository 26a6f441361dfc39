"""The Table API and SQL (PyFlink's `pyflink.table`).

Names are imported from their modules when they are first used: types alone do not bring the planner in.
"""

import sys
from importlib import import_module, util
from typing import TYPE_CHECKING, Any

from millstream.base.errors import NotSupportedError
from millstream.base.not_yet import NotYetAttributeError
from millstream.table.environment_settings import EnvironmentSettings
from millstream.table.types import DataTypes, Row, RowKind

if TYPE_CHECKING:
    from millstream.table.environment import TableEnvironment
    from millstream.table.result import ResultKind, TableResult
    from millstream.table.schema import Schema
    from millstream.table.sql_dialect import SqlDialect
    from millstream.table.statement_set import StatementSet
    from millstream.table.stream_table_environment import StreamTableEnvironment
    from millstream.table.table_config import TableConfig
    from millstream.table.table_descriptor import FormatDescriptor, TableDescriptor

__all__ = [
    "DataTypes",
    "EnvironmentSettings",
    "FormatDescriptor",
    "ResultKind",
    "Row",
    "RowKind",
    "Schema",
    "SqlDialect",
    "StatementSet",
    "StreamTableEnvironment",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableResult",
]

_HOMES = {
    "AggregateFunction": "udf",
    "AggregatedTable": "table",
    "ArgumentHint": "process_functions",
    "ArgumentTrait": "process_functions",
    "AsyncScalarFunction": "udf",
    "Catalog": "catalog.api",
    "CatalogDescriptor": "catalog.descriptor",
    "ChangelogFunction": "process_functions",
    "ChangelogMode": "changelog_mode",
    "CompiledPlan": "plan.compiled",
    "DataView": "data_view",
    "ExplainDetail": "explain_detail",
    "ExplainFormat": "explain_detail",
    "Expression": "expression",
    "FlatAggregateTable": "table",
    "FormatDescriptor": "table_descriptor",
    "FunctionContext": "udf",
    "GroupWindow": "window",
    "GroupWindowedTable": "table",
    "GroupedTable": "table",
    "ListView": "data_view",
    "MapView": "data_view",
    "Module": "module",
    "ModuleEntry": "module",
    "OverWindow": "window",
    "OverWindowedTable": "table",
    "PartitionedTable": "partitioned_table",
    "PlanReference": "plan_reference",
    "ProcessTableFunction": "process_functions",
    "ResultKind": "result",
    "ScalarFunction": "udf",
    "Schema": "schema",
    "SqlDialect": "sql_dialect",
    "SortDirection": "process_functions",
    "StateHint": "process_functions",
    "StatementSet": "statement_set",
    "StreamTableEnvironment": "stream_table_environment",
    "Table": "table",
    "TableAggregateFunction": "udf",
    "TableConfig": "table_config",
    "TableDescriptor": "table_descriptor",
    "TableEnvironment": "environment",
    "TableFunction": "udf",
    "TablePipeline": "table_pipeline",
    "TableResult": "result",
    "TableSchema": "table_schema",
    "TableSemantics": "process_functions",
    "UserDefinedType": "types",
    "WindowGroupedTable": "table",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is not None and util.find_spec(f"{__name__}.{home}") is not None:
        found = getattr(import_module(f"{__name__}.{home}"), name, None)
        if found is not None:
            return found
    if not name[:1].isupper():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # What looks like an AttributeError becomes an ImportError without a word of ours in `from ... import Name`.
    imports = "importlib" in sys._getframe(1).f_code.co_filename
    raise (NotSupportedError if imports else NotYetAttributeError)(
        f'"{name}" of the Table API is not in millstream yet',
        detail="The Table API and SQL grow; the documentation says what there is.",
        hint="Use SQL, or the DataStream API.",
    )
