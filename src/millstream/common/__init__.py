"""What functions are made of, and PyFlink's names for what lives further down (`pyflink.common`)."""

from millstream.base.time import Duration, Instant, Time
from millstream.common.completable_future import CompletableFuture
from millstream.common.input_dependency_constraint import InputDependencyConstraint
from millstream.common.job_client import JobClient
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_id import JobID
from millstream.common.job_status import JobStatus
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config.config_options import ConfigOption, ConfigOptions
from millstream.config.configuration import Configuration
from millstream.config.execution_config import ExecutionConfig
from millstream.config.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from millstream.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
from millstream.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from millstream.formats.json.messages import JsonRowDeserializationSchema, JsonRowSerializationSchema
from millstream.spi.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from millstream.types.row import Row, RowKind
from millstream.types.serializer import TypeSerializer
from millstream.types.typeinfo import TypeInformation, Types

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
