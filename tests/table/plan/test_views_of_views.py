"""Views of views: what is computed of what, without plans that double with each of them."""

from __future__ import annotations

from millstream.common import Configuration
from millstream.table import EnvironmentSettings, TableEnvironment


def doubling(times: int) -> TableEnvironment:
    options = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    settings = EnvironmentSettings.new_instance().with_configuration(options).in_streaming_mode().build()
    environment = TableEnvironment.create(settings)
    environment.execute_sql("CREATE VIEW v0 AS SELECT x FROM (VALUES (CAST(1 AS BIGINT)), (3)) AS t(x)")
    for number in range(times):
        environment.execute_sql(f"CREATE VIEW v{number + 1} AS SELECT x + x AS x FROM v{number}")
    return environment


def test_conditions_over_views_that_use_a_column_twice_are_planned_in_time() -> None:
    with doubling(40).execute_sql(f"SELECT x FROM v40 WHERE x > {2**41}").collect() as rows:
        assert [row[0] for row in rows] == [3 * 2**40]


def test_few_such_views_are_one_calc() -> None:
    plan = doubling(3).explain_sql("SELECT x FROM v3 WHERE x > 10").split("== Optimized Execution Plan ==")[1]
    assert plan.count("Calc(") == 1
