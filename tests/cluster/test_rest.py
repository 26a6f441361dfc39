"""A cluster serves the REST API for its programs' jobs."""

from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest
from clusters import Cluster, wait_until

ENDLESS = """
    from millstream.common import Types, WatermarkStrategy
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda index: index, 10**9, RateLimiterStrategy.per_second(100), Types.LONG())
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").filter(lambda number: False).print()
    env.execute("endless")
"""


@pytest.mark.long
def test_jobs_of_a_cluster_are_seen_and_cancelled_through_its_rest_api(cluster: Cluster) -> None:
    with httpx.Client(base_url=cluster.remote.facts["rest"], timeout=20) as client:
        applications = [cluster.submit(ENDLESS, name=name) for name in ("one", "two")]

        def jobs() -> dict[str, str]:
            pids = {cluster.find(each).pid for each in applications}
            listed = client.get("/jobs").json()["jobs"]
            views = [client.get(f"/millstream/jobs/{job['id']}").json() for job in listed]
            return {view["job_id"]: view["status"] for view in views if "pid" in view and view["pid"] in pids}

        wait_until(
            lambda: list(jobs().values()) == ["RUNNING", "RUNNING"],
            60,
            lambda: cluster.story(applications[0]),
        )
        first, second = jobs()
        assert client.patch(f"/jobs/{first}").status_code == 202
        wait_until(lambda: client.get(f"/jobs/{first}").json()["state"] == "CANCELED")
        assert client.get(f"/jobs/{second}").json()["state"] == "RUNNING"
        for each in applications:  # which have the options of the cluster
            pid = cluster.find(each).pid
            listening = [] if pid is None else psutil.Process(pid).net_connections("tcp4")
            assert [each for each in listening if each.status == "LISTEN"] == []


SLOW = """
    import pathlib
    import time

    while not pathlib.Path({path!r}).exists():  # as packages that take long to import
        time.sleep(0.05)
"""


@pytest.mark.long
def test_a_program_that_takes_long_to_start_is_seen_before_its_job(cluster: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    application = cluster.submit(SLOW.format(path=str(go)) + ENDLESS, name="slow")
    with httpx.Client(base_url=cluster.remote.facts["rest"], timeout=20) as client:

        def waiting() -> list[tuple[str, str]]:
            found = client.get("/millstream/starting").json()
            return [(each["name"], each["status"]) for each in found if each["program_id"] == application]

        wait_until(lambda: waiting() == [("slow", "RUNNING")], 60, lambda: cluster.story(application))
        told = client.get(f"/jobs/{'0' * 32}")
        assert told.status_code == 404
        assert '"slow"' in told.json()["errors"][0]
        go.touch()
        wait_until(lambda: waiting() == [], 90, lambda: cluster.story(application))
        pid = cluster.find(application).pid
        jobs = [
            client.get(f"/millstream/jobs/{each['id']}").json() for each in client.get("/jobs").json()["jobs"]
        ]
        assert [job["name"] for job in jobs if job.get("pid") == pid] == ["endless"]
