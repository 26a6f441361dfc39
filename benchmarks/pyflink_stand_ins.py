"""What stands in for the Java half of PyFlink's test base, so that PyFlink's own tests can judge millstream.

PyFlink's tests start a mini cluster in a JVM, write options through its environment, collect results in a sink
written in Java and look into Java objects. Here:

===============================  ============================================================================
PyFlink's test base              what stands in for it
===============================  ============================================================================
the cluster of the base classes  an environment of millstream; the tests use parallelism 2, as in PyFlink
`DataStreamTestSinkFunction`     a SinkFunction that appends what it is given to files; `get_results(False)`
                                 gives what Java's `toString` would, by the stream's declared type
`get_j_env_configuration(...)`   the environment's options under Java's method names
`Configuration(j_configuration)` a Configuration that shares the environment's values
`_j_serialization_schema`, ...   the schema itself
Java's `Row`, in tests of schemas  millstream's Row with Java's `setField` and `equals`
`PerElementWatermarkGenerator`   a WatermarkGenerator that does what that class does
`PartitionCustomTestMapFunction`  a MapFunction that checks the same: each record is where the partitioner sent it
constants and keys of options    their values in Flink 2.3
`Py4JJavaError`                  what `execute()` of millstream raises
===============================  ============================================================================

Everything else of the gateway raises `NeedsJvm`: what such a test judges is an object of Java, not behaviour.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import types
import unittest
import uuid
from pathlib import Path
from typing import Any

from py4j import protocol

import millstream.common.configuration as configuration
import millstream.common.serialization as serialization
import millstream.common.typeinfo as typeinfo
import millstream.datastream.state_backend as state_backend
import millstream.datastream.streams.data_stream as data_stream
from millstream.base.errors import MillstreamError
from millstream.common.functions import MapFunction, SinkFunction
from millstream.common.types import Row
from millstream.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkStrategy,
)
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.spi.sink import Sink
from millstream.spi.source import Source

__all__ = ["NeedsJvm", "install"]


class NeedsJvm(BaseException):
    """A test asked for an object of Java.

    No Exception, so that a test that expects just any exception does not pass because of it.
    """


class JavaNames:
    """A package or class of Java by name; only the few that have a stand-in can be called."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __getattr__(self, part: str) -> Any:
        name = f"{self._name}.{part}".lstrip(".")
        return STAND_INS.get(name) or JavaNames(name)

    def __call__(self, *arguments: Any) -> Any:
        raise NeedsJvm(self._name)

    def __eq__(self, other: object) -> bool:
        raise NeedsJvm(self._name)

    __hash__ = None


def needs_jvm(*arguments: Any, **options: Any) -> Any:
    """Raise NeedsJvm."""
    raise NeedsJvm(", ".join(map(repr, arguments)))


class JavaRow(Row):
    """Java's Row, as far as PyFlink's tests of schemas use it."""

    def __init__(self, arity: int) -> None:
        super().__init__(*[None] * arity)

    def setField(self, position: int, value: Any) -> None:
        self[position] = value

    def equals(self, other: Any) -> bool:
        return _by_position(self) == _by_position(other)

    @property
    def __class__(self) -> type:
        return Row


def _by_position(value: Any) -> Any:
    """Return rows as lists, whatever their fields are called: Java's rows have no names."""
    return list(map(_by_position, value)) if isinstance(value, Row) else value


class PerElement(WatermarkGenerator):
    """A watermark at the timestamp of each record."""

    def on_event(self, value: Any, timestamp_ms: int, output: Any) -> None:
        output.emit_watermark(timestamp_ms)

    def on_periodic_emit(self, output: Any) -> None:
        pass


class IsWhereItBelongs(MapFunction):
    """Checks that a record's second field tells the subtask that it came to."""

    def open(self, runtime_context: Any) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()
        self._parallelism = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        if value[1] % self._parallelism != self._subtask:
            raise RuntimeError(f"record {value} came to subtask {self._subtask}")
        return value


