"""Vocabulary of all layers, under PyFlink's names (`pyflink.common`).

PyFlink has the schemas of messages here too. They are made of this vocabulary, in a layer above, and are imported when
they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from millstream.common.completable_future import CompletableFuture
from millstream.common.config_options import ConfigOption, ConfigOptions
from millstream.common.configuration import Configuration
from millstream.common.execution_config import ExecutionConfig
from millstream.common.input_dependency_constraint import InputDependencyConstraint
from millstream.common.job_client import JobClient
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_id import JobID
from millstream.common.job_status import JobStatus
from millstream.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from millstream.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from millstream.common.serializer import TypeSerializer
from millstream.common.time import Duration, Instant, Time
from millstream.common.typeinfo import TypeInformation, Types
from millstream.common.types import Row, RowKind
from millstream.common.watermark_strategy import WatermarkStrategy

if TYPE_CHECKING:
    from millstream.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
    from millstream.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
    from millstream.formats.json.messages import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "InputDependencyConstraint",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "TypeSerializer",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]

_IN_FORMATS = {
    f"{name}Row{kind}Schema": f"millstream.formats.{name.lower()}.messages"
    for name in ("Avro", "Csv", "Json")
    for kind in ("Deserialization", "Serialization")
}


def __getattr__(name: str) -> Any:
    if name not in _IN_FORMATS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_IN_FORMATS[name]), name)
