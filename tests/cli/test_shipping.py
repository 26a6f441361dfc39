"""Files that the command line names, as functions see them."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from millstream.cli.options import JobOptions

pytestmark = pytest.mark.slow

PROGRAM = """
from millstream.datastream import StreamExecutionEnvironment

def tell(value):
    import parcel
    return f"{parcel.CONTENT} {open('model/weights.txt').read()} {value}"

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([1]).map(tell).print()
env.execute("shipping")
"""


@pytest.mark.parametrize(
    "switches", [("-pyfs", "-pyarch"), ("--py-files", "--archives"), ("--pyFiles", "--pyArchives")]
)
def test_wheels_and_archives_reach_the_functions(tmp_path, switches):
    wheel = tmp_path / "parcel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("parcel/__init__.py", "CONTENT = 'parcelled'\n")
    with zipfile.ZipFile(tmp_path / "weights.zip", "w") as archive:
        archive.writestr("weights.txt", "17 kg")
    (tmp_path / "job.py").write_text(PROGRAM)
    files, archives = switches
    command = [sys.executable, "-m", "millstream.cli", "run", "--target", "local", files, wheel.name]
    ended = subprocess.run(
        [*command, archives, "weights.zip#model", "job.py"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert (ended.returncode, ended.stdout) == (0, "parcelled 17 kg 1\n"), ended.stderr


def test_each_switch_is_its_option_and_definitions_have_the_last_word():
    options = JobOptions(
        {"python.files": "b.py"},
        python_files="a.py",
        python_archives="a.zip#a",
        python_requirements="r.txt#wheels",
        python_executable="a/bin/python",
    )
    assert options.settings() == {
        "python.files": "b.py",
        "python.archives": "a.zip#a",
        "python.requirements": "r.txt#wheels",
        "python.executable": "a/bin/python",
    }