class JavaStream:
    """`_j_data_stream` of a stream, as far as a function that has a stand-in may be put behind it."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def map(self, function: Any) -> JavaStream:
        return JavaStream(self.stream.map(function, output_type=self.stream.get_type()))

    def __getattr__(self, name: str) -> Any:
        raise NeedsJvm(name)


class OptionKey:
    """An option of Java: its key."""

    def __init__(self, key: str) -> None:
        self._key = key

    def key(self) -> str:
        return self._key


STAND_INS: dict[str, Any] = {
    "org.apache.flink.api.common.ExecutionConfig.PARALLELISM_DEFAULT": -1,
    "org.apache.flink.api.common.ExecutionConfig.PARALLELISM_UNKNOWN": -2,
    "org.apache.flink.configuration.ExecutionOptions.RUNTIME_MODE": OptionKey("execution.runtime-mode"),
    "org.apache.flink.configuration.PipelineOptions.CLASSPATHS": OptionKey("pipeline.classpaths"),
    "org.apache.flink.configuration.PipelineOptions.JARS": OptionKey("pipeline.jars"),
    "org.apache.flink.python.util.PartitionCustomTestMapFunction": IsWhereItBelongs,
    "org.apache.flink.python.util.PythonConfigUtil.getEnvironmentConfig": lambda environment: (
        environment.getConfiguration()
    ),
    "org.apache.flink.runtime.state.storage.JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE": 5
    * 1024
    * 1024,
    "org.apache.flink.types.Row": JavaRow,
    "org.apache.flink.connector.testutils.formats.DummyInitializationContext": lambda: None,
    "org.apache.flink.api.common.eventtime.WatermarkStrategy.forGenerator": lambda supplier: supplier,
    "org.apache.flink.streaming.api.functions.python.eventtime.PerElementWatermarkGenerator.getSupplier": lambda: (
        PerElement
    ),
}


class JavaConfiguration:
    """The options of an environment under the names of Java's methods."""

    def __init__(self, values: configuration.Configuration) -> None:
        self.values = values

    def setString(self, key: str, value: str) -> None:
        self.values.set_string(key, value)

    def setInteger(self, key: str, value: int) -> None:
        self.values.set_integer(key, value)

    def getString(self, key: str, default: str | None) -> str | None:
        return self.values.get_string(key, default)

    def getValue(self, option: OptionKey) -> Any:
        return self.values.get_string(option.key())


class JavaEnvironment:
    """`_j_stream_execution_environment` of an environment."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        self.environment = environment

    def getConfiguration(self) -> JavaConfiguration:
        return JavaConfiguration(self.environment._configuration)

    def __getattr__(self, name: str) -> Any:
        raise NeedsJvm(name)


class JavaSchema:
    """`_j_serialization_schema` and `_j_deserialization_schema` of a schema: itself, with Java's `open`."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def open(self, context: Any) -> None:
        pass

    def serialize(self, value: Any) -> bytes:
        return self._schema.serialize(value)

    def deserialize(self, message: bytes) -> Any:
        return self._schema.deserialize(message)


class CollectingSink(SinkFunction):
    """`DataStreamTestSinkFunction`: keeps all records, in a directory so that any process can write them."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="pyflink-tests-")
        self.value_type: Any = None
        self._file: Any = None

    def open(self, runtime_context: Any) -> None:
        self._file = open(Path(self.directory) / uuid.uuid4().hex, "wb")  # noqa: SIM115 - closed in close()

    def invoke(self, value: Any) -> None:
        pickle.dump(value, self._file)
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Any]:
        """Return what was collected, and forget it."""
        values = [value for path in sorted(Path(self.directory).iterdir()) for value in _load(path)]
        self.clear()
        if not is_python_object:
            return [self.value_type.to_text(value) for value in values]
        return [str(value) for value in values] if stringify else values

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory)


def _load(path: Path) -> list[Any]:
    values = []
    with path.open("rb") as file:
        while True:
            try:
                values.append(pickle.load(file))
            except EOFError:
                return values


class SecondColumnTimestampAssigner(TimestampAssigner):
    """The timestamp is the second field."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class PyFlinkTestCase(unittest.TestCase):
    """Base of all: a directory for temporary files."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.tempdir = tempfile.mkdtemp(prefix="pyflink-tests-")

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.tempdir, ignore_errors=True)


class PyFlinkStreamingTestCase(PyFlinkTestCase):
    """Base of tests of streams."""

    mode = RuntimeExecutionMode.STREAMING

    def setUp(self) -> None:
        self.env = StreamExecutionEnvironment.get_execution_environment()
        self.env.set_parallelism(2)
        self.env.set_runtime_mode(self.mode)


class PyFlinkBatchTestCase(PyFlinkStreamingTestCase):
    """Base of tests in batch mode."""

    mode = RuntimeExecutionMode.BATCH


class PythonAPICompletenessTestCase:
    """Compares the methods of a Java class with those of PyFlink's."""

    def test_completeness(self) -> None:
        raise NeedsJvm("reflection")


