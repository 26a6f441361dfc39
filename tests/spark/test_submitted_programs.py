"""Programs that `spark-submit` starts run in the JVM, on the master and with the settings that it gives them."""

from __future__ import annotations

import os
import subprocess
import sys

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = """
import os
from pyspark import SparkContext
from millstream.common import WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
sums = numbers.key_by(lambda n: n % 2).reduce(lambda a, b: a + b)
with sums.execute_and_collect() as found:
    print("SUM", max(found))
context = SparkContext._active_spark_context
print("SEEN", context.master, context.appName, context.getConf().get("spark.my.own"))
print("SAME", context._gateway.gateway_parameters.port == int(os.environ["PYSPARK_GATEWAY_PORT"]))
"""


def test_a_submitted_program_joins_what_spark_submit_has_started(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    submit = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit")
    command = [
        submit,
        "--master",
        "local[2]",
        "--name",
        "submitted",
        "--conf",
        "spark.my.own=17",
        str(program),
    ]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env=environment, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    told = dict(
        line.split(" ", 1) for line in ended.stdout.splitlines() if line[:4] in ("SUM ", "SEEN", "SAME")
    )
    assert told == {"SUM": "2550", "SEEN": "local[2] submitted 17", "SAME": "True"}
