"""Patterns: ours against Java Flink's CEP and a state machine written by hand; results are compared.

    python benchmarks/cep.py --events 1000000 [--rounds 5] [--jars PYFLINK/lib]

All run in one process with parallelism 1. Flink's seconds include the start of its cluster in the process, ours that of
the job. With --jars Flink runs first; it needs Java 17 and the jars of Flink 2.3 with flink-cep. The state machine is
compared by processor time of the process, in rounds of one run of each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from cep_flink import run_java

from millstream.cep import CEP, AfterMatchSkipStrategy, Pattern
from millstream.common import Configuration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource


def event(number: int) -> tuple[int, int, int]:
    """Return (key, letter, time)."""
    hashed = (number * 2654435761) & 0xFFFFFFFF
    return (hashed >> 18) % 1000, (hashed >> 13) % 8, number


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def is_a(value):
    return value[1] == 0


def is_b(value):
    return value[1] == 1


def is_c(value):
    return value[1] == 2


def patterns() -> dict[str, Pattern]:
    steps = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(is_a)
    steps = steps.followed_by("b").where(is_b).followed_by("c").where(is_c).within(20_000)
    loop = Pattern.begin("a").where(is_a).followed_by("b").where(is_b).one_or_more()
    loop = loop.followed_by("c").where(is_c).within(10_000)
    absent = Pattern.begin("a").where(is_a).not_followed_by("b").where(is_b)
    return {"steps": steps, "loop": loop, "absent": absent.followed_by("c").where(is_c).within(20_000)}


def ours(pattern: Pattern, count: int) -> tuple[int, int, float]:
    options = Configuration.from_dict({"execution.target": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(1)
    numbers = env.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    events = numbers.map(event).assign_timestamps_and_watermarks(strategy)
    found = CEP.pattern(events.key_by(lambda value: value[0]), pattern).select(
        lambda match: match["a"][0][2] * 31 + match["c"][0][2]
    )
    began = time.monotonic()
    matches = total = 0
    with found.execute_and_collect() as results:
        for each in results:
            matches += 1
            total += each
    return matches, total, time.monotonic() - began


def by_hand(count: int) -> tuple[int, int, float]:
    """The three steps as a state machine: of each key the partial matches, [time of a, whether b came]."""
    began = time.monotonic()
    partial: dict[int, list[list]] = {}
    matches = total = 0
    for number in range(count):
        key, letter, at = event(number)
        if letter > 2:
            continue
        held = partial.get(key)
        if letter == 0:
            if held is None:
                partial[key] = [[at, False]]
            else:
                held.append([at, False])
            continue
        if held is None:
            continue
        held = [each for each in held if at - each[0] < 20_000]
        if letter == 1:
            for each in held:
                each[1] = True
        else:
            first = next((each for each in held if each[1]), None)
            if first is not None:
                matches += 1
                total += first[0] * 31 + at
                held = []
        if held:
            partial[key] = held
        else:
            del partial[key]
    return matches, total, time.monotonic() - began


def processor_seconds(run: Callable[[], tuple[int, int, float]]) -> tuple[float, tuple[int, int]]:
    began = time.process_time()
    matches, total, _ = run()
    return time.process_time() - began, (matches, total)


def compare_by_hand(pattern: Pattern, count: int, rounds: int) -> None:
    ratios = []
    for _ in range(rounds):
        seconds, found = processor_seconds(lambda: ours(pattern, count))
        their_seconds, their_found = processor_seconds(lambda: by_hand(count))
        if found != their_found:
            raise SystemExit(f"results are DIFFERENT: {found}, by hand {their_found}")
        ratios.append(their_seconds / seconds)
    print(
        f"  by hand, by processor time: ours is {median(ratios):.2f} x (median of {rounds} rounds, "
        f"{min(ratios):.2f} to {max(ratios):.2f}); results are the same"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jars", type=Path)
    options = parser.parse_args()
    count = options.events
    flink = {}
    if options.jars:
        for line in run_java("FlinkCepSpeed", options.jars, str(count)):
            name, matches, total, seconds = line.split()
            flink[name] = int(matches), int(total), float(seconds)
    for name, pattern in patterns().items():
        matches, total, seconds = ours(pattern, count)
        print(f"{name}: {matches:,} matches, ours {count / seconds:,.0f}/s")
        others = {"Java Flink": flink[name]} if name in flink else {}
        for other, (their_matches, their_total, their_seconds) in others.items():
            same = (matches, total) == (their_matches, their_total)
            print(
                f"  {other}: {count / their_seconds:,.0f}/s, ours is {their_seconds / seconds:.2f} x; "
                f"results are {'the same' if same else f'DIFFERENT: {their_matches:,} matches'}"
            )
        if name == "steps":
            compare_by_hand(pattern, count, options.rounds)


if __name__ == "__main__":
    main()
