"""Asks Java Flink what process table functions, changelog functions and ON CONFLICT give; records its answers.

    python benchmarks/process_flink.py --jars PYFLINK/lib

Needs Java 17 (javac) and the jars of Flink 2.3, which PyFlink's package has in its directory `lib`. The cases are in
tests/table/process/ptf_cases.py, the answers go to flink_process.json beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "table" / "process"))

from ptf_cases import CASES, RECORDED  # noqa: E402 - its directory is no package

OPENS = ["--add-opens", "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED"]
FACTORIES = "META-INF/services/org.apache.flink.table.factories.Factory"


def answers_of(cases: list[dict], jars: Path) -> dict[int, dict]:
    """Compile the Java program and have it answer; by the cases' places."""
    with tempfile.TemporaryDirectory() as directory:
        classes = Path(directory, "classes")
        factories = classes / FACTORIES
        factories.parent.mkdir(parents=True)
        factories.write_text("FlinkProcess$StepsFactory\n")
        source = ROOT / "benchmarks" / "java" / "FlinkProcess.java"
        subprocess.run(
            ["javac", "-parameters", "-nowarn", "-cp", f"{jars}/*", "-d", classes, source], check=True
        )
        asked = Path(directory, "cases.json")
        asked.write_text(json.dumps(cases))
        command = ["java", "-Xmx1g", *OPENS, "-cp", f"{classes}:{jars}/*", "FlinkProcess", str(asked)]
        answers: dict[int, dict] = {}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                if line.startswith("ANSWER "):
                    _, place, answer = line.split(" ", 2)
                    answers[int(place)] = json.loads(answer)
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--only", help="ask for the cases with this in their names, and print the answers")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only is None or options.only in case["name"]]
    answers = answers_of(cases, options.jars)
    lines = [
        json.dumps({"name": cases[place]["name"], **answer}) for place, answer in sorted(answers.items())
    ]
    if options.only is not None:
        print("\n".join(lines))
        return
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    refused = sum("error" in answer for answer in answers.values())
    print(f"{len(answers)} answers of Flink, {refused} of them errors, in {RECORDED.relative_to(ROOT)}")
    silent = [case["name"] for place, case in enumerate(cases) if place not in answers]
    if silent:
        sys.exit(f"no answer: {', '.join(silent)}")


if __name__ == "__main__":
    main()
