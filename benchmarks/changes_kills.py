"""Changes of a table of PostgreSQL to another table, while processes are killed: both are the same at the end.

    python benchmarks/changes_kills.py [--changes 100000] [--kills 20] [--workers 2] [--seed 1]

A PostgreSQL server and a standalone Spark cluster run on this machine. A table has 10,000 rows, and somebody inserts,
updates (now and then the key as well) and deletes rows, in transactions of 1 to 100 changes, some of which are rolled
back, whole or to a savepoint; a share of the changes is made when there is output again after a kill. A job
(`programs/changes.py`) reads table and changes with a `PostgresChangeSource`, and makes a copy with a `JdbcSink` that
upserts and deletes by key, exactly once. All the while this program sends SIGKILL to random processes: slots, Spark's
Python workers, executors, workers of the cluster, the driver (started again with `--recover`), and has PostgreSQL's
server end as if it were killed (started again with the same data). With `--workers 0` the job runs on the local
executor, and only driver and server are killed.

When all changes are made, the copy has to become the table: PostgreSQL compares them, all rows and columns, both ways.
Exit code 1 if it does not.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
from killing import OPTIONS, ROOT, Cluster, Killed, machine, run_kills, strike_process, wait_for_output

sys.path.insert(0, str(ROOT / "tests"))

from servers.postgres import PostgresServer

PROGRAM = Path(__file__).parent / "programs" / "changes.py"
ROWS = 10_000
SHARE_S = 4  # a kill comes within 2.5 s after there is output again
LOCAL_WEIGHTS = {"driver": 70, "database": 30}
WEIGHTS = {"slot": 40, "Python worker": 10, "executor": 10, "cluster worker": 5, "driver": 20, "database": 15}
COLUMNS = {
    "id": "bigint PRIMARY KEY", "owner": "text", "cents": "numeric(12,2)", "at": "timestamptz", "raw": "bytea",
    "tags": "text[]", "document": "jsonb", "paid": "boolean", "rate": "float8",
}  # fmt: skip
VALUES = """'owner "' || %(n)s::int || E'\\\\\\n,' || chr(128512 + %(n)s::int %% 40), %(n)s::int / 100.0,
    '2024-01-01'::timestamptz + %(n)s::int * interval '1.000001 s', decode(lpad(to_hex(%(n)s::int), 8, '0'), 'hex'),
    ARRAY['a,"b', NULL, %(n)s::int::text], jsonb_build_object('n', %(n)s::int), %(n)s::int %% 3 = 0,
    %(n)s::int / 7.0::float8"""
ONLY_IN_ONE = "SELECT count(*) FROM (TABLE {one} EXCEPT ALL TABLE {other}) AS found"


class Changer:
    """Changes the table; each transaction is made once, also if the server is killed under it."""

    def __init__(
        self, server: PostgresServer, changes: int, per_second: int, seed: int, killed: Killed
    ) -> None:
        self._server = server
        self._changes = changes
        self._per_second = per_second
        self._killed = killed
        self._rng = random.Random(seed)
        self._next = ROWS
        self._ids = list(range(ROWS))
        self.made: Counter[str] = Counter()
        self.stopped = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join()

    @property
    def has_caught_up(self) -> bool:
        """Whether it makes no more changes until the next kill."""
        return self.is_done or self._count() >= self._killed.share_of(self._changes)

    @property
    def is_done(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._make_all()
        except BaseException as error:
            self.failure = error

    def _make_all(self) -> None:
        number = 0
        while (made := self._count()) < self._changes:
            before = time.time()
            if made < self._killed.share_of(self._changes):
                number += 1
                self._make(self._plan(), number)
            pause = before + max(1, self._count() - made) / self._per_second - time.time()
            if self.stopped.wait(max(0.0, pause)):
                return

    def _count(self) -> int:
        return sum(self.made[kind] for kind in ("inserts", "updates", "deletes"))

    def _plan(self) -> list[tuple[str, int, int]]:
        """Return the changes of a transaction: kind, the row's id, and a new number."""
        most = min(self._rng.choice((1, 5, 100)), self._changes - self._count())
        plan = []
        for _ in range(self._rng.randint(1, most)):
            kind = self._rng.choices(("inserts", "updates", "deletes"), (4, 4, 2))[0]
            self._next += 1
            place = self._rng.randrange(len(self._ids))
            plan.append((kind, place, self._next))
        return plan

    def _make(self, plan: list[tuple[str, int, int]], number: int) -> None:
        rolls_back = self._rng.random() < 0.05
        has_savepoint = self._rng.random() < 0.1
        state = self._rng.getstate()
        while True:
            self._rng.setstate(state)
            ids, made = list(self._ids), Counter[str]()
            try:
                with self._server.connect("postgres", autocommit=False) as connection:
                    if (
                        connection.execute("SELECT 1 FROM made WHERE number = %s", (number,)).fetchone()
                        is None
                    ):
                        if has_savepoint:
                            connection.execute("SAVEPOINT before")
                            connection.execute("UPDATE accounts SET cents = -1 WHERE id = %s", (ids[0],))
                            connection.execute("ROLLBACK TO before")
                        self._change(connection, plan, ids, made)
                        connection.execute("INSERT INTO made VALUES (%s)", (number,))
                    else:  # it was committed, and the answer was lost
                        self._change(None, plan, ids, made)
                    if rolls_back:
                        connection.rollback()
                        self.made["transactions rolled back"] += 1
                        return
            except psycopg.OperationalError:  # the server was killed
                if self.stopped.wait(0.1):
                    return
                continue
            self._ids = ids
            self.made.update(made)
            self.made["transactions"] += 1
            return

    def _change(
        self,
        connection: psycopg.Connection[Any] | None,
        plan: list[tuple[str, int, int]],
        ids: list[int],
        made: Counter[str],
    ) -> None:
        """Make the changes of a transaction; without a connection, only note what they are."""
        for kind, place, new in plan:
            place %= len(ids)
            old = ids[place]
            if kind == "inserts":
                statement = f"INSERT INTO accounts SELECT %(n)s, {VALUES}"
                ids.append(new)
            elif kind == "deletes":
                statement = "DELETE FROM accounts WHERE id = %(old)s"
                ids[place] = ids[-1]
                ids.pop()
            elif new % 10 == 0:
                statement, ids[place] = "UPDATE accounts SET id = %(n)s WHERE id = %(old)s", new
                made["updates of keys among them"] += 1
            elif new % 10 == 1:
                statement = (
                    "UPDATE accounts SET owner = NULL, tags = NULL, document = NULL WHERE id = %(old)s"
                )
            else:
                statement = (
                    "UPDATE accounts SET (owner, cents, at, raw, tags, document, paid, rate) ="
                    f" (SELECT {VALUES}) WHERE id = %(old)s"
                )
            made[kind] += 1
            if connection is not None:
                done = connection.execute(statement, {"n": new, "old": old})
                assert done.rowcount == 1, (statement, old)


