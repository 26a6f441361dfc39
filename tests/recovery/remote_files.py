"""Programs that write files to servers, and read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from storage_programs import NUMBERS

from millstream.common import Configuration, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSource, StreamFormat

RECORDS = 210
WANTED = Counter(f"{key}:{count}" for key in range(7) for count in range(1, RECORDS // 7 + 1))


def environment_of(options: Mapping[str, Any], target: str) -> StreamExecutionEnvironment:
    """Return an environment whose jobs fail never, with two subtasks."""
    configuration = Configuration.from_dict({"execution.target": target, **options})
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)


def write(location: str, options: Mapping[str, Any], target: str = "local") -> None:
    """Write what `WANTED` says, with checkpoints between."""
    environment = environment_of(
        {"millstream.epoch.fixed-records": 20, "execution.checkpointing.interval": "1 ms", **options}, target
    )
    NUMBERS["build"](environment, location, RECORDS, 100_000)
    environment.execute("write")


def read(location: str, options: Mapping[str, Any], target: str = "local") -> Counter[str]:
    """Return the lines of all files below a location."""
    environment = environment_of(options, target)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), location).build()
    lines = environment.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with lines.map(lambda line: line).execute_and_collect() as results:
        return Counter(results)
