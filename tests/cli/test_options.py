import json

import click
import pytest

from millstream.cli.options import CONFIG_VARIABLE, JobOptions, check_settings, parse_definitions


@pytest.mark.parametrize("text", ["parallelism.default", "=4", " =4", ""])
def test_definition_without_key_or_equals_sign_is_a_usage_error(text):
    with pytest.raises(click.BadParameter, match="key=value"):
        parse_definitions(None, None, (text,))


def test_later_definition_of_a_key_replaces_the_earlier_one():
    assert parse_definitions(None, None, ("a=1", "b=2", "a=3")) == {"a": "3", "b": "2"}


def test_definitions_have_the_last_word_over_shorthands():
    options = JobOptions({"parallelism.default": "8"}, parallelism=4, target="local")
    assert options.settings() == {"parallelism.default": "8", "execution.target": "local"}


def test_debug_runs_in_this_process_unless_a_target_is_named():
    assert JobOptions({}, debug=True).settings()["execution.target"] == "local"
    assert JobOptions({}, debug=True, target="local[2]").settings()["execution.target"] == "local[2]"


def test_export_adds_to_what_the_environment_holds(monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, '{"a": "1", "b": "2"}')
    JobOptions({"b": "3"}).export()
    import os

    assert json.loads(os.environ[CONFIG_VARIABLE]) == {"a": "1", "b": "3"}


@pytest.mark.parametrize(("text", "said"), [("{", "not JSON"), ("[1]", "list")])
def test_environment_that_holds_no_json_object_is_a_usage_error(monkeypatch, text, said):
    monkeypatch.setenv(CONFIG_VARIABLE, text)
    with pytest.raises(click.UsageError, match=said):
        JobOptions({}).export()


def test_value_that_does_not_fit_its_option_is_a_usage_error_that_names_both():
    with pytest.raises(click.UsageError, match=r'"parallelism.default" was given \'many\''):
        check_settings({"parallelism.default": "many"})


def test_mistyped_key_is_warned_of_with_the_right_one(capsys):
    check_settings({"parallelism.defualt": "4", "my.own.key": "x", "spark.executor.memory": "2g"})
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'no option is named "parallelism.defualt"; did you mean "parallelism.default"?' in said
