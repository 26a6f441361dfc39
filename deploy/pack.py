"""Packs what executors need beside Spark: millstream, what it needs, and requirements of yours, as one archive.

    python deploy/pack.py environment.tgz                           the release that is installed here
    python deploy/pack.py environment.tgz --millstream dist/millstream-*.whl "pandas>=2.2" -r requirements.txt
    millstream run --target spark://host:7077 \\
      -D spark.archives=environment.tgz#environment -D spark.executorEnv.PYTHONPATH=./environment job.py

Hosts need Spark and the same Python (3.11 and 3.11, say), and nothing else. PySpark is not packed: hosts have it with
Spark. Packages are made for this machine's system and Python: pack where both are as on the hosts.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

WITH_SPARK = {"pyspark", "py4j"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="the archive, .tgz")
    parser.add_argument("--millstream", help="a wheel, or a requirement such as millstream==0.1.0")
    parser.add_argument(
        "-r", "--requirements", action="append", default=[], help="a requirements.txt; may be repeated"
    )
    parser.add_argument("packages", nargs="*", help="requirements, such as pandas>=2.2")
    given = parser.parse_intermixed_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        packed = Path(scratch) / "environment"
        install(packed, ["--no-deps", given.millstream or f"millstream=={own_version()}"])
        more = [each for file in given.requirements for each in ("-r", file)]
        install(packed, [*needed(packed), *given.packages, *more])
        for name in WITH_SPARK & {path.name for path in packed.iterdir()}:
            print(f"note: {name} was packed, because a requirement of yours needs it", file=sys.stderr)
        staged = given.output.with_name(f".{given.output.name}.staged")
        with tarfile.open(staged, "w:gz", compresslevel=6) as archive:
            archive.add(packed, arcname=".")
        staged.replace(given.output)
    size = given.output.stat().st_size / 1e6
    print(f"{given.output}: {size:.1f} MB, Python {sys.version_info[0]}.{sys.version_info[1]}")
    return 0


def own_version() -> str:
    """Return the version that is installed here, which the driver will have, too."""
    try:
        return version("millstream")
    except PackageNotFoundError:
        sys.exit("millstream is not installed here; name it: --millstream millstream==VERSION, or a wheel")


def install(target: Path, requirements: Sequence[str]) -> None:
    """Have pip install requirements into a directory."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    done = subprocess.run([*command, "--target", str(target), *requirements], check=False)
    if done.returncode:
        sys.exit(f"pip could not install {' '.join(requirements)}")


def needed(packed: Path) -> list[str]:
    """Return what millstream requires, but for extras and what comes with Spark."""
    (own,) = distributions(name="millstream", path=[str(packed)])
    required = [each for each in own.requires or [] if "extra ==" not in each]
    return [each for each in required if re.split(r"[^\w.-]", each)[0].lower() not in WITH_SPARK]


if __name__ == "__main__":
    sys.exit(main())
