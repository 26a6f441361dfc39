"""In processes of their own: which modules are imported is a matter of the whole process."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from millstream.base.late_pandas import import_pandas_late
import_pandas_late()
import_pandas_late()
import pyarrow as pa
assert pa.array([1, None], pa.int64()).null_count == 1
assert "pandas" not in sys.modules, "pyarrow imported pandas"
{}
"""
USES = {
    "import": """
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert pa.array(pd.Series([1, pd.NA], dtype=object)).null_count == 1
assert pa.array([pd.Timestamp(5), pd.NaT], from_pandas=True).null_count == 1
assert pa.Table.from_pandas(pd.DataFrame({"a": [1]})).num_rows == 1
""",
    "to_pandas": """
assert pa.table({"a": pa.array([1.5, None], pa.float64())}).to_pandas()["a"].isna().tolist() == [False, True]
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
""",
    "submodule": """
from pandas.api.types import is_integer_dtype
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert type(pd.__spec__.loader).__name__ == "SourceFileLoader"
""",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_pandas_is_known_when_it_is_used(use):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(use)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_small_query_does_without_pandas_and_asyncio(tmp_path):
    (tmp_path / "numbers.csv").write_text("1,a\n2,b\n3,a\n", encoding="utf-8")
    program = f"""
import sys
from millstream.table import EnvironmentSettings, TableEnvironment
environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
environment.get_config().set("execution.target", "local")
environment.execute_sql(
    "CREATE TABLE numbers (n BIGINT, name STRING) "
    "WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/numbers.csv', 'format' = 'csv')"
)
query = "SELECT UPPER(name), COUNT(*), SUM(n) FROM numbers WHERE n > 1 GROUP BY UPPER(name)"
with environment.execute_sql(query).collect() as rows:
    found = sorted(tuple(row) for row in rows)
assert found == [("A", 1, 3), ("B", 1, 2)], found
large = {{"pandas", "asyncio", "numpy.random"}} & set(sys.modules)
assert not large, large
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
