"""Nexmark's queries, GROUP BY of many keys, Python functions and files: here and in Flink SQL, in the same run.

    python benchmarks/sql_nexmark.py --pyflink-env ENV [--events 4000000] [--rounds 3] [--only q4 q5] [--write]

Rows are made inside the job on both sides: the connector `datagen` counts, and the same SQL makes persons, auctions and
bids of the number (1 : 3 : 46, as Nexmark has them; 10 events a millisecond of event time). Each statement is an INSERT
into a table that keeps nothing (`blackhole`), the jobs of files apart. Seconds are those from the call until the job
has ended. Both run at parallelism 2, ours on the local executor; Flink is PyFlink's wheel in a process (local, heap
state), with its defaults and with mini-batch and object reuse, and its better median counts. Rounds alternate: one of
ours, one of Flink's with defaults, one with mini-batch; each side has warmed up by a round. Before that each query is
run over the first --few events, and the tables that come out are compared. Beside the seconds stands the processor time
of the whole process tree (Flink's JVM with its compiler and collector): on a busy machine it says more. q12 counts by
event time: windows of processing time hold other rows in each run. ENV is an environment of Python's with apache-flink
in it; --jars names jars for it, with ; between them: of files, flink-sql-parquet of its version, and hadoop-client-api
and hadoop-client-runtime, which are among PySpark's jars.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "sql_nexmark.md"

# Of the number n of an event: hashes by two generators of Park and Miller's kind, and the ids as of Nexmark.
EVENTS = """CREATE TABLE events (
  n BIGINT,
  ts AS TO_TIMESTAMP_LTZ(1704067200000 + {since}, 3),
  WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{last}'
)"""
HASHED = """CREATE TEMPORARY VIEW hashed AS SELECT n, ts, MOD(n, 50) AS place,
  MOD((n + 7) * 48271, CAST(2147483647 AS BIGINT)) AS h, MOD((n + 11) * 69621, CAST(2147483629 AS BIGINT)) AS g
FROM events"""
BID = """CREATE TEMPORARY VIEW bid AS SELECT
  1000 + CASE WHEN MOD(h, 2) = 0 THEN n / 50 * 3 / 100 * 100 ELSE n / 50 * 3 - MOD(g, 500) END AS auction,
  1000 + CASE WHEN MOD(g, 4) > 0 THEN n / 50 / 100 * 100 ELSE n / 50 - MOD(h, 1000) END AS bidder,
  (MOD(h, 9973) + 1) * (MOD(g, 9967) + 1) AS price,
  CASE MOD(h, 8) WHEN 0 THEN 'apple' WHEN 1 THEN 'google' WHEN 2 THEN 'facebook' WHEN 3 THEN 'baidu'
    ELSE CONCAT('channel-', CAST(MOD(g, 10000) AS STRING)) END AS channel,
  CONCAT('https://www.nexmark.com/dir', CAST(MOD(h, 97) AS STRING), '/sub/', CAST(MOD(g, 89) AS STRING),
    '/item.htm?query=1', CASE WHEN MOD(h, 8) < 4 THEN '' ELSE CONCAT('&channel_id=', CAST(MOD(g, 10000) AS STRING)) END
  ) AS url,
  ts, CONCAT('extra', CAST(MOD(h, 1000) AS STRING)) AS extra
FROM hashed WHERE place >= 4"""
AUCTION = """CREATE TEMPORARY VIEW auction AS SELECT
  1000 + n / 50 * 3 + place - 1 AS id, CONCAT('item ', CAST(MOD(h, 997) AS STRING)) AS itemName,
  ts, TIMESTAMPADD(SECOND, CAST(2 + MOD(g, 10) AS INT), ts) AS expires,
  1000 + CASE WHEN MOD(h, 4) > 0 THEN n / 50 / 100 * 100 ELSE n / 50 - MOD(g, 1000) END AS seller,
  10 + MOD(h, 5) AS category
FROM hashed WHERE place BETWEEN 1 AND 3"""
PERSON = """CREATE TEMPORARY VIEW person AS SELECT
  1000 + n / 50 AS id, CONCAT('name ', CAST(MOD(h, 1009) AS STRING)) AS name,
  CASE MOD(g, 4) WHEN 0 THEN 'Phoenix' WHEN 1 THEN 'Portland' WHEN 2 THEN 'Boise' ELSE 'Seattle' END AS city,
  CASE MOD(h, 6) WHEN 0 THEN 'OR' WHEN 1 THEN 'ID' WHEN 2 THEN 'CA' WHEN 3 THEN 'AZ' WHEN 4 THEN 'WA' ELSE 'WY' END
    AS state, ts
