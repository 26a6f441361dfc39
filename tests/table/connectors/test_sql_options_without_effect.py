"""Options of Flink that would change what is written, and are not there, are refused, not ignored."""

import pytest

from millstream.base.errors import NotSupportedError
from millstream.table import EnvironmentSettings, TableEnvironment

OPTIONS = {
    "sink.partition-commit.trigger": "partition-time",
    "partition.time-extractor.kind": "default",
    "json.timestamp-format.standard": "ISO-8601",
    "json.encode.ignore-null-fields": "true",
    "json.map-null-key.mode": "DROP",
}


@pytest.mark.parametrize("key", OPTIONS)
def test_option_is_refused(key, tmp_path):
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with pytest.raises(NotSupportedError, match=key):
        environment.execute_sql(
            f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
            f"'format' = 'json', '{key}' = '{OPTIONS[key]}')"
        )
        environment.execute_sql("INSERT INTO t VALUES (1)").wait()


def test_the_value_that_is_there_may_be_given(tmp_path):
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("execution.target", "local")
    environment.execute_sql(
        f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', "
        "'format' = 'json', 'json.timestamp-format.standard' = 'SQL')"
    )
    environment.execute_sql("INSERT INTO t VALUES (1)").wait()
    written = [
        path.read_text()
        for path in tmp_path.rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
    ]
    assert written == ['{"id":1}\n']
