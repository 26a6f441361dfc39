"""Cached streams: computed once, whatever reads them."""

from __future__ import annotations

import os

import pytest

from millstream.base.errors import ConfigurationError, JobDefinitionError, JobExecutionError
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource


@pytest.fixture
def cache_dir(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def env(cache_dir):
    options = {
        "execution.target": "local",
        "millstream.epoch.fixed-records": 3,
        "millstream.cache.dir": str(cache_dir),
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


class Counted:
    """A map function's calls, counted in a file: jobs may run it anywhere."""

    def __init__(self, path, failing=False):
        self.path, self.failing = str(path), failing

    def __call__(self, value):
        with open(self.path, "a") as calls:
            calls.write(".")
        if self.failing and not os.path.exists(self.path + ".healed"):
            raise ValueError("broken")
        return (value, value * value)

    def count(self):
        return os.path.getsize(self.path)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_second_job_reads_what_the_first_kept(env, tmp_path, parallelism):
    env.set_parallelism(parallelism)
    squares = Counted(tmp_path / "calls")
    cached = env.from_collection(list(range(10))).rebalance().map(squares).cache()
    expected = [(n, n * n) for n in range(10)]
    assert sorted(cached.map(lambda r: r).execute_and_collect()) == expected
    assert sorted(cached.filter(lambda r: r[0] % 2 == 0).execute_and_collect()) == expected[::2]
    assert sorted(cached.execute_and_collect()) == expected
    assert squares.count() == 10


def test_an_invalidated_stream_is_computed_again(env, tmp_path, cache_dir):
    squares = Counted(tmp_path / "calls")
    cached = env.from_collection([1, 2]).map(squares).cache()
    list(cached.execute_and_collect())
    cached.invalidate()
    assert list(cache_dir.iterdir()) == []
    assert sorted(cached.execute_and_collect()) == [(1, 1), (2, 4)]
    assert squares.count() == 4


def test_a_failed_job_keeps_nothing(env, tmp_path):
    squares = Counted(tmp_path / "calls", failing=True)
    cached = env.from_collection([1, 2]).map(squares).cache()
    with pytest.raises(JobExecutionError):
        list(cached.execute_and_collect())
    (tmp_path / "calls.healed").touch()
    assert sorted(cached.execute_and_collect()) == [(1, 1), (2, 4)]
    assert sorted(cached.execute_and_collect()) == [(1, 1), (2, 4)]
    assert squares.count() == 3


def test_closing_the_environment_drops_the_files(env, tmp_path, cache_dir):
    cached = env.from_collection([1]).map(Counted(tmp_path / "calls")).cache()
    list(cached.execute_and_collect())
    assert len(list(cache_dir.iterdir())) == 1
    env.close()
    assert list(cache_dir.iterdir()) == []


def test_an_unbounded_stream_is_refused(env):
    endless = env.from_source(DataGeneratorSource(lambda i: i), WatermarkStrategy.no_watermarks(), "endless")
    with pytest.raises(JobDefinitionError, match='source "endless" is unbounded'):
        endless.map(str).cache()


def test_settings_are_refused(env):
    cached = env.from_collection([1]).cache()
    with pytest.raises(ConfigurationError, match="uid is not possible on a cached stream"):
        cached.uid("a")
