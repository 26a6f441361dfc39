"""Wheel and source distribution, built and tried in an environment that has nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from millstream.version import __version__

pytestmark = pytest.mark.timeout(1200)

ROOT = Path(__file__).parents[2]
PROGRAM = """
from millstream.common import WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_source(NumberSequenceSource(1, 1_000), WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(lambda n: (n % 2, n)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).filter(
    lambda pair: pair[1] >= 250_000
).print()
env.execute("sums")
"""


def run(*command: object, directory: Path) -> str:
    """Run a command without what this process's environment has of millstream."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    ended = subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=directory,
        env=environment,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source distribution, and a wheel that is built from it."""
    directory = tmp_path_factory.mktemp("dist")
    build = "import hatchling.build, os; os.chdir({!r}); print(hatchling.build.build_sdist({!r}))"
    environment = tmp_path_factory.mktemp("build")
    run(sys.executable, "-m", "venv", environment, directory=directory)
    run(environment / "bin" / "pip", "install", "--quiet", "hatchling>=1.24", directory=directory)
    run(environment / "bin" / "python", "-c", build.format(str(ROOT), str(directory)), directory=directory)
    (source,) = directory.glob("*.tar.gz")
    run(
        environment / "bin" / "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "-w",
        directory,
        source,
        directory=directory,
    )
    (wheel,) = directory.glob("*.whl")
    return source, wheel


def test_both_hold_what_they_should(distributions):
    source, wheel = distributions
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src/millstream/py.typed",
        "examples/flights.py",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("build/", ".venv/", "site/"))]
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        (metadata,) = (name for name in packed if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert ours <= packed
    assert f"Version: {__version__}\n" in text
    assert "License-Expression: Apache-2.0\n" in text
    assert any(name.endswith("licenses/LICENSE") for name in packed)


def test_the_wheel_runs_in_a_clean_environment(distributions, tmp_path):
    _, wheel = distributions
    run(sys.executable, "-m", "venv", tmp_path / "clean", directory=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[java]", directory=tmp_path)
    (tmp_path / "job.py").write_text(PROGRAM)
    millstream = tmp_path / "clean" / "bin" / "millstream"
    assert run(millstream, "--version", directory=tmp_path) == f"millstream, version {__version__}\n"
    wanted = {"(0, 250500)", "(1, 250000)"}
    for target in ("local", "local[2]"):
        lines = run(millstream, "run", "--target", target, "job.py", directory=tmp_path).splitlines()
        assert wanted <= {line.partition("> ")[2] for line in lines}, target  # behind the subtask's number
    place = run(python, "-c", "import millstream; print(millstream.__file__)", directory=tmp_path)
    assert place.startswith(str(tmp_path))
    assert "No broken requirements" in run(python, "-m", "pip", "check", directory=tmp_path)