class Copies:
    """The copy, as readers see it."""

    def __init__(self, server: PostgresServer, changer: Changer) -> None:
        self._server = server
        self._changer = changer
        self._count = 0

    def follow(self, seconds: float) -> int:
        """Return how often something was committed."""
        time.sleep(max(seconds, 0.1))
        try:
            with self._server.connect("postgres") as connection:
                row = connection.execute("SELECT count(*) FROM millstream_commits").fetchone()
        except psycopg.OperationalError:  # it was killed
            return self._count
        except psycopg.errors.UndefinedTable:  # the job has not begun
            return 0
        assert row is not None
        self._count = int(row[0])
        return self._count

    def differences(self) -> tuple[int, int]:
        """Return how many rows are only in the table, and only in the copy."""
        pairs = (("accounts", "copies"), ("copies", "accounts"))
        with self._server.connect("postgres") as connection:
            found = [
                connection.execute(ONLY_IN_ONE.format(one=one, other=other)).fetchone()
                for one, other in pairs
            ]
        return found[0][0], found[1][0]

    def has_caught_up(self) -> bool:
        return self._changer.has_caught_up and self._is_same()

    def has_ended(self) -> bool:
        return self._changer.is_done and self._is_same()

    def _is_same(self) -> bool:
        try:
            return not any(self.differences())
        except psycopg.OperationalError:
            return False


