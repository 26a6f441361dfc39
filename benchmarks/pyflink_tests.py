"""Run PyFlink's own tests of `common` and `datastream` against millstream.

    python benchmarks/pyflink_tests.py PATH [--only TEXT] [--verbose]

`PATH` is a checkout of Flink's sources, or of its `flink-python`. The tests are read from there as they are; what
they need of PyFlink's Java test base is replaced by `pyflink_stand_ins.py`.

A test does not apply if it asks for an object of Java (found out when it runs), needs tables, Avro or a connector
that is not there (listed below with the reason), or is skipped by PyFlink. All others have to pass.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import os
import signal
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

FOLDERS = ("common/tests", "datastream/tests", "datastream/connectors/tests", "datastream/formats/tests")
TIME_LIMIT_SECONDS = 120

NO_TABLES = "tables come later"
NO_CONNECTOR = "the connector comes later"
NO_FORMAT = "the format comes later"

MODULES_LEFT_OUT = {
    "test_avro": NO_FORMAT,
    "test_orc": NO_FORMAT,
    "test_parquet": f"its classes begin with Avro: {NO_FORMAT}",
    "test_cassandra": NO_CONNECTOR,
    "test_elasticsearch": NO_CONNECTOR,
    "test_jdbc": NO_CONNECTOR,
    "test_kafka": NO_CONNECTOR,
    "test_kinesis": NO_CONNECTOR,
    "test_pulsar": NO_CONNECTOR,
    "test_rabbitmq": NO_CONNECTOR,
}
TESTS_LEFT_OUT = {
    "test_stream_execution_environment.StreamExecutionEnvironmentTests.test_execute": NO_TABLES,
    "test_stream_execution_environment.StreamExecutionEnvironmentTests.test_add_python_file": NO_TABLES,
    "test_stream_execution_environment.StreamExecutionEnvironmentTests.test_add_python_file_2": NO_TABLES,
    "test_stream_execution_environment.StreamExecutionEnvironmentTests.test_add_custom_source": (
        "its source is a class of Java"
    ),
}


class Verdicts(unittest.TestResult):
    """What became of each test: passed, failed with the traceback, or not applicable with the reason."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self.verbose = verbose
        self.told: dict[str, tuple[str, str]] = {}

    def tell(self, test: unittest.TestCase, verdict: str, reason: str = "") -> None:
        self.told.setdefault(test.id(), (verdict, reason))

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        signal.alarm(TIME_LIMIT_SECONDS)
        if self.verbose:
            print(f"... {test.id()}", flush=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.tell(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.tell(test, "not applicable", f"skipped by PyFlink: {reason}")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._add(test, err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._add(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._add(test, err)

    def _add(self, test: unittest.TestCase, err: Any) -> None:
        if err[0].__name__ == "NeedsJvm":
            self.tell(test, "not applicable", f"looks into Java: {err[1]}")
        else:
            self.tell(test, "failed", self._exc_info_to_string(err, test))


def main() -> int:
    """Run the tests, print the table; return how many failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, help="a checkout of Flink's sources")
    parser.add_argument("--only", default="", help="run tests whose name contains this")
    parser.add_argument("--target", default="local", help="where jobs run (execution.target)")
    parser.add_argument("--verbose", action="store_true", help="name each test, show what failed and why")
    arguments = parser.parse_args()
    package = _package(arguments.path)

    os.environ["MILLSTREAM_CONFIG"] = f'{{"execution.target": "{arguments.target}"}}'
    from millstream import compat  # after the options: they are read when it is imported

    compat.install()
    if arguments.target != "local":
        import pyspark.sql  # noqa: F401 - before the stand-ins give an error of Py4J another class
    import pyflink_stand_ins

    pyflink_stand_ins.install()
    cloudpickle.register_pickle_by_value(pyflink_stand_ins)
    signal.signal(signal.SIGALRM, _out_of_time)
    faulthandler.enable()
    warnings.simplefilter("ignore")

    verdicts = Verdicts(verbose=arguments.verbose)
    counts: dict[str, Counter[str]] = {}
    for path in _test_files(package):
        before = len(verdicts.told)
        try:
            tests = _tests(_load(package, path))
        except ImportError as error:
            verdicts.told[path.stem] = ("failed", f"{error}; none of its tests ran")
            tests = []
        suite = unittest.TestSuite()
        for test in tests:
            reason = TESTS_LEFT_OUT.get(test.id().partition("tests.")[2])
            if arguments.only in test.id():
                verdicts.tell(test, "not applicable", reason) if reason else suite.addTest(test)
        suite.run(verdicts)
        told = list(verdicts.told.values())[before:]
        counts[str(path.relative_to(package))] = Counter(verdict for verdict, _ in told)
    _report(verdicts, counts, verbose=arguments.verbose)
    return sum(verdict == "failed" for verdict, _ in verdicts.told.values())


def _package(path: Path) -> Path:
    """Return the directory `pyflink` of a checkout."""
    for candidate in (path / "flink-python" / "pyflink", path / "pyflink", path):
        if (candidate / "datastream" / "tests").is_dir():
            return candidate
    raise SystemExit(f"{path} holds no sources of PyFlink with tests")


def _test_files(package: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((package / folder).glob("test_*.py")):
            if path.stem not in MODULES_LEFT_OUT and path.stem != "test_util":
                yield path


def _load(package: Path, path: Path) -> ModuleType:
    """Import a test module from its file, under the name it has in PyFlink."""
    name = ".".join(("pyflink", *path.relative_to(package).with_suffix("").parts))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)  # slots have no PyFlink
    spec.loader.exec_module(module)
    return module


def _tests(module: ModuleType) -> list[unittest.TestCase]:
    """Return the tests of the classes that the module defines itself."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    return [test for each in suite for test in each if type(test).__module__ == module.__name__]


def _out_of_time(signal_number: int, frame: Any) -> None:
    raise TimeoutError(f"the test took longer than {TIME_LIMIT_SECONDS} s")


def _report(verdicts: Verdicts, counts: dict[str, Counter[str]], *, verbose: bool) -> None:
    for name, (verdict, reason) in verdicts.told.items():
        if verdict == "failed" or verbose:
            print(f"{verdict}: {name}\n    " + reason.rstrip().replace("\n", "\n    "))
    print("\n| module | passed | failed | not applicable |\n|---|---:|---:|---:|")
    total: Counter[str] = Counter()
    for module, count in counts.items():
        total += count
        print(f"| {module} | {count['passed']} | {count['failed']} | {count['not applicable']} |")
    print(f"| together | {total['passed']} | {total['failed']} | {total['not applicable']} |")
    applicable = total["passed"] + total["failed"]
    if applicable:
        print(f"\n{total['passed']} of {applicable} that apply passed: {total['passed'] / applicable:.1%}")


if __name__ == "__main__":
    raise SystemExit(main())
