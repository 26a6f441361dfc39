"""What Rows cost beside tuples: this checkout and another one, in turns.

    python benchmarks/rows.py [--baseline OTHER_SRC] [--rounds 9] [--only NAME ...] [--write] [--json FILE]

OTHER_SRC is the directory `src` of a checkout to compare with. Each checkout has a process of its own; they take
turns, operation by operation and round by round. A figure is nanoseconds of processor time, the least of all rounds:
for each operation, each row of a batch, or each record of a job on the local executor, less a job of one record.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from math import isfinite, nan
from pathlib import Path
from timeit import Timer
from typing import Any, NamedTuple

import figures
from in_turns import workers

RESULTS = Path(__file__).parent / "results" / "rows.md"
BATCH = 10_000
RECORDS = 100_000
FORMS = ("tuple", "named", "row")

Measure = Callable[[], float]

TITLES = {
    "make": "make, by position",
    "make_named": "make, by name",
    "make_again": "make, by `Person(...)`",
    "position": "get `r[1]`",
    "attribute": "get `r.age`",
    "item": 'get `r["age"]`',
    "unpack": "`a, b, c = r`",
    "set": "set `r[1] = 7`",
    "set_attribute": "set `r.age = 7`",
    "copy": "copy, as the pipeline copies",
    "hash": "`hash(r)`",
    "equal": "`r == s`",
    "dumps": f"`pickle.dumps` of {BATCH:,}",
    "loads": f"`pickle.loads` of {BATCH:,}",
    "encode": f"encode a batch of {BATCH:,} for another slot",
    "decode": f"decode a batch of {BATCH:,}",
    "save": f"write {BATCH:,} into a checkpoint",
    "restore": f"read {BATCH:,} from a checkpoint",
    "columns": "from the columns of a pyarrow table",
    "to_columns": "to columns, as writers of files do",
    "maps": "job: 3 maps, each makes a new one",
    "reduce": "job: map, `key_by`, `reduce`",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--baseline", type=Path, help="directory src of another checkout")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    figures.add_option(parser)
    arguments = parser.parse_args()
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    with workers(__file__, arguments.baseline) as (*before, now):
        asked = [*((worker, "before") for worker in before), *((now, form) for form in FORMS)]
        for number in range(arguments.rounds):
            for name in arguments.only:
                for worker, column in asked[:: (-1) ** number]:
                    seen[name, column].append(worker.ask(name, "row" if column == "before" else column))
    page = _page({key: min(rounds) for key, rounds in seen.items()}, arguments.only, arguments.rounds)
    print(page)
    if arguments.write:
        RESULTS.write_text(page)
    figures.write(
        arguments.json,
        [
            figures.beside(
                name,
                f"Rows: {TITLES[name]}",
                seen[name, "row"],
                seen[name, "tuple"],
                unit="ns",
                peer="tuples",
            )
            for name in arguments.only
            if isfinite(seen[name, "tuple"][0])
        ],
    )


def _page(least: dict[tuple[str, str], float], names: list[str], rounds: int) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    lines = [
        "# Rows beside tuples",
        "",
        f"`benchmarks/rows.py`: Python {version}, three fields (a string, an integer, a float). Nanoseconds of",
        f"processor time for each operation, row or record; the least of {rounds} rounds in turns.",
        "",
        "| | tuple | named tuple | Row before | Row | before : Row | Row : tuple |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        plain, named, before, row = (
            least.get((name, form), nan) for form in ("tuple", "named", "before", "row")
        )
        cells = [f"{figure:,.0f}" if figure == figure else "-" for figure in (plain, named, before, row)]
        ratio = f"{row / plain:.1f}" if plain == plain else "-"
        changed = f"{before / row:.1f}" if before == before else "-"
        lines.append(f"| {TITLES[name]} | {' | '.join(cells)} | {changed} | {ratio} |")
    return "\n".join(lines) + "\n"


class Person(NamedTuple):
    """A tuple with names."""

    name: str
    age: int
    size: float


def _statement(statement: str, number: int = 50_000, **names: Any) -> Measure:
    """Return what times a statement, less an empty loop."""
    timer, empty = (Timer(text, globals=names, timer=time.process_time) for text in (statement, "pass"))
    return lambda: (timer.timeit(number) - empty.timeit(number)) / number * 1e9


def _batch(function: Callable[[Any], Any], argument: Any, number: int = 3) -> Measure:
    """Return what times a function of a batch, for each of its rows."""
    timer = Timer("function(argument)", globals=locals(), timer=time.process_time)
    return lambda: timer.timeit(number) / number / BATCH * 1e9


def _nothing() -> float:
    return float("nan")


def _measures(form: str) -> dict[str, Measure]:
    """Return what measures each operation for tuples, named tuples or the rows of the checkout."""
    import pyarrow

    from millstream.common import Row
    from millstream.formats.tabulator import Tabulator
    from millstream.operators.values import copy_of
    from millstream.runtime.program.main_classes import dump_with_main_classes, load_state
    from millstream.runtime.protocol.blocks import decode_elements, encode_elements
    from millstream.spi.batch import Rows

    plain, named = form == "tuple", form == "named"
    names = Person._fields
    kind: Any = Person if named else Row
    again: Any = Person if named else Row(*names)
    own: dict[str, Any] = {"Row": kind, "again": again, "a": "Ada", "b": 36, "c": 1.5}

    def make(number: int) -> Any:
        values = f"{number}", number, number * 0.5
        return values if plain else again(*values)

    row = make(1)
    batch = [make(number) for number in range(BATCH)]
    table = pyarrow.table(dict(zip(names, zip(*batch, strict=True), strict=True)))
    lists = [column.to_pylist() for column in table.columns]
    gets = {**own, "r": row, "s": make(1), "copy_of": copy_of}
    item, sets = form == "row", form == "row"
    job = _job(form)
    return {
        "make": _statement("(a, b, c)" if plain else "Row(a, b, c)", **own),
        "make_named": _nothing if plain else _statement("Row(name=a, age=b, size=c)", **own),
        "make_again": _nothing if plain else _statement("again(a, b, c)", **own),
        "position": _statement("r[1]", **gets),
        "attribute": _nothing if plain else _statement("r.age", **gets),
        "item": _statement("r['age']", **gets) if item else _nothing,
        "unpack": _statement("a, b, c = r", **gets),
        "set": _statement("r[1] = 7", **gets) if sets else _nothing,
        "set_attribute": _statement("r.age = 7", **gets) if sets else _nothing,
        "copy": _statement("copy_of(r)", **gets),
        "hash": _statement("hash(r)", **gets),
        "equal": _statement("r == s", **gets),
        "dumps": _batch(lambda rows: pickle.dumps(rows, 5), batch),
        "loads": _batch(pickle.loads, pickle.dumps(batch, 5)),
        "encode": _batch(encode_elements, [Rows(batch)]),
        "decode": _batch(decode_elements, encode_elements([Rows(batch)])),
        "save": _batch(dump_with_main_classes, batch),
        "restore": _batch(load_state, dump_with_main_classes(batch)),
        "columns": _batch(_from_columns(form), lists),
        "to_columns": _batch(Tabulator(names).columns, batch),
        "maps": lambda: job(_three_maps),
        "reduce": lambda: job(_keyed_reduce),
    }


def _from_columns(form: str) -> Callable[[list[list[Any]]], list[Any]]:
    from millstream.common import types

    names, row = Person._fields, types.Row
    if form == "tuple":
        return lambda lists: list(zip(*lists, strict=True))
    if form == "named":
        return lambda lists: list(map(Person._make, zip(*lists, strict=True)))
    if not hasattr(types, "rows_of"):
        return lambda lists: [row.of(names, list(values)) for values in zip(*lists, strict=True)]
    return lambda lists: types.rows_of(names, zip(*lists, strict=True))


def _three_maps(numbers: Any, make: Any) -> Any:
    stream = numbers.map(lambda n: make(f"{n % 100}", 1, 0.5))
    for _ in range(2):
        stream = stream.map(lambda r: make(r[0], r[1] + 1, r[2]))
    return stream


def _keyed_reduce(numbers: Any, make: Any) -> Any:
    pairs = numbers.map(lambda n: make(f"{n % 100}", 1, 0.5))
    return pairs.key_by(lambda r: r[0]).reduce(lambda a, b: make(a[0], a[1] + b[1], b[2]))


def _job(form: str) -> Callable[[Callable[..., Any]], float]:
    from millstream.common import Row, WatermarkStrategy
    from millstream.common.configuration import Configuration
    from millstream.datastream import StreamExecutionEnvironment
    from millstream.datastream.connectors.number_seq import NumberSequenceSource

    make = {"tuple": _tuple, "named": Person, "row": Row}[form]

    def run(program: Callable[..., Any], records: int) -> float:
        environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict({"execution.target": "local"})
        )
        environment.set_parallelism(1)
        source = NumberSequenceSource(1, records)
        numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        program(numbers, make).filter(lambda record: record is None).print()
        begun = time.process_time()
        environment.execute("rows")
        return time.process_time() - begun

    return lambda program: (run(program, RECORDS) - run(program, 1)) / RECORDS * 1e9


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


def work() -> None:
    """Measure what is asked for on standard input: name and form; answer with nanoseconds."""
    measures = {form: _measures(form) for form in FORMS}
    for line in sys.stdin:
        name, form = json.loads(line)
        print(measures[form][name](), flush=True)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work()
    else:
        main()
