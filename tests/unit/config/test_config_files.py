from __future__ import annotations

import os

import pytest

from millstream.base.errors import ConfigurationError
from millstream.config import config_files
from millstream.config.config_files import read_settings
from millstream.config.configuration import ConfigSource, Configuration

TOML = """
parallelism.default = 4
"pipeline.name" = "nightly"

[execution.checkpointing]
interval = "10 s"   # of all jobs

[pipeline.global-job-parameters]
limit = "20"

[python]
files = ["a.py", "b.py"]
"""

YAML = """\
# Flink's
parallelism.default: 2
execution:
  checkpointing:
    interval: 1 min
    dir: ~
  runtime-mode: on-hold
jobmanager:
  rpc:
    address: localhost
pipeline:
  classpaths:
    - file:///a
    - file:///b
  global-job-parameters:
    limit: 20
"""


@pytest.fixture(autouse=True)
def not_warned_yet(monkeypatch):
    monkeypatch.setattr(config_files, "_warned", set())


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def settings(environment, directory):
    return {each.key: each.value for each in read_settings(environment, directory)}


def test_toml_has_nested_and_dotted_keys(project):
    (project / "millstream.toml").write_text(TOML)
    assert settings({}, project) == {
        "parallelism.default": 4,
        "pipeline.name": "nightly",
        "execution.checkpointing.interval": 10_000,
        "pipeline.global-job-parameters": {"limit": "20"},
        "python.files": "a.py,b.py",
    }


def test_each_setting_knows_its_line(project):
    (project / "millstream.toml").write_text(TOML)
    lines = {each.key: each.line for each in read_settings({}, project)}
    assert (lines["parallelism.default"], lines["execution.checkpointing.interval"]) == (2, 6)
    assert lines["pipeline.name"] == 3


def test_yaml_has_nested_and_flat_keys_and_texts_as_they_stand(tmp_path):
    (tmp_path / "config.yaml").write_text(YAML.replace("on-hold", "BATCH") + "my.flag: on\n")
    found = read_settings({"FLINK_CONF_DIR": str(tmp_path)}, tmp_path)
    assert {each.key: each.value for each in found} == {
        "parallelism.default": 2,
        "execution.checkpointing.interval": 60_000,
        "execution.runtime-mode": "BATCH",
        "jobmanager.rpc.address": "localhost",
        "pipeline.classpaths": "file:///a;file:///b",
        "pipeline.global-job-parameters": {"limit": "20"},
        "my.flag": "on",
    }
    assert {each.key: each.line for each in found}["execution.runtime-mode"] == 7


def test_files_lie_below_environment_and_command_line(project, tmp_path):
    flink = tmp_path / "flink"
    flink.mkdir()
    (flink / "config.yaml").write_text("parallelism.default: 2\npipeline.name: flink\na.b: 1\n")
    (project / "millstream.toml").write_text('parallelism.default = 4\npipeline.name = "toml"\n')
    environment = {"FLINK_CONF_DIR": str(flink), "MILLSTREAM_CONFIG": '{"parallelism.default": "8"}'}
    configuration = Configuration.load(environment, project)
    assert configuration.get("parallelism.default") == 8
    assert configuration.source("parallelism.default") is ConfigSource.COMMAND_LINE
    assert configuration.get("pipeline.name") == "toml"
    assert configuration.source("pipeline.name") is ConfigSource.FILE
    assert configuration.get("a.b") == "1"


def test_named_file_is_read_and_no_other(project, tmp_path):
    (project / "millstream.toml").write_text("parallelism.default = 4\n")
    other = tmp_path / "other.yml"
    other.write_text("pipeline.name: other\n")
    environment = {"MILLSTREAM_CONF": str(other), "FLINK_CONF_DIR": str(tmp_path)}
    assert settings(environment, project) == {"pipeline.name": "other"}


def test_project_file_is_found_up_to_the_root_of_the_project_and_not_above(project):
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "millstream.toml").write_text("parallelism.default = 4\n")
    assert settings({}, inner) == {"parallelism.default": 4}
    (project / "a" / "pyproject.toml").touch()
    assert settings({}, inner) == {}


def test_outside_of_projects_only_the_present_directory_is_looked_at(tmp_path):
    if any((each / mark).exists() for each in tmp_path.parents for mark in (".git", "pyproject.toml")):
        pytest.skip("the temporary directory is in a project")
    inner = tmp_path / "a"
    inner.mkdir()
    (tmp_path / "millstream.toml").write_text("parallelism.default = 4\n")
    assert settings({}, inner) == {}
    assert settings({}, tmp_path) == {"parallelism.default": 4}


def test_file_of_another_user_is_not_read_unless_it_is_named(project, caplog, monkeypatch):
    path = project / "millstream.toml"
    path.write_text("parallelism.default = 4\n")
    real = os.stat(path).st_uid
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    if real == 0:
        os.chown(path, 12_345, -1)
    assert settings({}, project) == {}
    assert "belongs to another user" in caplog.text
    assert settings({"MILLSTREAM_CONF": str(path)}, project) == {"parallelism.default": 4}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.toml", "[a\nb = 1", "is not TOML"),
        ("c.yaml", "a: 1\nsecret: [hidden", "is not YAML at line 2"),
        ("c.yaml", "- a\n- b\n", "no keys and values"),
        ("c.yaml", "a.b: 1\na:\n  b: 2\n", 'has "a.b" in line 1 and in line 3'),
        ("c.yaml", "pipeline:\n  max-parallelism: many\n", "c.yaml, line 2"),
        ("c.toml", "[pipeline]\nmax-parallelism = 0\n", "c.toml, line 2"),
        ("c.ini", "", "of no kind that is known"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_settings({"MILLSTREAM_CONF": str(tmp_path / name)}, tmp_path)
    assert said in str(error.value)
    assert "hidden" not in str(error.value)


def test_file_that_is_named_and_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_settings({"MILLSTREAM_CONF": str(tmp_path / "no.toml")}, tmp_path)


def test_mistyped_keys_are_told_once_with_the_right_one(project, caplog):
    (project / "millstream.toml").write_text(
        "[parallelism]\ndefualt = 4\n[millstream]\nwhatever = 1\n[my]\nkey = 1\n"
    )
    for _ in range(2):
        read_settings({}, project)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert 'line 2: no option is named "parallelism.defualt"; did you mean "parallelism.default"?' in said[0]
    assert '"millstream.whatever"' in said[1]


def test_a_directory_of_flink_that_is_not_there_is_told_once(tmp_path, caplog):
    gone = str(tmp_path / "conf")
    for _ in range(2):
        assert read_settings({"FLINK_CONF_DIR": gone}, tmp_path) == []
    assert [record.getMessage() for record in caplog.records] == [
        f"FLINK_CONF_DIR names {gone}, which is no directory: no config.yaml is read"
    ]


def test_a_key_that_is_the_beginning_of_one_option_is_told(project, caplog):
    (project / "millstream.toml").write_text("parallelism = 3\n")
    read_settings({}, project)
    assert 'did you mean "parallelism.default"?' in caplog.text
