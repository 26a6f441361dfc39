"""What PySpark 4.3 says when its workers' interpreter does not do, and what is made of that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from millstream.base.errors import ConfigurationError, InterpreterError, SlotLostError
from millstream.runtime.slot.process import SlotBoot
from millstream.runtime.spark.master import check_hadoop_is_configured
from millstream.runtime.spark.shuttle import start_slot
from millstream.runtime.spark.worker_errors import describe_failed_start, worker_words

ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage "
    "0.0 (TID 0) (localhost executor driver): "
)
MISSING_MODULE = """\
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "worker.py", line 4197, in invoke_udf
    func, profiler, deserializer, serializer = read_command(pickleSer, init_info.udf_info)
                                               ^^^^^^^^^^^^
  File "millstream/base/pickling.py", line 9, in <module>
    import cloudpickle
ModuleNotFoundError: No module named 'cloudpickle'
 SQLSTATE: 38000"""
NO_PYTHON = (
    ABORTED
    + """org.apache.spark.SparkException:
Error from python worker:
  /bin/ls: cannot access 'pyspark.daemon': No such file or directory
PYTHONPATH was:
  /somewhere
org.apache.spark.SparkException: EOFException occurred
	at org.apache.spark.errors.SparkCoreErrors$"""
)
OLD_PYTHON = (
    ABORTED
    + """org.apache.spark.SparkException:
Error from python worker:
  Traceback (most recent call last):
    File "runpy.py", line 183, in _run_module_as_main
      mod_name, mod_spec, code = _get_module_details(mod_name, _Error)
    File "pyspark/errors/error_classes.py", line 19, in <module>
  ModuleNotFoundError: No module named 'importlib.resources'
PYTHONPATH was:
  /somewhere"""
)
NOT_THERE = (
    ABORTED
    + """java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory
	at java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)"""
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MISSING_MODULE, "ModuleNotFoundError: No module named 'cloudpickle'"),
        (NO_PYTHON, "/bin/ls: cannot access 'pyspark.daemon': No such file or directory"),
        (OLD_PYTHON, "ModuleNotFoundError: No module named 'importlib.resources'"),
        (NOT_THERE, 'Cannot run program "/no/python": error=2, No such file or directory'),
    ],
)
def test_what_the_interpreter_said_is_shown_and_the_job_not_repeated(text, words):
    error = describe_failed_start(text, "/the/python")
    assert isinstance(error, InterpreterError)
    assert isinstance(error, ConfigurationError)  # hopeless
    assert "/the/python" in error.message
    assert error.detail == f"It said: {words}"
    assert "PYSPARK_PYTHON" in error.hint


def test_trouble_of_the_machine_is_repeated():
    text = MISSING_MODULE.replace("ModuleNotFoundError: No module named 'cloudpickle'", "MemoryError")
    assert isinstance(describe_failed_start(text, "/the/python"), SlotLostError)
    assert worker_words(ABORTED + "ExecutorLostFailure") is None
    assert "ExecutorLostFailure" in describe_failed_start(ABORTED + "ExecutorLostFailure", "p").message


def test_foreign_interpreter_is_told_with_what_it_said(tmp_path):
    boot = SlotBoot(0, 0, b"", 1, 0, "here", False, b"", ())
    error = start_slot(boot, "/bin/ls")
    assert isinstance(error, InterpreterError)
    assert 'interpreter "/bin/ls" cannot run it' in error.message
    assert error.detail.startswith("It said: ")
    assert "/bin/ls" in error.detail
    empty = tmp_path / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    boot = SlotBoot(0, 0, b"", 1, 0, "here", False, b"", ())
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        error = start_slot(boot, str(empty))
    assert "No module named 'millstream'" in error.detail
    assert f"{empty} -m pip install millstream" in error.hint


@pytest.mark.parametrize("environment", [{}, {"HADOOP_CONF_DIR": "/no/such/directory"}])
def test_yarn_without_configuration_is_told_before_java_is_asked(environment):
    with pytest.raises(ConfigurationError, match="needs Hadoop") as error:
        check_hadoop_is_configured(environment)
    assert "HADOOP_CONF_DIR" in error.value.detail


def test_yarn_with_configuration_is_let_be(tmp_path):
    check_hadoop_is_configured({"YARN_CONF_DIR": str(tmp_path)})
    check_hadoop_is_configured(os.environ | {"HADOOP_CONF_DIR": str(tmp_path)})
