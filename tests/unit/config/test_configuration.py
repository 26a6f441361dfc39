import copy
import json

import pytest

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration
from millstream.config import options, options_checkpointing, options_state
from millstream.config.config_options import ConfigOptions
from millstream.config.configuration import CONFIG_VARIABLE, ConfigSource, Configuration
from millstream.config.execution_config import ExecutionConfig


def test_an_option_that_nobody_set_has_its_default():
    configuration = Configuration()
    assert configuration.get(options.MAX_PARALLELISM) == 128
    assert configuration.get("pipeline.max-parallelism") == 128
    assert configuration.get(options.DEFAULT_PARALLELISM) is None
    assert configuration.get("my.key", "mine") == "mine"
    assert configuration.source("pipeline.max-parallelism") is ConfigSource.DEFAULT


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (200, 200),
        ("200", 200),
        ("200ms", 200),
        ("10 s", 10_000),
        ("1 min", 60_000),
        ("2 hours", 7_200_000),
        ("1.5 s", 1_500),
        ("3 d", 259_200_000),
        (Duration.of_seconds(2), 2_000),
    ],
)
def test_durations_are_read_as_milliseconds(given, expected):
    assert Configuration().set("millstream.slot.timeout", given).get(options.SLOT_TIMEOUT) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pipeline.max-parallelism", "many"),
        ("pipeline.max-parallelism", 0),
        ("pipeline.max-parallelism", True),
        ("parallelism.default", 1.5),
        ("pipeline.operator-chaining.enabled", "yes"),
        ("millstream.slot.timeout", "10 parsecs"),
        ("millstream.slot.timeout", "-1 s"),
        ("execution.runtime-mode", "TURBO"),
        ("pipeline.global-job-parameters", "a"),
        ("execution.target", ["local"]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_where_it_is_set(key, value):
    with pytest.raises(ConfigurationError) as refused:
        Configuration().set(key, value)
    assert key in str(refused.value)
    assert repr(value) in str(refused.value)
    assert "The option takes" in refused.value.detail


def test_strings_become_the_type_of_their_option():
    configuration = Configuration.from_dict(
        {
            "parallelism.default": "4",
            "millstream.debug": "TRUE",
            "pipeline.global-job-parameters": "a:1, b:x:y",
            "spark.executor.memory": "2g",
        }
    )
    assert configuration.get(options.DEFAULT_PARALLELISM) == 4
    assert configuration.get(options.DEBUG) is True
    assert configuration.get(options.GLOBAL_JOB_PARAMETERS) == {"a": "1", "b": "x:y"}
    assert configuration.spark_settings() == {"spark.executor.memory": "2g"}


def test_values_are_read_under_pyflinks_getters():
    configuration = Configuration()
    configuration.set_integer("my.int", 3).set_boolean("my.flag", False).set_float("my.float", 0.5)
    configuration.set_string("my.text", "7").set_bytearray("my.bytes", bytearray(b"x"))
    assert configuration.get_integer("my.int", 0) == 3
    assert configuration.get_string("my.int", "") == "3"
    assert configuration.get_boolean("my.flag", True) is False
    assert configuration.get_float("my.float", 0.0) == 0.5
    assert configuration.get_integer("my.text", 0) == 7
    assert configuration.get_bytearray("my.bytes", bytearray()) == bytearray(b"x")
    assert configuration.get_string("my.none", "else") == "else"


def test_a_value_that_is_no_integer_is_not_read_as_one():
    with pytest.raises(ConfigurationError, match=r"my\.text"):
        Configuration().set_string("my.text", "x").get_integer("my.text", 0)


def test_removing_a_value_brings_the_default_back():
    configuration = Configuration().set(options.MAX_PARALLELISM, 7)
    assert configuration.remove_config("pipeline.max-parallelism") is True
    assert configuration.remove_config("pipeline.max-parallelism") is False
    assert configuration.get(options.MAX_PARALLELISM) == 128


def test_adding_all_takes_values_with_prefix_and_source():
    other = Configuration().set("b", 1, source=ConfigSource.FILE)
    configuration = Configuration().add_all(other, "a.")
    assert configuration.key_set() == {"a.b"}
    assert configuration.source("a.b") is ConfigSource.FILE


def test_a_copy_does_not_follow_the_original():
    original = Configuration().set("a", 1)
    for copied in (Configuration(original), copy.deepcopy(original)):
        assert copied == original
        copied.set("a", 2)
        assert original.get("a") == 1


def test_what_the_command_line_left_is_read_and_named_as_its_source():
    environment = {CONFIG_VARIABLE: json.dumps({"parallelism.default": "3"})}
    configuration = Configuration.from_environment(environment)
    assert configuration.get(options.DEFAULT_PARALLELISM) == 3
    assert configuration.source("parallelism.default") is ConfigSource.COMMAND_LINE
    assert Configuration.from_environment({}).key_set() == set()


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_an_environment_variable_that_holds_no_object_is_refused(text):
    with pytest.raises(ConfigurationError, match=CONFIG_VARIABLE):
        Configuration.from_environment({CONFIG_VARIABLE: text})


@pytest.mark.parametrize(
    ("target", "parallelism"),
    [("local", 1), ("local[3]", 3), ("local[2, 4]", 2), ("local-cluster[2,2,1024]", 4)],
)
def test_without_a_parallelism_the_target_decides(target, parallelism):
    assert Configuration().set(options.TARGET, target).default_parallelism() == parallelism


def test_all_options_are_documented_and_their_defaults_fit():
    keys = [option.key for option in options.ALL_OPTIONS]
    assert len(set(keys)) == len(keys)
    constants = {value for value in vars(options).values() if isinstance(value, options.ConfigOption)}
    assert constants <= set(options.ALL_OPTIONS)
    for option in options.ALL_OPTIONS:
        assert option.doc.endswith(".")
        assert option.default is None or option.convert(option.default) == option.default


def test_a_users_own_option_is_read_in_its_type():
    option = ConfigOptions.key("my.wait").duration_type().default_value("2 s")
    configuration = Configuration()
    assert configuration.get(option) == 2_000
    assert configuration.set_string("my.wait", "1 min").get(option) == 60_000


def test_the_execution_config_is_a_view_of_the_configuration():
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert config.get_parallelism() == ExecutionConfig.PARALLELISM_DEFAULT
    config.set_parallelism(3).set_global_job_parameters({"limit": 5})
    assert configuration.get(options.DEFAULT_PARALLELISM) == 3
    assert config.get_global_job_parameters() == {"limit": "5"}
    config.set_parallelism(-1)
    assert not configuration.contains_key("parallelism.default")
    assert config.enable_object_reuse().is_object_reuse_enabled()


@pytest.mark.parametrize(
    ("older", "current", "given", "read"),
    [
        ("state.checkpoints.dir", options_checkpointing.CHECKPOINT_DIRECTORY, "/c", "/c"),
        ("state.savepoints.dir", options_checkpointing.SAVEPOINT_DIRECTORY, "/s", "/s"),
        ("state.backend", options_state.STATE_BACKEND, "rocksdb", "rocksdb"),
        ("state.backend.incremental", options_checkpointing.INCREMENTAL, "false", False),
        ("state.checkpoint-storage", options_checkpointing.CHECKPOINT_STORAGE, "filesystem", "filesystem"),
        ("state.checkpoints.num-retained", options_checkpointing.RETAINED_CHECKPOINTS, "3", 3),
        ("execution.buffer-timeout", options.BUFFER_TIMEOUT, "1 min", 60_000),
        ("execution.savepoint.path", options_checkpointing.RECOVERY_PATH, "/p", "/p"),
        ("execution.savepoint-restore-mode", options_checkpointing.CLAIM_MODE, "CLAIM", "CLAIM"),
        (
            "execution.savepoint.ignore-unclaimed-state",
            options_checkpointing.IGNORE_UNCLAIMED_STATE,
            "true",
            True,
        ),
        ("restart-strategy", options_checkpointing.RESTART_STRATEGY, "fixed-delay", "fixed-delay"),
        ("pipeline.operator-chaining", options.OPERATOR_CHAINING, "false", False),
        ("execution.checkpointing.alignment-timeout", options_checkpointing.ALIGNED_TIMEOUT, "5 s", 5_000),
        ("execution.checkpointing.unaligned", options_checkpointing.UNALIGNED, "true", True),
        ("state.backend.changelog.enabled", options_checkpointing.CHANGELOG_ENABLED, "true", True),
    ],
)
def test_an_older_key_of_flink_is_another_name_of_the_current_one(older, current, given, read):
    configuration = Configuration().set_string(older, given)
    assert configuration.get(current) == configuration.get(older) == read
    assert configuration.contains_key(current.key) and configuration.contains_key(older)
    assert configuration.get_string(older) == configuration.get_string(current.key)
    assert configuration.key_set() == {current.key}
    assert configuration.source(older) is configuration.source(current.key) is ConfigSource.CODE
    assert options.warning_about(older) is None
    assert configuration.remove_config(older) and not configuration.contains_key(current.key)


def test_an_older_key_replaces_what_was_set_before_under_the_current_one():
    configuration = Configuration().set("state.backend.type", "hashmap").set("state.backend", "rocksdb")
    assert configuration.to_dict() == {"state.backend.type": "rocksdb"}


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("execution.checkpointing.intervall", 'did you mean "execution.checkpointing.interval"'),
        ("taskmanager.memory.process.size", "spark.executor.memory"),
        ("state.backend.local-recovery", "has no effect: state is always read back"),
        ("execution.batch.speculative.enabled", "has no effect: millstream has no such option"),
        ("my.own.key", None),
        ("spark.executor.memory", None),
    ],
)
def test_keys_without_effect_are_told_apart_from_a_users_own(key, warning):
    told = options.warning_about(key)
    assert told is None if warning is None else warning in told


def test_a_configuration_is_written_as_flink_writes_it():
    configuration = Configuration().set_string("k1", "v1").set_integer("k2", 1).set_boolean("k3", True)
    assert str(configuration) == "{k1=v1, k2=1, k3=true}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, []),
        ("", []),
        ("a.jar;b.jar", ["a.jar", "b.jar"]),
        ("[a.jar, 'b c.jar', \"d.jar\"]", ["a.jar", "b c.jar", "d.jar"]),
        ("- a.jar\n- 'b.jar'\n", ["a.jar", "b.jar"]),
        ("- a.jar", ["a.jar"]),
        ("-a.jar", ["-a.jar"]),
    ],
)
def test_lists_are_read_in_each_form_that_flink_takes(text, parts):
    assert Configuration.parse_list_value(text) == parts
