"""Programs are uploaded, run and deleted through the REST API; what is hostile in them stays harmless."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import zipfile
from functools import partial
from pathlib import Path

import httpx
import pytest
from clusters import Cluster, wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.clock import SystemClock
from millstream.cluster.applications import Program
from millstream.cluster.planning import plan_program
from millstream.cluster.uploads import UploadedPrograms
from millstream.rest.errors import RestError
from millstream.rest.multipart import read_file
from rest.shape_check import differences, recorded_shape

PROGRAM = b"""
import sys
from millstream.common import Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda n: n, 10**9, RateLimiterStrategy.per_second(100), Types.LONG())
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").filter(lambda n: False).print()
env.execute(" ".join(sys.argv[1:]))
"""
MOST = 100_000
SHAPES = {"ours": frozenset[str](), "missing": frozenset[str]()}


def archive(**files: bytes | str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as written:
        for name, data in files.items():
            written.writestr(name, data)
    return content.getvalue()


def never(*_: object) -> object:
    raise AssertionError("it was to be refused before")


@pytest.fixture
def kept(tmp_path: Path) -> UploadedPrograms:
    return UploadedPrograms(tmp_path, never, never, never, SystemClock(), most_bytes=MOST)  # type: ignore[arg-type]


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}


class TestWhatIsKept:
    def test_a_file_and_an_archive(self, kept: UploadedPrograms, tmp_path: Path) -> None:
        one = kept.add("job.py", b"pass")
        two = kept.add("C:\\work\\many.zip", archive(**{"__main__.py": "import a.b", "a/b.py": ""}))
        assert [(each.name, each.entry) for each in kept.list()] in (
            [("many.zip", "__main__.py"), ("job.py", "job.py")],
            [("job.py", "job.py"), ("many.zip", "__main__.py")],
        )
        at = f"uploads/{two.program_id}"
        assert {f"{at}/program/__main__.py", f"{at}/program/a/b.py"} <= files_below(tmp_path)
        assert stat.S_IMODE((tmp_path / "uploads" / one.program_id).stat().st_mode) == 0o700
        kept.remove(one.program_id)
        kept.remove(two.program_id)
        assert files_below(tmp_path) == set()
        with pytest.raises(RestError, match="no program"):
            kept.remove(one.program_id)

    @pytest.mark.parametrize(
        "name",
        [
            "",
            ".py",
            "job.txt",
            "job.py.exe",
            "..",
            "a b.py",
            "a\n.py",
            "-x.py",
            "é.py",
            "a" * 200 + ".py",
            "a\0.py",
        ],
    )
    def test_names_that_are_no_programs(self, kept: UploadedPrograms, tmp_path: Path, name: str) -> None:
        with pytest.raises(RestError, match="is no program's name"):
            kept.add(name, b"pass")
        assert files_below(tmp_path) == set()

    @pytest.mark.parametrize("name", ["../../evil.py", "/etc/evil.py", "..\\..\\evil.py"])
    def test_directories_in_names_do_not_count(
        self, kept: UploadedPrograms, tmp_path: Path, name: str
    ) -> None:
        added = kept.add(name, b"pass")
        assert added.name == "evil.py"
        assert all(each.startswith(f"uploads/{added.program_id}/") for each in files_below(tmp_path))

    @pytest.mark.parametrize(
        "entry",
        [
            "../evil.py",
            "a/../../evil.py",
            "/evil.py",
            "a\\..\\evil.py",
            "C:/evil.py",
            "a/\x1b[2J",
            "x" * 300,
            "a\nb",
        ],
    )
    def test_archives_reach_nothing_outside(self, kept: UploadedPrograms, tmp_path: Path, entry: str) -> None:
        with pytest.raises(RestError) as refused:
            kept.add("a.zip", archive(**{"__main__.py": "pass", entry: "evil"}))
        assert refused.value.status == 400
        assert files_below(tmp_path) == set()

    def test_links_and_bombs_and_broken_archives(self, kept: UploadedPrograms, tmp_path: Path) -> None:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as written:
            written.writestr("__main__.py", "pass")
            link = zipfile.ZipInfo("link")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            written.writestr(link, "/etc/passwd")
        for data, says in (
            (content.getvalue(), "link or device"),
            (archive(**{"__main__.py": "pass", "zeros": b"\0" * (MOST + 1)}), "holds more than"),
            (archive(**{"main.py": "pass"}), "__main__.py"),
            (archive(**{"__main__.py": "pass", "a": "", "a/b": ""}), "cannot be unpacked"),
            (b"PK\x03\x04 no archive", "cannot be unpacked"),
        ):
            with pytest.raises(RestError, match=says):
                kept.add("a.zip", data)
        for data in (b"\xff\xfe", b"a\0b"):
            with pytest.raises(RestError, match="no Python program"):
                kept.add("a.py", data)
        assert files_below(tmp_path) == set()

    @settings(max_examples=50, derandomize=True, deadline=None)
    @given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
    def test_damaged_archives_are_refused_or_whole(
        self, tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes
    ) -> None:
        directory = tmp_path_factory.mktemp("damaged")
        kept = UploadedPrograms(directory, never, never, never, SystemClock(), most_bytes=MOST)  # type: ignore[arg-type]
        whole = archive(**{"__main__.py": "print(1)\n" * 20, "a/b.py": "x = 2\n"})
        try:
            added = kept.add("a.zip", whole[:at] + noise + whole[at + len(noise) :])
        except RestError as error:
            assert error.status in (400, 413)
            assert files_below(directory) == set()
        else:
            assert all(each.startswith(f"uploads/{added.program_id}/") for each in files_below(directory))


class TestForms:
    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            (b"", "multipart/form-data"),
            (b"", "multipart/form-data; boundary="),
            (b"--b\r\n", "multipart/form-data; boundary=b"),
            (b"--b\r\nno head\r\n--b--", "multipart/form-data; boundary=b"),
            (
                b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--b--',
                "multipart/form-data; boundary=b",
            ),
            (
                b'--b\r\nContent-Disposition: form-data; filename="a.py"\r\n\r\nx',
                "multipart/form-data; boundary=b",
            ),
        ],
    )
    def test_what_is_no_form_with_one_file(self, body: bytes, kind: str) -> None:
        with pytest.raises(RestError) as refused:
            read_file(body, kind)
        assert refused.value.status == 400

    @settings(max_examples=50, derandomize=True, deadline=None)
    @given(st.binary(max_size=200), st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True))
    def test_files_come_back_as_clients_send_them(self, content: bytes, name: str) -> None:
        request = httpx.Request("POST", "http://host/", files={"jarfile": (name, content)})
        request.read()
        assert read_file(request.content, request.headers["content-type"]) == (name, content)


class TestPlans:
    def test_a_program_runs_up_to_its_first_job(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("millstream.cluster.planning._LONGEST_S", 90.0)
        program = tmp_path / "job.py"
        program.write_bytes(b"print('said before')\n" + PROGRAM + b"open('ran', 'w').close()\n")
        order = Program(str(program), ("a", "b"), {"parallelism.default": "3"}, str(tmp_path))
        planned = plan_program(order, {"execution.target": "local"}, os.environ)
        assert (planned.name, planned.job_type, planned.plan.slots) == ("a b", "STREAMING", 3)
        assert [each.name for each in planned.plan.vertices] == ["numbers -> Filter -> Print to Std. Out"]
        assert not (tmp_path / "ran").exists()

    def test_one_that_never_comes_to_a_job_is_ended_with_all_that_it_started(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("millstream.cluster.planning._LONGEST_S", 1.0)
        program = tmp_path / "job.py"
        program.write_text("import subprocess\nsubprocess.run(['sleep', '61.7'])\n")
        with pytest.raises(RestError, match="did not come to a job") as refused:
            plan_program(Program(str(program), working_directory=str(tmp_path)), {}, os.environ)
        assert refused.value.status == 503
        wait_until(lambda: subprocess.run(["pgrep", "-fx", "sleep 61.7"], check=False).returncode == 1)


@pytest.fixture
def taking(cluster: Cluster) -> Cluster:
    """A cluster that takes programs."""
    cluster.end()
    cluster.options = {"web.submit.enable": "true", "millstream.rest.upload.max-bytes": "20000"}
    cluster.start()
    return cluster


def test_a_program_is_uploaded_run_and_deleted(taking: Cluster) -> None:
    address = str(taking.remote.facts["rest"])
    with httpx.Client(base_url=address, timeout=60) as client:
        for name, content in (("job.py", PROGRAM), ("many.zip", archive(**{"__main__.py": PROGRAM}))):
            uploaded = client.post("/jars/upload", files={"jarfile": (name, content)})
            assert uploaded.status_code == 200, uploaded.text
            program_id = uploaded.json()["filename"].rpartition("/")[2]
            assert program_id in [each["id"] for each in client.get("/jars").json()["files"]]
            run = {"programArgsList": ["from", name], "parallelism": 2}
            started = client.post(f"/jars/{program_id}/run", json=run)
            assert started.status_code in (200, 503), started.text  # 503: on a machine that is slow
            running = partial(running_jobs, client, f"from {name}")
            wait_until(lambda running=running: running() != [], 90)  # type: ignore[misc]
            (job,) = running()
            if started.status_code == 200:
                assert started.json()["jobid"] == job["jid"]
                assert (
                    differences(started.json(), recorded_shape("/jars/:jar/run", "POST")[1], **SHAPES) == []
                )
            wait_until(lambda job=job: client.get(f"/jobs/{job['jid']}").json()["state"] == "RUNNING", 90)  # type: ignore[misc]
            assert {each["parallelism"] for each in client.get(f"/jobs/{job['jid']}").json()["vertices"]} == {
                2
            }
            check_plan(client, program_id, run, job["jid"])
            check_manager(client, job["jid"])
            assert client.patch(f"/jobs/{job['jid']}").status_code == 202
            wait_until(lambda job=job: client.get(f"/jobs/{job['jid']}").json()["state"] == "CANCELED", 90)  # type: ignore[misc]
            assert client.delete(f"/jars/{program_id}").status_code == 200
        assert client.get("/jars").json()["files"] == []
        logs = [each["name"] for each in client.get("/jobmanager/logs").json()["logs"]]
        assert "dispatcher.log" in logs and len(logs) >= 3
        assert "text/plain" in client.get("/jobmanager/log").headers["content-type"]

        wrong = client.post(
            "/jars/upload", files={"jarfile": ("wrong.py", b"raise ValueError('of the program')")}
        )
        wrong_id = wrong.json()["filename"].rpartition("/")[2]
        failed = client.post(f"/jars/{wrong_id}/run", json={})
        assert failed.status_code in (400, 503), failed.text
        if failed.status_code == 400:
            assert "of the program" in failed.json()["errors"][0]
        unplanned = client.get(f"/jars/{wrong_id}/plan")
        assert unplanned.status_code in (400, 503), unplanned.text
        if unplanned.status_code == 400:
            assert "of the program" in unplanned.json()["errors"][0]
        chosen = client.post(f"/jars/{wrong_id}/run-application", json={"applicationId": "1" * 32})
        assert (chosen.status_code, "applicationId" in chosen.text) == (400, True)
        started = client.post(f"/jars/{wrong_id}/run-application", json={"programArgsList": ["x"]})
        assert (
            started.status_code == (shape := recorded_shape("/jars/:jar/run-application", "POST"))[0] == 202
        )
        assert differences(started.json(), shape[1], **SHAPES) == []
        application = taking.wait_for(started.json()["applicationid"], "FAILED")
        assert application.program.arguments == ("x",) and "of the program" in application.message

        large = client.post("/jars/upload", files={"jarfile": ("large.py", b"#" * 40_000)})
        assert large.status_code == 413
        foreign = client.post(
            "/jars/upload", files={"jarfile": ("job.py", PROGRAM)}, headers={"origin": "http://evil.example"}
        )
        assert foreign.status_code == 403
        assert client.post("/jars/upload", json={}).status_code == 400
        for hostile in ("..%2F..%2Fapplications", "nosuch.py", "%00"):
            assert client.delete(f"/jars/{hostile}").status_code == 404
            for what in ("run", "run-application", "plan"):
                assert client.post(f"/jars/{hostile}/{what}", json={}).status_code == 404


def running_jobs(client: httpx.Client, name: str) -> list[dict[str, object]]:
    """Return those of a name; earlier runs of the test have left some that have ended."""
    jobs = client.get("/jobs/overview").json()["jobs"]
    return [each for each in jobs if each["name"] == name and each["end-time"] == -1]


def check_plan(client: httpx.Client, program_id: str, run: dict[str, object], job_id: str) -> None:
    """What is planned is what runs, but for the id."""
    planned = client.post(f"/jars/{program_id}/plan", json=run)
    assert planned.status_code in (200, 503), planned.text
    if planned.status_code == 200:
        (ours, runs) = (planned.json()["plan"], client.get(f"/jobs/{job_id}/plan").json()["plan"])
        assert ours["nodes"] == runs["nodes"] != []
        assert (ours["name"], ours["type"]) == (runs["name"], runs["type"])
        assert differences(planned.json(), recorded_shape("/jars/:jar/plan", "POST")[1], **SHAPES) == []


def check_manager(client: httpx.Client, job_id: str) -> None:
    """A task manager's logs are those of its program; its threads those of the driver that it is."""
    vertex = client.get(f"/jobs/{job_id}").json()["vertices"][0]["id"]
    (manager,) = {
        each["taskmanager-id"] for each in client.get(f"/jobs/{job_id}/vertices/{vertex}").json()["subtasks"]
    }
    at = f"/taskmanagers/{manager}"
    logs = client.get(f"{at}/logs").json()
    assert differences(logs, recorded_shape("/taskmanagers/:tm/logs")[1], **SHAPES) == []
    (log,) = logs["logs"]
    assert log in client.get("/jobmanager/logs").json()["logs"]
    texts = [client.get(f"{at}/{path}").text for path in ("log", "stdout", f"logs/{log['name']}")]
    assert texts[0] == texts[1] == texts[2] == client.get(f"/jobmanager/logs/{log['name']}").text != ""
    dump = client.get(f"{at}/thread-dump").json()
    assert differences(dump, recorded_shape("/taskmanagers/:tm/thread-dump")[1], **SHAPES) == []
    assert any("in execute" in each["stringifiedThreadInfo"] for each in dump["threadInfos"])
    assert client.get(f"{at}/logs/dispatcher.log").status_code == 404
    for path in ("log", "logs", "stdout", "thread-dump"):
        assert client.get(f"/taskmanagers/nosuch/{path}").status_code == 404


def test_a_cluster_takes_no_programs_unless_it_is_told_to(cluster: Cluster) -> None:
    address = str(cluster.remote.facts["rest"])
    refused = httpx.post(f"{address}/jars/upload", files={"jarfile": ("job.py", PROGRAM)})
    assert (refused.status_code, "web.submit.enable" in refused.text) == (404, True)
    assert httpx.get(f"{address}/jars").json()["files"] == []
