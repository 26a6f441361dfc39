from __future__ import annotations

import fcntl
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from millstream.base.errors import ConfigurationError, JobDefinitionError
from millstream.config.configuration import Configuration
from millstream.files.private_files import NotPrivateError
from millstream.runtime.program.dependencies import Dependencies, collect_dependencies
from millstream.runtime.protocol.deployment import load_dependencies
from millstream.runtime.slot.workspace import PYTHON_VARIABLE, Workspace, open_workspace


def collect(**settings):
    return collect_dependencies(
        Configuration.from_dict({key.replace("__", "."): value for key, value in settings.items()})
    )


@pytest.fixture
def base(tmp_path):
    return str(tmp_path / "work")


@pytest.fixture
def files(tmp_path):
    """A module, a package, a plain directory, a zip and a wheel, each with a module of its own."""
    (tmp_path / "one.py").write_text("NAME = 'one'")
    for name in ("package", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / "package" / "__init__.py").write_text("NAME = 'package'")
    (tmp_path / "package" / "inner.py").write_text("NAME = 'inner'")
    (tmp_path / "plain" / "in_plain.py").write_text("NAME = 'in_plain'")
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("in_zip.py", "NAME = 'in_zip'")
    return tmp_path


def find(path, workspace):
    """Return which file an import of `path` would load, by the workspace's sys.path alone."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(path, list(workspace.python_path))
    return None if spec is None else spec.origin


def test_python_files_of_every_kind_can_be_imported(files, base):
    paths = [str(files / name) for name in ("one.py", "package", "plain", "zipped.zip")]
    workspace = open_workspace(collect(python__files=",".join(paths)), "job-0", base)
    for name in ("one", "package", "inner", "in_plain", "in_zip"):
        origin = find(name, workspace)
        assert origin is not None and origin.startswith(base), name
    workspace.close()


def test_first_file_is_found_first(tmp_path, base):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text("")
    workspace = open_workspace(collect(python__files=f"{tmp_path}/b,{tmp_path}/a"), "job-0", base)
    assert find("same", workspace).endswith("/b/same.py")
    workspace.close()


def zip_with_rights(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        script = zipfile.ZipInfo("bin/run")
        script.external_attr = (stat.S_IFREG | 0o755) << 16
        archive.writestr(script, "#!/bin/sh\necho ran")
        link = zipfile.ZipInfo("bin/alias")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "run")
        archive.writestr("data/words.txt", "words")


def test_archive_is_unpacked_under_its_name_or_target_with_permissions_and_links(tmp_path, base):
    zip_with_rights(tmp_path / "env.zip")
    archives = f"{tmp_path}/env.zip,{tmp_path}/env.zip#mine"
    workspace = open_workspace(collect(python__archives=archives), "job-0", base)
    root = Path(workspace.working_directory)
    assert (root / "env.zip" / "data" / "words.txt").read_text() == "words"
    assert os.access(root / "mine" / "bin" / "run", os.X_OK)
    assert os.readlink(root / "mine" / "bin" / "alias") == "run"
    workspace.close()


def test_tar_archive_is_unpacked(tmp_path, base):
    (tmp_path / "words.txt").write_text("words")
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "words.txt", "words.txt")
    workspace = open_workspace(collect(python__archives=f"{tmp_path}/env.tar.gz#env"), "job-0", base)
    assert (Path(workspace.working_directory) / "env" / "words.txt").read_text() == "words"
    workspace.close()


def test_archive_whose_link_leads_out_is_refused(tmp_path, base):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        link = zipfile.ZipInfo("../../out")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(JobDefinitionError, match="leads out"):
        open_workspace(collect(python__archives=f"{tmp_path}/bad.zip"), "job-0", base)
    assert os.listdir(base) == []


def test_tar_whose_member_leads_out_is_refused(tmp_path, base):
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../../out"), io.BytesIO())
    with pytest.raises(JobDefinitionError, match="does not unpack"):
        open_workspace(collect(python__archives=f"{tmp_path}/bad.tar"), "job-0", base)


def test_a_chosen_interpreter_is_named_in_the_environment_until_the_end(monkeypatch):
    monkeypatch.setenv(PYTHON_VARIABLE, "before")
    workspace = Workspace(executable="/usr/bin/python3")
    workspace.enter()
    assert os.getenv(PYTHON_VARIABLE) == "/usr/bin/python3"
    workspace.close()
    assert os.getenv(PYTHON_VARIABLE) == "before"


def test_relative_interpreter_is_found_in_its_archive(tmp_path, base):
    zip_with_rights(tmp_path / "env.zip")
    dependencies = collect(python__archives=f"{tmp_path}/env.zip#env", python__executable="env/bin/run")
    workspace = open_workspace(dependencies, "job-0", base)
    assert workspace.executable == str(Path(workspace.working_directory) / "env/bin/run")
    workspace.close()


@pytest.mark.slow
def test_requirements_are_installed_from_the_directory_of_packages(tmp_path, base):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "tinypkg", "1.0")
    (tmp_path / "requirements.txt").write_text("tinypkg==1.0\n")
    dependencies = collect(python__requirements=f"{tmp_path}/requirements.txt#{wheels}")
    workspace = open_workspace(dependencies, "job-0", base)
    assert find("tinypkg", workspace).startswith(base)
    workspace.close()


@pytest.mark.slow
def test_requirements_that_pip_cannot_install_are_told_with_what_pip_says(tmp_path, base):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "requirements.txt").write_text("tinypkg==1.0\n")
    dependencies = collect(python__requirements=f"{tmp_path}/requirements.txt#{tmp_path}/wheels")
    with pytest.raises(JobDefinitionError, match="requirements.txt") as caught:
        open_workspace(dependencies, "job-0", base)
    assert "tinypkg" in caught.value.detail


def write_wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f"VERSION = '{version}'\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_cached_files_are_copies_with_their_own_names(tmp_path, base):
    (tmp_path / "model.bin").write_bytes(b"\x00\x01")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "part").write_text("part")
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    listed = f"name:m,path:{tmp_path}/model.bin;name:f,path:{tmp_path}/folder;"
    listed += f"name:t,path:{tmp_path}/tool,executable:true"
    workspace = open_workspace(
        collect(pipeline__cached_files=listed, **{"pipeline.cached-files": listed}), "j", base
    )
    cached = workspace.cached_files
    assert Path(cached["m"]).read_bytes() == b"\x00\x01" and Path(cached["m"]).name == "model.bin"
    assert (Path(cached["f"]) / "part").read_text() == "part"
    assert os.access(cached["t"], os.X_OK) and not os.access(cached["m"], os.X_OK)
    workspace.close()


def test_slots_of_a_host_share_one_workspace_and_the_last_one_removes_it(files, base):
    dependencies = collect(python__files=str(files / "one.py"))
    first = open_workspace(dependencies, "job-0", base)
    marker = Path(first.python_path[0]) / "marker"
    marker.touch()
    second = open_workspace(dependencies, "job-0", base)
    assert second.python_path == first.python_path and marker.exists()
    first.close()
    assert marker.exists()
    second.close()
    assert os.listdir(base) == []


def test_what_a_killed_slot_left_is_removed_by_the_next_job_and_what_lives_is_not(files, base):
    dependencies = collect(python__files=str(files / "one.py"))
    living = open_workspace(dependencies, "living-0", base)
    killed = open_workspace(dependencies, "killed-0", base)
    killed._lock.close()  # as the system does for a process that is gone
    third = open_workspace(dependencies, "third-0", base)
    assert sorted(os.listdir(base)) == ["living-0", "third-0"]
    living.close()
    third.close()


def test_workspace_that_was_not_laid_out_to_the_end_is_laid_out_again(files, base):
    root = Path(base) / "job-0"
    (root / "files" / "0").mkdir(parents=True)
    root.parent.chmod(0o700)
    with open(root / "alive", "ab") as alive:
        fcntl.flock(alive, fcntl.LOCK_SH)  # another slot of the attempt, which waits for its turn
        workspace = open_workspace(collect(python__files=str(files / "one.py")), "job-0", base)
        assert find("one", workspace) is not None
        workspace.close()
        assert root.exists()


def test_directory_that_others_may_write_to_is_refused(files, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotPrivateError, match="not for this user only"):
        open_workspace(collect(python__files=str(files / "one.py")), "job-0", str(tmp_path / "open"))


def test_without_files_nothing_is_written(base):
    workspace = open_workspace(
        collect(python__pythonpath="/a:/b", python__executable="/x/python"), "job-0", base
    )
    assert (workspace.python_path, workspace.executable) == (("/a", "/b"), "/x/python")
    assert not os.path.exists(base)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"python.files": "/nowhere/x.py"}, "/nowhere/x.py"),
        ({"python.requirements": "/nowhere/requirements.txt"}, "cannot be read"),
        ({"python.archives": "/nowhere/a.zip#b"}, "python.archives"),
        ({"python.files": __file__ + ".txt"}, "cannot be read"),
        ({"python.archives": __file__}, "is not an archive"),
        ({"pipeline.cached-files": "name:x"}, "lacks name or path"),
        ({"pipeline.cached-files": "x"}, "without a colon"),
    ],
)
def test_file_that_is_missing_or_of_no_use_is_told_before_the_job_starts(settings, words):
    with pytest.raises(ConfigurationError, match=words):
        collect_dependencies(Configuration.from_dict(settings))


@pytest.mark.parametrize("target", ["/etc", "../out", "a/../../b"])
def test_archive_cannot_be_unpacked_outside(tmp_path, target):
    zip_with_rights(tmp_path / "env.zip")
    with pytest.raises(ConfigurationError, match="target directory"):
        collect(python__archives=f"{tmp_path}/env.zip#{target}")


def test_text_file_cannot_be_imported(tmp_path):
    (tmp_path / "data.csv").write_text("a,b")
    with pytest.raises(ConfigurationError, match="cannot import"):
        collect(python__files=str(tmp_path / "data.csv"))


def test_dependencies_are_read_without_unpickling_the_rest():
    import pickle

    payload = pickle.dumps(Dependencies(executable="/x")) + b"not a pickle"
    assert load_dependencies(payload).executable == "/x"
