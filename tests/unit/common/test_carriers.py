"""Restart strategies, storages, backends, type conversions: what holds settings and gives them back."""

from __future__ import annotations

import abc
import datetime
import pickle
from dataclasses import dataclass

import pytest

from millstream import datastream
from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common import Configuration, Instant, RestartStrategies, Row, RowKind, Types
from millstream.common.utils import JavaObjectWrapper
from millstream.datastream import (
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemorySize,
    SlotSharingGroup,
)
from millstream.datastream.connectors.file_system import FileSink, OutputFileConfig
from millstream.datastream.state_backend import CustomStateBackend
from millstream.datastream.utils import ResultTypeQueryable
from millstream.spi.serialization import Encoder, RowFieldExtractorSchema
from millstream.table import EnvironmentSettings
from millstream.types.typeinfo import BasicType, BasicTypeInfo, LocalTimeTypeInfo
from millstream.util.exceptions import JavaException, TableNotExistException


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        (RestartStrategies.no_restart(), {"restart-strategy.type": "none"}),
        (RestartStrategies.fall_back_restart(), {}),
        (
            RestartStrategies.fixed_delay_restart(3, 500),
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "3",
                "restart-strategy.fixed-delay.delay": "500",
            },
        ),
        (
            RestartStrategies.failure_rate_restart(3, datetime.timedelta(minutes=1), 500),
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": "3",
                "restart-strategy.failure-rate.failure-rate-interval": "60000",
                "restart-strategy.failure-rate.delay": "500",
            },
        ),
    ],
)
def test_restart_strategy_is_a_set_of_flinks_options(strategy, settings):
    assert strategy.configuration().to_dict() == settings
    assert strategy == pickle.loads(pickle.dumps(strategy)) and strategy.get_description()


def test_restart_strategy_checks_its_arguments():
    with pytest.raises(ConfigurationError):
        RestartStrategies.fixed_delay_restart(0, 500)
    with pytest.raises(TypeMismatchError):
        RestartStrategies.fixed_delay_restart(1, "1 s")


def test_backends_and_storages_are_sets_of_flinks_options():
    assert HashMapStateBackend().configuration().to_dict() == {"state.backend.type": "hashmap"}
    disk = EmbeddedRocksDBStateBackend(True)
    disk.set_db_storage_paths("/a", "/b")
    assert disk.configuration().to_dict() == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "state.backend.rocksdb.localdir": "/a,/b",
    }
    assert FileSystemCheckpointStorage("file:///c").configuration().to_dict() == {
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": "file:///c",
    }
    assert JobManagerCheckpointStorage().get_max_state_size() == 5 * 1024 * 1024


def test_backends_and_storages_refuse_what_they_cannot_do():
    with pytest.raises(NotSupportedError):
        CustomStateBackend(object())
    with pytest.raises(NotSupportedError):
        datastream.CustomCheckpointStorage(object())
    with pytest.raises(ConfigurationError):
        FileSystemCheckpointStorage()
    with pytest.raises(ConfigurationError, match="threshold"):
        FileSystemCheckpointStorage("file:///c", 2 * 1024 * 1024)


def test_slot_sharing_group_gives_its_resources_back():
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_task_heap_memory_mb(100)
    group = builder.set_managed_memory(MemorySize.of_mebi_bytes(64)).set_external_resource("gpu", 1.0).build()
    assert (group.get_name(), group.get_cpu_cores()) == ("g", 1.5)
    assert group.get_task_heap_memory() == MemorySize(bytes_size=100 * 1024 * 1024)
    assert group.get_managed_memory().get_mebi_bytes() == 64
    assert group.get_external_resources() == {"gpu": 1.0}
    assert SlotSharingGroup.builder("plain").build().get_cpu_cores() is None
    with pytest.raises(ConfigurationError, match="cores and heap"):
        SlotSharingGroup.builder("half").set_cpu_cores(1).build()


