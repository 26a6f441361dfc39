"""Asks Java Flink for the matches of random and of chosen patterns; records them for tests/property/test_patterns.py.

    python benchmarks/cep_flink.py --jars PYFLINK/lib

Needs Java 17 (javac) and the jars of Flink 2.3 with flink-cep, which PyFlink's package has in its directory `lib`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "property"))

from pattern_programs import Generator, chosen  # noqa: E402 - its directory is no package

OPENS = ["--add-opens", "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED"]
FIXTURE = ROOT / "tests" / "property" / "expected" / "flink_patterns.json"


def run_java(main: str, jars: Path, *arguments: str) -> list[str]:
    """Compile a program of benchmarks/java and run it; return the lines that it prints."""
    with tempfile.TemporaryDirectory() as classes:
        source = ROOT / "benchmarks" / "java" / f"{main}.java"
        subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", classes, str(source)], check=True)
        command = ["java", "-Xmx1500m", *OPENS, "-cp", f"{classes}:{jars}/*", main, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def recorded() -> list[dict]:
    """Return the random patterns that are recorded, without Flink's answers."""
    known = [
        {"pattern": case["pattern"], "events": case["events"]} for case in json.loads(FIXTURE.read_text())
    ]
    return [case for case in known if case not in chosen()]


def cases(count: int) -> list[dict]:
    made = []
    for seed in range(count):
        generator = Generator(seed, like_flink=True)
        made.append({"pattern": generator.pattern(), "events": generator.events(10)})
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument(
        "--count", type=int, help="make so many random patterns; without it, ask for those recorded"
    )
    options = parser.parse_args()
    asked = (recorded() if options.count is None else cases(options.count)) + chosen()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        lines = run_java("FlinkPatterns", options.jars, file.name)
    for case in asked:
        case["matches"], case["partial"] = [], []
    for line in lines:
        number, kind, time, *events = line.split()
        pairs = [(name, int(place)) for name, _, place in (event.partition(":") for event in events)]
        row = [int(time), sorted(pairs, key=lambda pair: pair[1])]
        asked[int(number)]["matches" if kind == "match" else "partial"].append(row)
    FIXTURE.write_text("[\n" + ",\n".join(json.dumps(case) for case in asked) + "\n]\n")
    print(f"{len(asked)} patterns, {len(lines)} matches of Flink in {FIXTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
