from __future__ import annotations

import logging
import os
import sys
import zipfile

import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobExecutionError,
    NotSupportedError,
)
from millstream.common.functions import MapFunction
from millstream.config.configuration import Configuration
from millstream.datastream import CheckpointingMode, SourceFunction, StreamExecutionEnvironment


@pytest.fixture
def environment():
    settings = {"execution.target": "local", "parallelism.default": 2}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def run(environment, function):
    with environment.from_collection([1, 2]).rebalance().map(function).execute_and_collect() as results:
        return sorted(results)


@pytest.fixture
def module(tmp_path):
    name = f"helper_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("def triple(value):\n    return 3 * value\n")
    yield name, str(tmp_path / f"{name}.py")
    sys.modules.pop(name, None)


def test_function_imports_an_added_file_and_the_program_does_not_keep_it(environment, module):
    name, path = module
    environment.add_python_file(path)
    before = list(sys.path)
    assert run(environment, lambda value: __import__(name).triple(value)) == [3, 6]
    assert sys.path == before


def test_archives_are_below_the_working_directory_while_the_job_runs(environment, tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("numbers.txt", "40")
    environment.add_python_archive(str(tmp_path / "data.zip"))
    environment.add_python_archive(str(tmp_path / "data.zip"), "mine")
    before = os.getcwd()

    def add(value):
        with open("data.zip/numbers.txt") as one, open("mine/numbers.txt") as two:
            return value + int(one.read()) + int(two.read())

    assert run(environment, add) == [81, 82]
    assert os.getcwd() == before


def test_working_directory_and_path_are_restored_after_a_failure(environment, module, tmp_path):
    _, path = module
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("numbers.txt", "40")
    environment.add_python_file(path)
    environment.add_python_archive(str(tmp_path / "data.zip"))
    before = os.getcwd(), list(sys.path)
    with pytest.raises(JobExecutionError):
        run(environment, lambda value: 1 // 0)
    assert (os.getcwd(), sys.path) == before


class ReadCached(MapFunction):
    def open(self, runtime_context):
        self.file = runtime_context.get_distributed_cache().get_file("offset")

    def map(self, value):
        return value + int(self.file.read_text())


def test_function_reads_a_registered_file(environment, tmp_path):
    (tmp_path / "offset.txt").write_text("100")
    environment.register_cached_file(str(tmp_path / "offset.txt"), "offset")
    assert run(environment, ReadCached()) == [101, 102]


def test_file_that_was_not_registered_is_told_with_those_that_were(environment, tmp_path):
    (tmp_path / "other.txt").write_text("100")
    environment.register_cached_file(str(tmp_path / "other.txt"), "other")
    with pytest.raises(JobExecutionError) as caught:
        run(environment, ReadCached())
    assert 'no file is registered as "offset"' in str(caught.value.__cause__)


def test_file_cannot_be_registered_under_a_name_twice(environment):
    environment.register_cached_file("/a", "name")
    with pytest.raises(ConfigurationError, match="already"):
        environment.register_cached_file("/b", "name")


def test_missing_file_fails_the_program_before_the_job(environment):
    environment.add_python_file("/nowhere/helper.py")
    environment.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="/nowhere/helper.py"):
        environment.execute()


def test_local_executor_takes_its_own_interpreter_and_no_other(environment):
    environment.set_python_executable(sys.executable)
    assert run(environment, lambda value: value) == [1, 2]
    environment.set_python_executable("/usr/bin/true")
    with pytest.raises(JobExecutionError) as caught:
        run(environment, lambda value: value)
    assert isinstance(caught.value.__cause__, NotSupportedError)
    assert "/usr/bin/true" in str(caught.value.__cause__)


def test_dependencies_are_kept_under_flinks_keys(environment):
    environment.add_python_file("/a.py")
    environment.add_python_file("/b.py")
    environment.set_python_requirements("/r.txt", "/cache")
    environment.add_python_archive("/a.zip")
    environment.add_python_archive("/b.zip", "b")
    get = environment._configuration.get
    assert get("python.files") == "/b.py,/a.py"
    assert get("python.requirements") == "/r.txt#/cache"
    assert get("python.archives") == "/a.zip,/b.zip#b"


@pytest.mark.parametrize("method", ["add_jars", "add_classpaths"])
def test_jars_are_noted_and_warned_of(environment, caplog, method):
    with caplog.at_level(logging.WARNING):
        getattr(environment, method)("file:///lib/flink-connector-kafka.jar", "file:///lib/x.jar")
    assert [record.getMessage().split('"')[1] for record in caplog.records] == [
        "flink-connector-kafka.jar",
        "x.jar",
    ]


def test_checkpoint_settings_are_kept_under_flinks_keys(environment):
    environment.enable_checkpointing(5000, CheckpointingMode.AT_LEAST_ONCE)
    config = environment.get_checkpoint_config()
    config.set_checkpoint_timeout(7000).set_min_pause_between_checkpoints(300)
    get = environment._configuration.get
    assert get("execution.checkpointing.interval") == environment.get_checkpoint_interval() == 5000
    assert environment.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert get("execution.checkpointing.mode") == "AT_LEAST_ONCE"
    assert get("execution.checkpointing.timeout") == config.get_checkpoint_timeout() == 7000
    assert get("execution.checkpointing.min-pause") == 300
    assert config.is_checkpointing_enabled()


def test_environment_without_settings_has_flinks_defaults(environment):
    config = environment.get_checkpoint_config()
    assert not config.is_checkpointing_enabled() and environment.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.is_fail_on_checkpointing_errors()
    assert not config.is_externalized_checkpoints_enabled()
    assert environment.is_changelog_state_backend_enabled() is None
    assert environment.get_default_savepoint_directory() is None
    assert environment.is_chaining_of_operators_with_different_max_parallelism_enabled()


@pytest.mark.parametrize("interval", [0, -5])
def test_checkpoint_interval_must_be_positive(environment, interval):
    with pytest.raises(ConfigurationError, match="execution.checkpointing.interval"):
        environment.enable_checkpointing(interval)


def test_default_local_parallelism_is_that_of_environments_made_later(monkeypatch):
    monkeypatch.setattr(StreamExecutionEnvironment, "_local_parallelism", None)
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_default_local_parallelism(3)
    assert environment.get_default_local_parallelism() == 3
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 3
    own = Configuration.from_dict({"parallelism.default": 5})
    assert StreamExecutionEnvironment.get_execution_environment(own).get_parallelism() == 5


def test_source_functions_and_input_formats_say_what_to_use(environment):
    with pytest.raises(NotSupportedError, match="Java"):
        SourceFunction("org.example.Source")
    with pytest.raises(NotSupportedError, match="create_input was given a str"):
        environment.create_input("format")
    with pytest.raises(NotSupportedError, match="add_source was given a str"):
        environment.add_source("source")