def test_memory_sizes_compare_and_print():
    assert MemorySize(bytes_size=1) < MemorySize.of_mebi_bytes(1) <= MemorySize(bytes_size=1024**2)
    assert [str(MemorySize(bytes_size=n)) for n in (0, 1, 1024, 1025, 1024**3)] == [
        "0 bytes",
        "1 bytes",
        "1 kb",
        "1025 bytes",
        "1 gb",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        (Types.SQL_DATE(), datetime.date(1970, 1, 11), 10),
        (Types.SQL_TIME(), datetime.time(0, 0, 1, 5), 1_000_005),
        (Types.SQL_TIME(), None, None),
        (Types.INSTANT(), Instant.of_epoch_milli(1500), 1_500_000),
        (Types.INT(), 7, 7),
    ],
)
def test_types_convert_to_the_wire_and_back(kind, value, wire):
    assert kind.to_internal_type(value) == wire
    assert kind.from_internal_type(wire) == value
    assert kind.need_conversion() is (kind != Types.INT())


def test_timestamp_goes_over_the_wire_in_local_time():
    value = datetime.datetime(2024, 1, 31, 10, 0, 1, 5)
    assert Types.SQL_TIMESTAMP().from_internal_type(Types.SQL_TIMESTAMP().to_internal_type(value)) == value


def test_row_goes_over_the_wire_with_its_kind():
    kind = Types.ROW_NAMED(["a", "b"], [Types.SQL_DATE(), Types.INT()])
    row = Row.of_kind(RowKind.DELETE, a=datetime.date(1970, 1, 2), b=1)
    assert kind.to_internal_type(row) == (RowKind.DELETE.value, 1, 1)


def test_basic_type_by_its_enum_is_the_type_of_that_name():
    for basic in BasicType:
        made = BasicTypeInfo(basic)
        assert made == getattr(Types, basic.name)() and hash(made) == hash(getattr(Types, basic.name)())
        assert made.takes_none is getattr(Types, basic.name)().takes_none
    assert BasicTypeInfo(BasicType.INT).find_mismatch([1, "x"]) == 1
    assert BasicTypeInfo(BasicType.DOUBLE).conform([1]) == [1.0]
    assert pickle.loads(pickle.dumps(BasicTypeInfo(BasicType.INT))) == Types.INT()


def test_local_time_types_take_pythons_values():
    day = LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE)
    assert day.find_mismatch([datetime.date(2024, 1, 1), datetime.time()]) == 1


def test_float_is_rounded_to_single_precision_and_double_is_not():
    assert Types.FLOAT().conform([110.1, 1]) == [110.0999984741211, 1.0]
    assert Types.ROW([Types.FLOAT()]).conform([Row(None), Row(110.1)])[1][0] == 110.0999984741211
    assert Types.DOUBLE().conform([110.1]) == [110.1]


@dataclass
class Person:
    name: str
    age: int


def test_dicts_and_objects_declared_as_rows_become_rows_by_name():
    kind = Types.ROW_NAMED(["age", "name"], [Types.INT(), Types.STRING()])
    values = [Person("Ada", 36), {"name": "Alan", "more": 1}, Row(name="Kurt", age=5), (7, "Emmy")]
    assert kind.find_mismatch(values) is None
    assert kind.conform(values) == [
        Row(age=36, name="Ada"),
        Row(age=None, name="Alan"),
        Row(age=5, name="Kurt"),
        Row(age=7, name="Emmy"),
    ]
    assert kind.find_mismatch([{"other": 1}]) == 0
    assert kind.find_mismatch([object()]) == 0
    assert kind.find_mismatch([Person("Ada", "old")]) == 0


def test_string_encoder_writes_declared_types_as_flink_prints_them():
    encoder = Encoder.simple_string_encoder().for_type(Types.TUPLE([Types.STRING(), Types.INT()]))
    assert encoder.encode_all([("a", 1), ("b", 2)]) == b"(a,1)\n(b,2)\n"
    assert encoder.encode(("a", 1)) == b"(a,1)\n"
    assert Encoder.simple_string_encoder().encode_all([("a", 1)]) == b"('a', 1)\n"


