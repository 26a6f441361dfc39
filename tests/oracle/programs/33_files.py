"""Text files of a folder, read in parallel, counted by word."""

import tempfile
from pathlib import Path

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "one.txt").write_text(
        "to be or\nnot to be\n\nthat ist die Frage: sein oder nicht sein\n", "utf-8"
    )
    Path(folder, "two.txt").write_text("être ou\nne pas être", "utf-8")
    Path(folder, ".hidden").write_text("hidden\n", "utf-8")
    Path(folder, "_too").write_text("hidden\n", "utf-8")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    lines = env.from_source(
        source.process_static_file_set().build(), WatermarkStrategy.no_watermarks(), "files"
    )
    lines.map(lambda line: f"<{line}>", Types.STRING()).print("line")
    lines.flat_map(str.split).map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
        lambda pair: pair[0]
    ).reduce(lambda one, other: (one[0], one[1] + other[1])).print("count")
    env.execute()
