"""State of a pattern with `within` over a long stream: it stays level; prints what is held and the process' memory.

python benchmarks/cep_state.py --events 5000000
"""

from __future__ import annotations

import argparse
import pickle

import psutil
from cep import Time, event, patterns

from millstream.cep import CEP
from millstream.operators.patterns.held import path_of
from millstream.operators.patterns.operator import PatternMatchOperator
from millstream.spi.batch import Rows
from millstream.testing import OperatorHarness

BATCH = 10_000
ROWS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    count = parser.parse_args().events
    loop = patterns()["loop"]
    harness = OperatorHarness(
        lambda stream: CEP.pattern(stream.key_by(lambda value: value[0]), loop).select(
            lambda match: len(match["b"])
        )
    )
    (operator,) = (each for each in harness.operators if isinstance(each, PatternMatchOperator))
    stamp = Time().extract_timestamp
    print(
        f"{'events':>10} {'keys':>6} {'partial':>9} {'events held':>11} {'pickled MB':>10} {'process MB':>10}"
    )
    for start in range(0, count, BATCH):
        values = [event(number) for number in range(start, start + BATCH)]
        operator.process(Rows(values, [stamp(value, 0) for value in values]))
        operator.process_watermark(values[-1][2])
        done = start + BATCH
        if done % (count // ROWS) < BATCH:
            harness.take()
            held = list(operator._held.values())
            runs = sum(len(each.runs) for each in held)
            kept = sum(len({at[1] for _, edge, _ in each.runs for _, at in path_of(edge)}) for each in held)
            megabytes = len(pickle.dumps(held)) / 1e6
            memory = psutil.Process().memory_info().rss / 1e6
            print(f"{done:>10,} {len(held):>6,} {runs:>9,} {kept:>11,} {megabytes:>10.2f} {memory:>10.0f}")


if __name__ == "__main__":
    main()