def test_rows_are_encoded_as_java_writes_them_and_not_as_print_does():
    kind = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
    encoder = Encoder.simple_string_encoder().for_type(kind)
    assert (
        encoder.encode_all([Row("x", None, 1e7), Row(None, 2, 0.5)])
        == b"+I[x, null, 1.0E7]\n+I[null, 2, 0.5]\n"
    )


def test_row_field_extractor_takes_bytes_only():
    assert RowFieldExtractorSchema(1).serialize(Row(b"k", b"v")) == b"v"
    for value in (Row("k"), (b"k",), Row()):
        with pytest.raises(TypeMismatchError):
            RowFieldExtractorSchema(0).serialize(value)
    with pytest.raises(ConfigurationError):
        RowFieldExtractorSchema(-1)


def test_flinks_exceptions_are_caught_by_their_root_and_survive_pickling():
    error = pickle.loads(pickle.dumps(TableNotExistException("no table")))
    assert isinstance(error, JavaException) and str(error) == error.stack_trace == "no table"


def test_paths_of_checkpoints_and_state_are_given_back_as_flink_writes_them():
    assert FileSystemCheckpointStorage("file://host/checkpoints/").get_checkpoint_path() == (
        "file://host/checkpoints"
    )
    assert FileSystemCheckpointStorage("file:///a//b/").get_checkpoint_path() == "file:/a/b"
    assert JobManagerCheckpointStorage("hdfs://host:9000/a/").get_checkpoint_path() == "hdfs://host:9000/a"
    disk = EmbeddedRocksDBStateBackend()
    disk.set_db_storage_paths("file:///state/a/", "/state//b")
    assert disk.get_db_storage_paths() == ["/state/a", "/state/b"]
    assert disk.configuration().get_string("state.backend.rocksdb.localdir") == "/state/a,/state/b"


@pytest.mark.parametrize("path", ["hdfs://host/state", "state"])
def test_state_on_disk_lies_in_local_directories_only(path):
    with pytest.raises(ConfigurationError, match="local file system"):
        EmbeddedRocksDBStateBackend().set_db_storage_paths(path)


def test_a_class_for_options_of_rocksdb_is_kept_and_given_back():
    disk = EmbeddedRocksDBStateBackend()
    assert disk.get_options() is None
    disk.set_options("org.example.Factory")
    assert disk.get_options() == "org.example.Factory"


def test_a_slot_sharing_group_asks_for_some_heap_memory_or_none_at_all():
    builder = SlotSharingGroup.builder("g").set_cpu_cores(1.0)
    for refused in (
        lambda: builder.set_task_heap_memory(MemorySize(bytes_size=0)),
        lambda: builder.set_task_heap_memory_mb(0),
    ):
        with pytest.raises(ConfigurationError, match="0 bytes"):
            refused()


def test_names_lie_where_pyflink_has_them():
    assert datastream.CustomCheckpointStorage is not None and datastream.CustomStateBackend is not None
    config = OutputFileConfig.OutputFileConfigBuilder().with_part_prefix("a").with_part_suffix(".b").build()
    assert config == OutputFileConfig("a", ".b")
    row = FileSink.for_row_format("/t", Encoder.simple_string_encoder())
    assert isinstance(row, FileSink.RowFormatBuilder) and issubclass(
        FileSink.BulkFormatBuilder, FileSink.BaseBuilder
    )
    assert JavaObjectWrapper(1).get_java_object() == 1
    assert issubclass(ResultTypeQueryable, abc.ABC)


def test_settings_of_tables_know_their_mode_and_names():
    settings = (
        EnvironmentSettings.new_instance()
        .in_batch_mode()
        .with_built_in_catalog_name("c")
        .with_built_in_database_name("d")
        .with_configuration(Configuration().set_string("k", "v"))
        .build()
    )
    assert not settings.is_streaming_mode()
    assert (settings.get_built_in_catalog_name(), settings.get_built_in_database_name()) == ("c", "d")
    assert settings.get_configuration().get_string("k") == "v"
    assert EnvironmentSettings.in_streaming_mode().get_built_in_catalog_name() == "default_catalog"
