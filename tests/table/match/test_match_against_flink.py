"""MATCH_RECOGNIZE gives what PyFlink 2.3 gave of the same rows, however epochs cut them."""

from __future__ import annotations

import json

import pytest
from match_queries import QUERIES, RECORDED, lines, plain, table

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.table import StreamTableEnvironment

pytestmark = pytest.mark.filterwarnings("ignore::millstream.cep.GrowingStateWarning")

FLINK = json.loads(RECORDED.read_text())["results"]


def found(directory, parallelism, epoch):
    """Return the rows of all queries, by name, of one job."""
    (directory / "rows.csv").write_text("\n".join(lines()) + "\n")
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(parallelism)
    tables = StreamTableEnvironment.create(environment)
    tables.get_config().set("millstream.epoch.fixed-records", str(epoch))
    tables.execute_sql(table(str(directory)))
    streams = [
        tables.to_data_stream(tables.sql_query(query)).map(lambda row, name=name: (name, plain(row)))
        for name, query in QUERIES.items()
    ]
    rows = {name: [] for name in QUERIES}
    with streams[0].union(*streams[1:]).execute_and_collect() as results:
        for name, row in results:
            rows[name].append(row)
    return {name: sorted(each, key=repr) for name, each in rows.items()}


@pytest.mark.parametrize(("parallelism", "epoch"), [(1, 13), (2, 30)])
def test_rows_are_flinks(tmp_path, parallelism, epoch):
    rows = found(tmp_path, parallelism, epoch)
    differing = {
        name: {"here": rows[name], "flink": FLINK[name]["rows"]}
        for name in QUERIES
        if rows[name] != FLINK[name]["rows"]
    }
    assert not differing


def test_columns_are_flinks(tmp_path):
    """PyFlink gives types without their parameters."""
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    tables.execute_sql(table(str(tmp_path)))
    for name, query in QUERIES.items():
        schema = tables.sql_query(query).get_schema()
        types = [str(each).split("(")[0].split()[0] for each in schema.get_field_data_types()]
        assert schema.get_field_names() == FLINK[name]["names"], name
        assert [each.replace("STRING", "VARCHAR") for each in types] == FLINK[name]["types"], name