FROM hashed WHERE place = 0"""
TABLES = [HASHED, BID, AUCTION, PERSON]

TOP_COLUMNS = "auction BIGINT, bidder BIGINT, price BIGINT"
QUERIES: dict[str, tuple[str, str, str]] = {
    "q1": (
        "calc",
        "SELECT auction, bidder, 0.908 * price AS price, ts FROM bid",
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), ts TIMESTAMP_LTZ(3)",
    ),
    "q2": (
        "calc",
        "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
        "auction BIGINT, price BIGINT",
    ),
    "q14": (
        "calc",
        "SELECT auction, bidder, 0.908 * price AS price, CASE WHEN HOUR(ts) >= 8 AND HOUR(ts) <= 18 THEN 'dayTime' "
        "WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType, ts, extra FROM bid "
        "WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bidTimeType STRING, ts TIMESTAMP_LTZ(3), extra STRING",
    ),
    "q21": (
        "calc",
        "SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = "
        "'google' THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3' ELSE "
        "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id FROM bid WHERE REGEXP_EXTRACT(url, "
        "'(&|^)channel_id=([^&]*)', 2) IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')",
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING",
    ),
    "q22": (
        "calc",
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, "
        "SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid",
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
    ),
    "100 k keys": (
        "GROUP BY",
        "SELECT MOD(h, 100000) AS k, COUNT(*) AS c, SUM(g) AS s, MAX(g) AS m FROM hashed GROUP BY MOD(h, 100000)",
        "k BIGINT, c BIGINT, s BIGINT, m BIGINT, PRIMARY KEY (k) NOT ENFORCED",
    ),
    "1 M keys": (
        "GROUP BY",
        "SELECT MOD(h, 1000000) AS k, COUNT(*) AS c, SUM(g) AS s, MAX(g) AS m FROM hashed GROUP BY MOD(h, 1000000)",
        "k BIGINT, c BIGINT, s BIGINT, m BIGINT, PRIMARY KEY (k) NOT ENFORCED",
    ),
    "q5": (
        "windows",
        "SELECT A.auction, A.num FROM (SELECT auction, COUNT(*) AS num, window_start AS s, window_end AS e FROM "
        "TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, "
        "window_start, window_end) AS A JOIN (SELECT MAX(C.num) AS maxn, C.s, C.e FROM (SELECT COUNT(*) AS num, "
        "window_start AS s, window_end AS e FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL "
        "'10' SECOND)) GROUP BY auction, window_start, window_end) AS C GROUP BY C.s, C.e) AS M ON A.s = M.s AND "
        "A.e = M.e AND A.num >= M.maxn",
        "auction BIGINT, num BIGINT",
    ),
    "q7": (
        "windows",
        "SELECT B.auction, B.price, B.bidder, B.ts FROM bid B JOIN (SELECT MAX(price) AS maxprice, window_end AS ts "
        "FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) B1 ON "
        "B.price = B1.maxprice WHERE B.ts BETWEEN B1.ts - INTERVAL '10' SECOND AND B1.ts",
        "auction BIGINT, price BIGINT, bidder BIGINT, ts TIMESTAMP_LTZ(3)",
    ),
    "q12": (
        "windows",
        "SELECT bidder, COUNT(*) AS c, window_start, window_end FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL "
        "'10' SECOND)) GROUP BY bidder, window_start, window_end",
        "bidder BIGINT, c BIGINT, s TIMESTAMP(3), e TIMESTAMP(3)",
    ),
    "q3": (
        "joins",
        "SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id WHERE "
        "A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')",
        "name STRING, city STRING, state STRING, id BIGINT",
    ),
    "q4": (
        "joins",
        "SELECT Q.category, AVG(Q.final) FROM (SELECT MAX(B.price) AS final, A.category FROM auction A, bid B WHERE "
        "A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires GROUP BY A.id, A.category) Q GROUP BY Q.category",
        "category BIGINT, price BIGINT, PRIMARY KEY (category) NOT ENFORCED",
    ),
    "q8": (
        "joins",
        "SELECT P.id, P.name, P.s FROM (SELECT id, name, window_start AS s, window_end AS e FROM TABLE(TUMBLE(TABLE "
        "person, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) P JOIN (SELECT "
        "seller, window_start AS s, window_end AS e FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' "
        "SECOND)) GROUP BY seller, window_start, window_end) A ON P.id = A.seller AND P.s = A.s AND P.e = A.e",
        "id BIGINT, name STRING, s TIMESTAMP(3)",
    ),
    "q9": (
        "joins",
        "SELECT id, itemName, auction, bidder, price FROM (SELECT A.id, A.itemName, B.auction, B.bidder, B.price, "
        "ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.ts ASC) AS rownum FROM auction A, bid B WHERE "
        "A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires) WHERE rownum <= 1",
        "id BIGINT, itemName STRING, auction BIGINT, bidder BIGINT, price BIGINT",
    ),
    "q18": (
        "joins",
        "SELECT auction, bidder, price FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER (PARTITION BY bidder, "
        "auction ORDER BY ts DESC) AS rank_number FROM bid) WHERE rank_number <= 1",
        TOP_COLUMNS,
    ),
    "q19": (
        "joins",
        "SELECT * FROM (SELECT auction, bidder, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS "
        "rank_number FROM bid) WHERE rank_number <= 10",
        f"{TOP_COLUMNS}, rank_number BIGINT",
    ),
    "q20": (
        "joins",
        "SELECT B.auction, B.bidder, B.price, B.channel, A.itemName, A.category FROM bid AS B INNER JOIN auction AS A "
        "ON B.auction = A.id WHERE A.category = 10",
        f"{TOP_COLUMNS}, channel STRING, itemName STRING, category BIGINT",
    ),
    "row-wise": ("UDF", "SELECT n, mix_numbers(h, g) AS v FROM hashed", "n BIGINT, v BIGINT"),
    "pandas": ("UDF", "SELECT n, mix_columns(h, g) AS v FROM hashed", "n BIGINT, v BIGINT"),
    "CSV": ("files", "SELECT k, COUNT(*) AS c, SUM(v) AS s, MAX(v) AS m FROM lines GROUP BY k", ""),
    "JSON": ("files", "SELECT k, COUNT(*) AS c, SUM(v) AS s, MAX(v) AS m FROM lines GROUP BY k", ""),
}
# Of ours and Flink's: name of the group -> (least, aim), times as fast.
FLOORS = {
    "calc": (1, 3),
    "GROUP BY": (1.5, 5),
    "windows": (1.2, 4),
    "joins": (1.2, 4),
    "UDF": (5, 20),
    "files": (1, 3),
}
SMALLER = {"UDF": 10, "files": 2}
"""How many times fewer events a group has: PyFlink's functions are slow."""
TUNED = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
}


