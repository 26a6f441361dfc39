"""Programs in a cluster: side by side, killed, cancelled, and gone on with; each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from clusters import Cluster, run_command, wait_until

from millstream.base.errors import JobRequestError
from millstream.cluster.applications import Program

COUNT = """
    import sys, time
    from millstream.common import Types, WatermarkStrategy
    from millstream.common.serialization import Encoder
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
    from millstream.datastream.connectors.number_seq import NumberSequenceSource

    directory, count, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)

    def slowly(value):
        time.sleep(pause_s)
        return str(value)

    numbers = env.from_source(NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(slowly, Types.STRING()).uid("slowly").sink_to(
        FileSink.for_row_format(directory, Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    ).uid("files")
    env.execute("count")
"""


def written(directory: Path) -> list[int]:
    files = [path for path in directory.rglob("part-*") if path.is_file() and not path.name.startswith(".")]
    return sorted(int(line) for path in files for line in path.read_text().split())


def test_programs_run_side_by_side_and_one_that_fails_touches_no_other(cluster: Cluster) -> None:
    out = cluster.work / "out"
    good = cluster.submit(COUNT, out, 300, 0.005)
    bad = cluster.submit("raise SystemError('on purpose')")
    worse = cluster.submit("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    failed = cluster.wait_for(bad, "FAILED")
    assert "on purpose" in failed.message
    assert cluster.wait_for(good, "FINISHED", "FAILED").status == "FINISHED", cluster.story(good)
    assert written(out) == list(range(300))
    crashed = cluster.wait_for(worse, "FAILED")
    assert crashed.starts == 3 and "signal 11" in crashed.message


def test_killed_process_goes_on_from_its_checkpoint(cluster: Cluster) -> None:
    out = cluster.work / "out"
    job = cluster.submit(COUNT, out, 2_000, 0.002)
    wait_until(lambda: len(written(out)) > 300, 60, lambda: cluster.story(job))
    pid = cluster.find(job).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    ended = cluster.wait_for(job, "FINISHED", "FAILED")
    assert ended.status == "FINISHED" and ended.starts == 2, cluster.story(job)
    assert written(out) == list(range(2_000))


def test_killed_dispatcher_finds_the_process_that_went_on_without_it(cluster: Cluster) -> None:
    out = cluster.work / "out"
    job = cluster.submit(COUNT, out, 2_000, 0.002)
    wait_until(lambda: len(written(out)) > 100, 60, lambda: cluster.story(job))
    before = cluster.find(job)
    cluster.kill()
    cluster.start()
    assert cluster.find(job).pid == before.pid
    ended = cluster.wait_for(job, "FINISHED", "FAILED")
    assert ended.status == "FINISHED" and ended.starts == 1, cluster.story(job)
    assert written(out) == list(range(2_000))


@pytest.mark.long
def test_process_that_was_killed_while_there_was_no_dispatcher_is_started_again(cluster: Cluster) -> None:
    out = cluster.work / "out"
    job = cluster.submit(COUNT, out, 2_000, 0.002)
    wait_until(lambda: len(written(out)) > 300, 60, lambda: cluster.story(job))
    pid = cluster.find(job).pid
    assert pid is not None
    cluster.kill()
    os.kill(pid, signal.SIGKILL)
    cluster.start()
    ended = cluster.wait_for(job, "FINISHED", "FAILED")
    assert ended.status == "FINISHED" and ended.starts == 2, cluster.story(job)
    assert written(out) == list(range(2_000))


@pytest.mark.long
def test_stopped_cluster_suspends_jobs_and_goes_on_with_them(cluster: Cluster) -> None:
    out = cluster.work / "out"
    job = cluster.submit(COUNT, out, 2_000, 0.002)
    wait_until(lambda: len(written(out)) > 300, 60, lambda: cluster.story(job))
    pid = cluster.find(job).pid
    stopped = run_command("cluster", "stop", "--cluster", str(cluster.directory))
    assert stopped.returncode == 0, stopped.stderr
    assert pid is not None and not Path(f"/proc/{pid}").exists()
    cluster.start()
    ended = cluster.wait_for(job, "FINISHED", "FAILED")
    assert ended.status == "FINISHED" and ended.starts == 2, cluster.story(job)
    assert written(out) == list(range(2_000))


def test_cancelled_application_ends_its_jobs(cluster: Cluster) -> None:
    out = cluster.work / "out"
    job = cluster.submit(COUNT, out, 100_000, 0.002)
    wait_until(lambda: len(written(out)) > 10, 60, lambda: cluster.story(job))
    cluster.remote.cancel(job)
    assert cluster.wait_for(job, "CANCELED", "FAILED", "FINISHED").status == "CANCELED", cluster.story(job)


def test_second_dispatcher_on_a_directory_is_refused(cluster: Cluster) -> None:
    second = run_command("cluster", "start", "--target", "local", "--directory", str(cluster.directory))
    assert second.returncode == 1
    assert "another dispatcher runs" in second.stderr


def test_command_line_submits_shows_and_waits(cluster: Cluster) -> None:
    job = cluster.work / "job.py"
    job.write_text(
        "import sys\n"
        "from millstream.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).map(lambda n: n * int(sys.argv[1])).print()\n"
        "env.execute('times')\n"
        "sys.exit(int(sys.argv[2]))\n"
    )
    where = ("--cluster", str(cluster.directory))
    waited = run_command("run", "--target", "session", *where, str(job), "10", "0", cwd=cluster.work)
    assert (waited.returncode, waited.stdout.split()[-2:]) == (0, ["10", "20"]), waited.stderr
    failed = run_command("run", "--target", "session", *where, str(job), "10", "3", cwd=cluster.work)
    assert failed.returncode == 1 and "FAILED" in failed.stderr
    detached = run_command("run", "-d", "-p", "2", *where, str(job), "100", "0", cwd=cluster.work)
    assert detached.returncode == 0, detached.stderr
    application_id = detached.stdout.split()[-1]
    cluster.wait_for(application_id, "FINISHED")
    shown = run_command("logs", "-f", *where, application_id[:12])
    assert sorted(line.split()[-1] for line in shown.stdout.splitlines())[:2] == ["100", "200"]
    document = json.loads(run_command("cluster", "status", "--json", *where).stdout)
    assert [each["status"] for each in document["applications"]] == ["FINISHED", "FAILED", "FINISHED"]
    assert document["applications"][2]["program"]["options"]["parallelism.default"] == "2"


def test_program_that_is_not_there_is_refused(cluster: Cluster) -> None:
    refused = run_command("run", "-d", str(cluster.work / "none.py"))
    assert refused.returncode == 2
    assert "none.py" in refused.stderr
    with pytest.raises(JobRequestError, match="no program"):
        cluster.remote.submit(Program(str(cluster.work / "none.py"), working_directory="/"))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("cluster", ["local[2]"], indirect=True)
def test_jobs_of_one_session_go_on_when_it_is_killed(cluster: Cluster) -> None:
    outs = [cluster.work / name for name in ("one", "two")]
    jobs = [cluster.submit(COUNT, out, 3_000, 0.002) for out in outs]
    for out, job in zip(outs, jobs, strict=True):
        wait_until(lambda out=out: len(written(out)) > 300, 120, lambda job=job: cluster.story(job))  # type: ignore[misc]
    (java,) = (int(pid) for pid in _children_of_session(cluster))
    os.kill(java, signal.SIGKILL)
    for out, job in zip(outs, jobs, strict=True):
        ended = cluster.wait_for(job, "FINISHED", "FAILED", seconds=180)
        assert ended.status == "FINISHED" and ended.starts == 2, cluster.story(job)
        assert written(out) == list(range(3_000))


def _children_of_session(cluster: Cluster) -> list[str]:
    """Return the JVMs that the session's process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_text()
            parent = Path("/proc", fields[1], "cmdline").read_text()
        except OSError:
            continue
        if "SparkSubmit" in command and str(cluster.directory) in parent:
            found.append(path.parent.name)
    return found


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("cluster", ["local[2]"], indirect=True)
def test_jobs_of_one_session_go_on_when_the_dispatcher_is_killed(cluster: Cluster) -> None:
    """Its session ends with it: the next dispatcher opens another, and all jobs go on from their checkpoints."""
    outs = [cluster.work / name for name in ("one", "two", "three")]
    jobs = [cluster.submit(COUNT, out, 3_000, 0.002) for out in outs]
    for out, job in zip(outs, jobs, strict=True):
        wait_until(lambda out=out: len(written(out)) > 300, 180, lambda job=job: cluster.story(job))  # type: ignore[misc]
    cluster.kill()
    cluster.start()
    for out, job in zip(outs, jobs, strict=True):
        ended = cluster.wait_for(job, "FINISHED", "FAILED", seconds=240)
        assert ended.status == "FINISHED", cluster.story(job)
        assert written(out) == list(range(3_000))