def strike(server: PostgresServer, cluster: Cluster, victim: str, rng: random.Random) -> bool:
    if victim != "database":
        return strike_process(cluster, victim, rng)
    server.stop()
    time.sleep(rng.uniform(0, 2))
    server.start()
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument(
        "--per-second", type=int, help="how fast changes are made, at most; by default a share in 4 s"
    )
    parser.add_argument("--logs", type=Path, help="where to leave the logs of drivers and workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--workers", type=int, choices=(0, 1, 2), default=2, help="workers; 0: the local executor"
    )
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds without output that are a failure"
    )
    arguments = parser.parse_args()
    if arguments.per_second is None:
        arguments.per_second = max(100, int(arguments.changes / (arguments.kills + 1) / SHARE_S))
    server = PostgresServer()
    with tempfile.TemporaryDirectory(prefix="millstream-changes-", ignore_cleanup_errors=True) as scratch:
        try:
            server.start()
            killed = Killed(arguments.kills)
            changer = Changer(server, arguments.changes, arguments.per_second, arguments.seed, killed)
            differences, rows = run(arguments, Path(scratch), server, changer, killed)
        finally:
            server.close()
    return report(arguments, changer, killed, differences, rows)


def run(
    arguments: argparse.Namespace,
    directory: Path,
    server: PostgresServer,
    changer: Changer,
    killed: Killed,
) -> tuple[tuple[int, int], int]:
    """Run the job, and kill; return how many rows are only in the table and in the copy, and how many there are."""
    prepare(server)
    copies = Copies(server, changer)
    settings = {
        "url": f"postgresql://postgres:{server.password}@127.0.0.1:{server.port}/postgres",
        "jdbc_url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        "user": "postgres", "password": server.password, "columns": list(COLUMNS),
    }  # fmt: skip
    options = {**OPTIONS, "high-availability.storageDir": str(directory / "ha")}
    cluster = Cluster(
        directory,
        PROGRAM.read_text(encoding="utf-8"),
        (json.dumps(settings),),
        options,
        cores=2 // max(arguments.workers, 1),
        workers=arguments.workers,
    )
    try:
        cluster.start()
        cluster.start_driver()
        changer.start()
        if wait_for_output(cluster, copies, arguments.patience) is None:
            raise SystemExit(f"the job gave nothing:\n{cluster.log_tail()}")
        run_kills(
            cluster, copies, random.Random(arguments.seed), killed,
            weights=WEIGHTS if arguments.workers else LOCAL_WEIGHTS,
            strike=lambda *given: strike(server, *given), patience_s=arguments.patience,
        )  # fmt: skip
        began = time.time()
        while not copies.has_ended():
            if changer.is_done and time.time() - began > arguments.patience:
                print(f"the copy does not become the table:\n{cluster.log_tail()}", file=sys.stderr)
                break
            began = began if changer.is_done else time.time()
            cluster.revive()
            time.sleep(1)
        time.sleep(10)  # what should not come would come now
        with server.connect("postgres") as connection:
            row = connection.execute("SELECT count(*) FROM accounts").fetchone()
        assert row is not None
        return copies.differences(), row[0]
    finally:
        changer.stop()
        cluster.stop()
        if arguments.logs is not None:
            cluster.keep_logs(arguments.logs)


def prepare(server: PostgresServer) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    with server.connect("postgres") as connection:
        for table in ("accounts", "copies"):
            connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute("CREATE TABLE made (number bigint PRIMARY KEY)")
        connection.execute("ALTER TABLE accounts REPLICA IDENTITY FULL")
        values = VALUES.replace("%(n)s", "n").replace("%%", "%")
        connection.execute(f"INSERT INTO accounts SELECT n, {values} FROM generate_series(0, {ROWS - 1}) n")


def report(
    arguments: argparse.Namespace, changer: Changer, killed: Killed, differences: tuple[int, int], rows: int
) -> int:
    where = f"{arguments.workers} Spark workers" if arguments.workers else "local executor"
    print(
        f"\n{machine()}, {where}, seed {arguments.seed}\n\n{killed.table()}\n\n| changes | |\n| --- | ---: |"
    )
    for what, number in sorted(changer.made.items()):
        print(f"| {what} | {number:,} |")
    print(f"\n{killed.count} kills: of {rows:,} rows {differences[0]} are only in the table,")
    print(f"{differences[1]} only in the copy.")
    return 1 if any(differences) else 0


if __name__ == "__main__":
    sys.exit(main())