@dataclass
class Task:
    """What a side is asked for: one query; how many events; a place for files."""

    query: str
    events: int
    few: int
    place: str
    jars: str = ""
    tuned: bool = False

    @property
    def group(self) -> str:
        return QUERIES[self.query][0]


class Side:
    """One side, in a process of its own that waits for words, `few` and `run`, and names of queries."""

    def __init__(self, python: str, name: str, task: Task) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")} if name == "ours" else dict(os.environ)
        if name == "flink":
            environment["JAVA_TOOL_OPTIONS"] = "-Xmx2g"
            environment.pop("PYTHONPATH", None)
        self.name, self.task = name, task
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        self._process = subprocess.Popen(
            [python, __file__, "--side", name, "--task", json.dumps(vars(task))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )

    def ask(self, word: str, query: str) -> Any:
        """Return the answer to a word about a query."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # what it said as it ended is told below
            self._process.stdin.write(f"{word} {query}\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        self._errors.seek(0)
        raise SystemExit(
            f"{self.name} failed at {query}:\n{self._errors.read()[-4000:].decode(errors='replace')}"
        )

    def spent(self) -> float:
        """Return the processor time of the process and of all that it has started, seconds."""
        import psutil  # Flink's environment need not have it

        own = psutil.Process(self._process.pid)
        total = 0.0
        for each in [own, *own.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def run(self, query: str) -> tuple[float, float]:
        """Run a query; return its seconds by the clock and of the processors."""
        before = self.spent()
        took = self.ask("run", query)
        return took, self.spent() - before

    def end(self) -> None:
        """Have the process end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(name: str, task: Task) -> None:
    """Answer the words that come in."""
    for line in sys.stdin:
        word, task.query = line.strip().split(" ", 1)
        events = task.few if word == "few" else task.events // SMALLER.get(task.group, 1)
        environment = (make_ours if name == "ours" else make_flink)(task)
        declare(environment, task, events, word)
        answer = look(environment, task) if word == "few" else timed(environment, task)
        print("answer " + json.dumps(answer), flush=True)


def make_ours(task: Task) -> Any:
    from millstream.common import Configuration
    from millstream.table import DataTypes, EnvironmentSettings, TableEnvironment
    from millstream.table.udf import udf

    settings = {"execution.target": "local", "parallelism.default": 2, "table.local-time-zone": "UTC"}
    builder = EnvironmentSettings.new_instance().with_configuration(Configuration.from_dict(settings))
    environment = TableEnvironment.create((batch_or_not(builder, task)).build())
    return with_functions(environment, udf, DataTypes)


def make_flink(task: Task) -> Any:
    from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
    from pyflink.table.udf import udf

    environment = TableEnvironment.create(batch_or_not(EnvironmentSettings.new_instance(), task).build())
    options = {
        "parallelism.default": "2",
        "table.local-time-zone": "UTC",
        "python.executable": sys.executable,
    }
    options |= TUNED if task.tuned and task.group != "files" else {}
    options |= {"pipeline.object-reuse": "true"} if task.tuned else {}
    options |= {"pipeline.jars": task.jars} if task.jars else {}
    for key, value in options.items():
        environment.get_config().set(key, value)
    return with_functions(environment, udf, DataTypes)


def batch_or_not(builder: Any, task: Task) -> Any:
    """Files that end are a batch job: a table of totals goes into files only when it is done."""
    return builder.in_batch_mode() if task.group == "files" else builder.in_streaming_mode()


def with_functions(environment: Any, udf: Any, types: Any) -> Any:
    def mix_numbers(h: int, g: int) -> int:
        return h + 2 * g if h % 2 else g

    def mix_columns(h: Any, g: Any) -> Any:
        return (h + 2 * g).where(h % 2 == 1, g)

    environment.create_temporary_function("mix_numbers", udf(mix_numbers, result_type=types.BIGINT()))
    environment.create_temporary_function(
        "mix_columns", udf(mix_columns, result_type=types.BIGINT(), func_type="pandas")
    )
    return environment


def declare(environment: Any, task: Task, events: int, word: str) -> None:
    """Make the tables of a query."""
    if task.group != "files":
        since = "n / 10" if word == "run" else "n * 10"  # few events are to fill several windows, too
        environment.execute_sql(EVENTS.format(last=events - 1, since=since))
        for each in TABLES:
            environment.execute_sql(each)
        columns = QUERIES[task.query][2]
        environment.execute_sql(f"CREATE TABLE target ({columns}) WITH ('connector' = 'blackhole')")
        return
    kind = task.query.lower()
    path = Path(task.place, f"{word}.{kind}")
    environment.execute_sql(
        f"CREATE TABLE lines (k BIGINT, v BIGINT, name STRING) WITH ('connector' = 'filesystem', "
        f"'path' = '{path}', 'format' = '{kind}')"
    )
    out = Path(task.place, f"out-{os.getpid()}")
    shutil.rmtree(out, ignore_errors=True)
    environment.execute_sql(
        f"CREATE TABLE target (k BIGINT, c BIGINT, s BIGINT, m BIGINT) WITH ('connector' = 'filesystem', "
        f"'path' = '{out}', 'format' = 'parquet')"
    )


def look(environment: Any, task: Task) -> list[str]:
    """Return the table that is there at the end, as sorted lines."""
    query = QUERIES[task.query][1]
    if task.group == "files":
        environment.execute_sql(f"INSERT INTO target {query}").wait()
        query = "SELECT * FROM target"
    elif "TIMESTAMP_LTZ" in QUERIES[task.query][2]:  # PyFlink's collect() cannot pickle instants
        kinds = [each.split(" ", 1) for each in QUERIES[task.query][2].replace("(23, 3)", "").split(", ")]
        names = [f"CAST({name} AS STRING)" if "LTZ" in kind else name for name, kind in kinds]
        query = f"SELECT {', '.join(names)} FROM ({query})"
    with environment.execute_sql(query).collect() as rows:
        changes = [(row.get_row_kind().name, row[0], " ".join(map(str, row))) for row in rows]
    kinds = {kind for kind, _, _ in changes}
    if "UPDATE_AFTER" in kinds and "UPDATE_BEFORE" not in kinds:
        # Flink collects q9 as upserts: what was there of a key is not taken back first
        return sorted({key: text for _, key, text in changes}.values())
    found: dict[str, int] = {}
    for kind, _, text in changes:
        found[text] = found.get(text, 0) + (1 if kind in ("INSERT", "UPDATE_AFTER") else -1)
    return sorted(text for text, count in found.items() for _ in range(count))


def timed(environment: Any, task: Task) -> float:
    start = time.perf_counter()
    environment.execute_sql(f"INSERT INTO target {QUERIES[task.query][1]}").wait()
    return time.perf_counter() - start


def write_lines(place: Path, word: str, rows: int) -> None:
    """Write the file that is read: keys of 0 to 99,999."""
    with (place / f"{word}.csv").open("w") as values, (place / f"{word}.json").open("w") as objects:
        for number in range(rows):
            h, g = (number + 7) * 48271 % 2147483647, (number + 11) * 69621 % 2147483629
            values.write(f"{h % 100_000},{g},name {h % 997}\n")
            objects.write(f'{{"k": {h % 100_000}, "v": {g}, "name": "name {h % 997}"}}\n')


def measure(
    given: argparse.Namespace, query: str, place: Path, sides: dict[str, Side]
) -> dict[str, Any] | None:
    """Compare, then measure in turns."""
    group = QUERIES[query][0]
    events = given.events // SMALLER.get(group, 1)
    if group == "files":
        write_lines(place, "few", given.few)
        write_lines(place, "run", events)
    tables = {name: side.ask("few", query) for name, side in sides.items()}
    rows = len(tables["ours"])
    for name, table in tables.items():
        if table != tables["ours"]:
            extra = sorted(set(table) ^ set(tables["ours"]))
            raise SystemExit(
                f"{query}: the tables differ ({rows} rows, {len(table)} of Flink, {name}), as by {extra[:5]}"
            )
    if given.compare:
        print(f"{query}: the same {rows} rows", flush=True)
        return None
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for turn in range(given.rounds + 1):
        for name, side in sides.items():
            run = side.run(query)
            if turn:  # the first warms up
                runs[name].append(run)
    medians = {name: statistics.median(took for took, _ in each) for name, each in runs.items()}
    processor = {name: statistics.median(spent for _, spent in each) for name, each in runs.items()}
    ours = medians.pop("ours")
    best = min(medians, key=medians.__getitem__)
    return {
        "query": query,
        "group": group,
        "events": events,
        "rows": rows,
        "ours": ours,
        "flink": medians[best],
        "how": best,
        "ratio": medians[best] / ours,
        "processor": (processor["ours"], processor[best]),
    }


def line_of(found: dict[str, Any]) -> str:
    least, aim = FLOORS[found["group"]]
    events, ratio = found["events"], found["ratio"]
    ours_s, flink_s = found["processor"]
    verdict = "aim met" if ratio >= aim else "met" if ratio >= least else "MISSED"
    return (
        f"| {found['group']} | {found['query']} | {events / found['ours']:,.0f}/s | {events / found['flink']:,.0f}/s | "
        f"{found['how']} | {ratio:.2f} x | {least:g} x | {aim:g} x | {verdict} | "
        f"{ours_s:.1f} / {flink_s:.1f} s | {found['rows']:,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pyflink-env", type=Path)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--few", type=int, default=4_000, help="events of the tables that are compared")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument("--jars", default="", help="URLs of jars for Flink, with ; between them")
    parser.add_argument("--compare", action="store_true", help="compare the tables only")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    parser.add_argument("--side", choices=["ours", "flink"])
    parser.add_argument("--task", type=json.loads)
    given = parser.parse_args()
    if given.side:
        serve(given.side, Task(**given.task))
        return
    load = os.getloadavg()[0]
    lines = [
        "| | query | millstream | Flink | Flink's better setting | times as fast | floor | aim | | "
        "processor, ours / Flink | rows compared |",
        "|---|---|---:|---:|---|---:|---:|---:|---|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as place:
        task = Task("", given.events, given.few, place, given.jars)
        python = str(given.pyflink_env / "bin" / "python")
        sides = {
            "ours": Side(sys.executable, "ours", task),
            "defaults": Side(python, "flink", task),
            "mini-batch, object reuse": Side(python, "flink", replace(task, tuned=True)),
        }
        try:
            for query in given.only:
                found = measure(given, query, Path(place), sides)
                if found is not None:
                    lines.append(line_of(found))
                    print(lines[-1], flush=True)
        finally:
            for side in sides.values():
                side.end()
    if given.write and not given.compare:
        command = f"python benchmarks/sql_nexmark.py --events {given.events} --rounds {given.rounds}"
        about = (
            f"`{command}`, {os.cpu_count()} cores, load of the machine before: {load:.1f}. Events a second over the "
            "whole job, its start included; medians of rounds in turns, behind one that warms up."
        )
        RESULTS.write_text(
            "# SQL beside Flink's: rows made in the job\n\n" + "\n".join([about, "", *lines, ""])
        )


if __name__ == "__main__":
    main()
