"""Makes queries at random that mean the same in Flink's SQL and in DuckDB's."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa

_BEGIN = datetime.datetime(2024, 1, 1)


def random_tables(seed: int, rows: int = 120) -> dict[str, pa.Table]:
    """Return tables `t(k, v, s, x)` and `u(k, w, g)` with NULLs and equal rows."""
    rng = random.Random(seed)

    def some(value: Any) -> Any:
        return None if rng.random() < 0.12 else value

    many, few = range(rows), range(rows // 3)
    t = pa.table(
        {
            "k": pa.array([some(rng.randint(0, 8)) for _ in many], pa.int32()),
            "v": pa.array([some(rng.randint(-50, 50)) for _ in many], pa.int64()),
            "s": pa.array([some(rng.choice("abc") * rng.randint(1, 2)) for _ in many], pa.string()),
            "x": pa.array([some(float(rng.randint(0, 400)) / 4) for _ in many], pa.float64()),
        }
    )
    u = pa.table(
        {
            "k": pa.array([some(rng.randint(0, 11)) for _ in few], pa.int32()),
            "w": pa.array([some(rng.randint(0, 50)) for _ in few], pa.int64()),
            "g": pa.array([some(rng.choice("abc")) for _ in few], pa.string()),
        }
    )
    return {"t": t, "u": u}


class QueryMaker:
    """Makes queries.

    Args:
        rng: Where chance comes from.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def query(self) -> str:
        """Return a query."""
        kind = self._rng.choice(
            (
                self._rows,
                self._grouped,
                self._grouped,
                self._joined,
                self._joined,
                self._nested,
                self._set,
                self._sub,
            )
        )
        return kind()

    def _pick(self, *options: str) -> str:
        return self._rng.choice(options)

    def _condition(self, prefix: str = "") -> str:
        k, v, s = f"{prefix}k", f"{prefix}v", f"{prefix}s"
        number = self._rng.randint(-20, 30)
        simple = self._pick(
            f"{v} > {number}",
            f"{v} BETWEEN {number - 20} AND {number}",
            f"{k} IN (1, 3, 5)",
            f"{s} LIKE 'a%'",
            f"{s} IS NULL",
            f"{k} IS NOT NULL",
            f"{v} + {k} < {number}",
            f"{s} <> 'b'",
            f"COALESCE({v}, 0) >= {number}",
        )
        other = self._pick(f"{v} < {number + 15}", f"{k} < 6", f"{s} = 'a'")
        return self._pick(simple, f"({simple} OR {other})", f"({simple} AND {other})", f"NOT ({simple})")

    def _rows(self) -> str:
        columns = self._pick(
            "k, v, s", "k + v, s", "v * 2, UPPER(s)", "CASE WHEN v > 0 THEN s ELSE 'n' END, k", "*"
        )
        distinct = self._pick("", "", "DISTINCT ")
        return f"SELECT {distinct}{columns} FROM t WHERE {self._condition()}"

    def _aggregates(self) -> str:
        options = [
            "COUNT(*)",
            "COUNT(v)",
            "SUM(v)",
            "MIN(v)",
            "MAX(s)",
            "AVG(x)",
            "COUNT(DISTINCT s)",
            "SUM(DISTINCT v)",
            "SUM(v) FILTER (WHERE k > 3)",
            "COUNT(*) FILTER (WHERE s = 'a')",
        ]
        return ", ".join(self._rng.sample(options, self._rng.randint(1, 3)))

    def _grouped(self) -> str:
        keys = self._pick("k", "s", "k, s")
        where = self._pick("", f" WHERE {self._condition()}")
        having = self._pick("", "", f" HAVING COUNT(*) > {self._rng.randint(1, 9)}", " HAVING SUM(v) > 0")
        return f"SELECT {keys}, {self._aggregates()} FROM t{where} GROUP BY {keys}{having}"

    def _joined(self) -> str:
        kind = self._pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        more = self._pick("", "", " AND t.v > u.w", " AND t.s = u.g")
        where = self._pick("", "", f" WHERE {self._condition('t.')}", " WHERE u.w > 10")
        if self._rng.random() < 0.5:
            return f"SELECT t.k, t.v, u.w, u.g FROM t {kind} u ON t.k = u.k{more}{where}"
        return (
            f"SELECT u.g, COUNT(*), SUM(t.v), MAX(u.w) FROM t {kind} u ON t.k = u.k{more}{where} GROUP BY u.g"
        )

    def _nested(self) -> str:
        inner = f"SELECT k, COUNT(*) AS n, SUM(v) AS m FROM t WHERE {self._condition()} GROUP BY k"
        return self._pick(
            f"SELECT n, COUNT(*), MAX(m) FROM ({inner}) q GROUP BY n",
            f"SELECT q.k, q.n, u.w FROM ({inner}) q LEFT JOIN u ON q.k = u.k",
            f"SELECT q.n, u.g FROM ({inner}) q JOIN u ON q.n = u.k",
            f"SELECT MAX(n), MIN(m) FROM ({inner}) q",
            f"SELECT k, n FROM (SELECT k, n, ROW_NUMBER() OVER (ORDER BY n DESC, k) AS r FROM ({inner}) q "
            "WHERE k IS NOT NULL) z WHERE r <= 3",
        )

    def _set(self) -> str:
        kind = self._pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT")
        one, two = ("t", "u") if self._rng.random() < 0.5 else ("u", "t")
        return f"SELECT k FROM {one} {kind} SELECT k FROM {two}"

    def _sub(self) -> str:
        number = self._rng.randint(0, 40)
        inner = self._pick(f"SELECT k FROM u WHERE w > {number}", "SELECT k FROM u WHERE g = 'a'")
        condition = self._pick(
            f"k IN ({inner})",
            f"k NOT IN ({inner} AND k IS NOT NULL)",
            f"k NOT IN ({inner})",
            f"EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > {number})",
            f"NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > {number})",
            "v > (SELECT AVG(w) FROM u)",
            "v > (SELECT MIN(w) FROM u WHERE u.k = t.k)",
            f"(k IN ({inner}) OR v > 30)",
        )
        shown = self._pick(
            "k, v",
            "k, v, (SELECT MAX(w) FROM u WHERE u.k = t.k)",
            "k, (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
        )
        return f"SELECT {shown} FROM t WHERE {condition}"
