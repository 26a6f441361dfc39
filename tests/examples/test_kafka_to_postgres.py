"""The tutorial's job is killed in the middle of its work, and the table is right all the same."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servers.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
SHOPS = ("north", "south", "east")
COUNT = 30_000
LIMIT_S = 120


@pytest.fixture(scope="module")
def database():
    server = PostgresServer()
    try:
        server.start()
        with server.new_database() as made:
            made.execute(
                "CREATE TABLE totals (shop TEXT PRIMARY KEY, orders BIGINT NOT NULL, cents BIGINT NOT NULL)"
            )
            yield made
    finally:
        server.close()


@pytest.mark.long
def test_totals_are_right_though_the_job_is_killed(kafka, database, tmp_path):
    kafka.create_topic("orders", partitions=3)
    orders = [{"shop": SHOPS[number % 3], "cents": number % 1000} for number in range(COUNT)]
    kafka.produce("orders", [json.dumps(order).encode() for order in orders])
    expected = {
        shop: (
            sum(order["shop"] == shop for order in orders),
            sum(order["cents"] for order in orders if order["shop"] == shop),
        )
        for shop in SHOPS
    }

    def start(*more: str) -> subprocess.Popen:
        options = [
            *("--target", "local", "--recover", "-D", f"high-availability.storageDir={tmp_path / 'ha'}"),
            *("-D", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}"),
            *("-D", "millstream.epoch.fixed-records=500"),
        ]
        program = [str(ROOT / "examples" / "kafka_to_postgres.py"), kafka.bootstrap, database.url, *more]
        return subprocess.Popen(
            [sys.executable, "-m", "millstream.cli", "run", *options, *program],
            cwd=tmp_path,
            env=dict(os.environ),
        )

    def written() -> dict:
        return {
            shop: (n, cents) for shop, n, cents in database.execute("SELECT shop, orders, cents FROM totals")
        }

    def wait_for(condition) -> None:
        until = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < until, written()
            time.sleep(0.1)

    for _ in range(3):
        seen = sum(n for n, _ in written().values())
        job = start()
        try:
            wait_for(lambda seen=seen, job=job: sum(n for n, _ in written().values()) > seen or seen == COUNT)
        finally:
            job.kill()
            job.wait()
    job = start()
    try:
        wait_for(lambda: written() == expected)
        time.sleep(2)  # nothing comes behind it
        assert written() == expected
    finally:
        job.terminate()
        job.wait(LIMIT_S)