def install() -> None:
    """Put the stand-ins where PyFlink's tests import them from, below the names of `millstream.compat`."""
    _module(
        "pyflink.testing.test_case_utils",
        PyFlinkTestCase=PyFlinkTestCase,
        PyFlinkITTestCase=PyFlinkStreamingTestCase,
        PyFlinkUTTestCase=PyFlinkStreamingTestCase,
        PyFlinkStreamingTestCase=PyFlinkStreamingTestCase,
        PyFlinkBatchTestCase=PyFlinkBatchTestCase,
        PythonAPICompletenessTestCase=PythonAPICompletenessTestCase,
        exec_insert_table=needs_jvm,
        to_java_data_structure=needs_jvm,
        invoke_java_object_method=needs_jvm,
    )
    _module("pyflink.testing")
    _module(
        "pyflink.datastream.tests.test_util",
        DataStreamTestSinkFunction=CollectingSink,
        SecondColumnTimestampAssigner=SecondColumnTimestampAssigner,
    )
    _module("pyflink.java_gateway", get_gateway=lambda: types.SimpleNamespace(jvm=JavaNames()))
    _module(
        "pyflink.util.java_utils",
        get_j_env_configuration=lambda environment: environment.getConfiguration(),
        **dict.fromkeys(("get_field_value", "is_instance_of", "load_java_class", "to_jarray"), needs_jvm),
    )
    _module("pyflink.find_flink_home", _find_flink_source_root=needs_jvm)
    _module("pyflink.pyflink_gateway_server", on_windows=lambda: False)
    protocol.Py4JJavaError = MillstreamError
    typeinfo._from_java_type = needs_jvm
    state_backend._from_j_state_backend = needs_jvm
    for schema in (serialization.SerializationSchema, serialization.DeserializationSchema):
        schema._j_serialization_schema = schema._j_deserialization_schema = property(JavaSchema)
    StreamExecutionEnvironment._j_stream_execution_environment = property(JavaEnvironment)
    WatermarkStrategy._j_watermark_strategy = property(needs_jvm)
    data_stream.DataStream._j_data_stream = property(JavaStream)
    _wrap_java_streams()
    typeinfo.TypeInformation.get_java_type_info = needs_jvm
    Source.get_java_function = Sink.get_java_function = needs_jvm
    _share_configurations()
    _tell_sinks_their_type()


def _module(name: str, **attributes: Any) -> None:
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    module.__path__ = []
    sys.modules[name] = module


def _share_configurations() -> None:
    """Let `Configuration(j_configuration=...)` share values with the environment it came from."""
    plain = configuration.Configuration.__init__

    def initialise(self: Any, other: Any = None, *, j_configuration: Any = None) -> None:
        plain(self, other)
        if j_configuration is not None:
            self.__dict__.update(j_configuration.values.__dict__)

    configuration.Configuration.__init__ = initialise


def _wrap_java_streams() -> None:
    """Let `DataStream(java_stream)` give the stream back that is in it."""
    plain = data_stream.DataStream.__init__

    def initialise(self: Any, first: Any, *others: Any) -> None:
        if isinstance(first, JavaStream):
            self.__dict__.update(first.stream.__dict__)
        else:
            plain(self, first, *others)

    data_stream.DataStream.__init__ = initialise


def _tell_sinks_their_type() -> None:
    """Note the declared type of the stream in the sink that collects it."""
    plain = data_stream.DataStream.add_sink

    def add_sink(self: Any, sink: Any) -> Any:
        if isinstance(sink, CollectingSink):
            sink.value_type = self.get_type()
        return plain(self, sink)

    data_stream.DataStream.add_sink = add_sink
