"""Jobs from one table into another are killed by SIGKILL between staging and commit, and go on under a new driver."""

from __future__ import annotations

import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField

pytestmark = pytest.mark.long

PROGRAM = """
import os, signal, sys
from millstream.base.crash_points import set_crash_hook
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.delta import DeltaSink, DeltaSource
from millstream.datastream.connectors.iceberg import IcebergSink, IcebergSource

directory, kind, place, count = sys.argv[1:]


class Kill:
    reached = 0

    def reach(self, name, detail):
        if name == place:
            self.reached += 1
            if self.reached == int(count):
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name, detail, action):
        return action()


set_crash_hook(Kill())
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "execution.checkpointing.dir": directory + "/checkpoints",
    "execution.checkpointing.interval": "1 ms",
    "millstream.epoch.fixed-records": 30}))
env.set_parallelism(2)
lake = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/wh"}
if kind == "delta":
    source = DeltaSource.builder().set_table(directory + "/in").build()
    sink = DeltaSink.builder().set_table(directory + "/out").build()
else:
    source = IcebergSource.builder().set_catalog("lake", lake).set_table("db.in").build()
    sink = IcebergSink.builder().set_catalog("lake", lake).set_table("db.out").build()
rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
rows.sink_to(sink)
env.execute("from lake to lake")
"""


def make_tables(kind, path):
    parts = [
        pa.table({"number": range(first, first + 100), "part": [first % 3] * 100})
        for first in range(0, 300, 100)
    ]
    if kind == "delta":
        for part in parts:
            write_deltalake(f"{path}/in", part, mode="append", partition_by=["part"])
        DeltaTable.create(f"{path}/out", parts[0].schema, partition_by=["part"])
        return lambda: DeltaTable(f"{path}/out").to_pyarrow_table()["number"].to_pylist()
    properties = {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/wh"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "number", LongType()), NestedField(2, "part", LongType()))
    source = catalog.create_table("db.in", schema)
    for part in parts:
        source.append(part)
    by_number = PartitionSpec(PartitionField(1, 1000, BucketTransform(3), "number_bucket"))
    catalog.create_table("db.out", schema, partition_spec=by_number)
    return lambda: catalog.load_table("db.out").scan().to_arrow()["number"].to_pylist()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("place", "count"),
    [
        pytest.param(
            "sink.precommitted", 3, marks=pytest.mark.long
        ),  # staged in one subtask, in no checkpoint
        ("manifest.published", 2),  # recorded, not committed
        ("sink.publish", 2),  # about to be committed
        ("sink.committed", 2),  # committed, and no later checkpoint knows
    ],
)
def test_a_killed_job_copies_every_row_once_and_leaves_no_hidden_file(tmp_path, kind, place, count):
    copied = make_tables(kind, tmp_path)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*flags, point=place):
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *flags]
        arguments = [str(program), str(tmp_path), kind, point, str(count)]
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=100, check=False
        )

    killed = run()
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = copied()
    assert len(seen) == len(set(seen)) < 300
    assert (place == "sink.committed") <= bool(seen)
    done = run("--recover", point="nowhere")
    assert done.returncode == 0, done.stderr
    assert sorted(copied()) == list(range(300))
    assert list(tmp_path.rglob(".part-*")) == []
