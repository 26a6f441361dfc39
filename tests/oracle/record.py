"""Records what real PyFlink prints for the programs of this folder; see README.md.

python tests/oracle/record.py PYTHON [NAME ...]     PYTHON is the interpreter that has apache-flink installed
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS, EXPECTED = HERE / "programs", HERE / "expected"
# Programs that depend on watermarks between records wait this long for each record, so that PyFlink emits them.
PACE_S = "0.3"
TIMEOUT_S = 240


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("python", type=Path, help="interpreter with apache-flink")
    parser.add_argument("names", nargs="*", help="programs, without .py; by default those not recorded yet")
    arguments = parser.parse_args()
    every = sorted(path.stem for path in PROGRAMS.glob("*.py"))
    wanted = arguments.names or [name for name in every if not (EXPECTED / f"{name}.txt").exists()]
    failed = [name for name in wanted if not record(arguments.python, name)]
    if failed:
        print("not recorded:", *failed, file=sys.stderr)
    return 1 if failed else 0


def record(python: Path, name: str) -> bool:
    target = EXPECTED / f"{name}.txt"
    if target.exists() and target.read_text().startswith("#"):
        print(f"{name}: holds the right answer where PyFlink is wrong; left alone", file=sys.stderr)
        return False
    environment = dict(os.environ, ORACLE_PACE_S=PACE_S)
    # PyFlink starts `python` for its workers.
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"
    result = subprocess.run(
        [python, PROGRAMS / f"{name}.py"], capture_output=True, text=True, env=environment, timeout=TIMEOUT_S
    )
    if result.returncode != 0:
        print(f"{name}: exit code {result.returncode}\n{result.stderr[-4000:]}", file=sys.stderr)
        return False
    lines = sorted(result.stdout.splitlines())
    target.write_text("".join(f"{line}\n" for line in lines))
    print(f"{name}: {len(lines)} lines")
    return True


if __name__ == "__main__":
    sys.exit(main())
