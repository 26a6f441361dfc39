"""Random programs for `test_graphs.py`: their text, and what they are to give, worked out on plain lists.

A program is a list of steps; each makes one stream of earlier ones. The text of a program calls what is in
`graph_functions.py`; the oracle here knows nothing of that: a stream is a list of (timestamp, record), a window is
a `range`, a timer an element of a set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

BOUND_MS = 50
FUNCTIONS = (Path(__file__).parent / "graph_functions.py").read_text("utf-8")


@dataclass(frozen=True)
class Step:
    """One line of a program: `s5 = <template.format(*inputs, *parameters)>`."""

    kind: str
    inputs: tuple[int, ...]
    parameters: tuple = ()

    def text(self):
        return TEMPLATES[self.kind].format(*(f"s{each}" for each in self.inputs), *self.parameters)


@dataclass(frozen=True)
class Program:
    """Sources in two orders of arrival, and steps; streams are numbered from the sources on."""

    arrivals: tuple[list, list]  # of sources, of records
    steps: list[Step]
    ending: str = "{}"
    ordered: bool = False
    leaves: list[int] = field(init=False)

    def __post_init__(self):
        count = len(self.arrivals[0]) + len(self.steps)
        used = {each for step in self.steps for each in step.inputs}
        object.__setattr__(self, "leaves", [each for each in range(count) if each not in used])

    def build(self, arrival):
        """Return the text that makes `streams`."""
        sources = self.arrivals[arrival]
        lines = [
            f"s{n} = source(env, {records!r}, {BOUND_MS}){'.set_parallelism(1)' if self.ordered else ''}"
            for n, records in enumerate(sources)
        ]
        lines += [f"s{len(sources) + n} = {step.text()}" for n, step in enumerate(self.steps)]
        tagged = [f"{self.ending.format(f's{n}')}.map(lambda record: ({n}, *record))" for n in self.leaves]
        lines.append(f"first, *others = {', '.join(tagged)},")
        return "\n".join([*lines, "results = collect(first.union(*others))\n"])

    def text(self, arrival, parallelism, epoch_records, target="local", hold_after=None):
        """Return a program to paste; it leaves what it gives in `results`."""
        start = f"\n\nenv = environment({parallelism}, {epoch_records}, {target!r}, {hold_after})\n"
        return FUNCTIONS + start + self.build(arrival)

    def expected(self):
        """Return what the program is to give, as a Counter of records, their leaf first."""
        streams = [[(record[1], record) for record in records] for records in self.arrivals[0]]
        for step in self.steps:
            streams.append(MODELS[step.kind](*(streams[each] for each in step.inputs), *step.parameters))
        return Counter(
            (leaf, *record)
            for leaf in self.leaves
            for record in ENDINGS[self.ending]([record for _, record in streams[leaf]])
        )


def outcome(program, results):
    """Return results as a Counter; of rolling aggregates at the end, the last result of each key."""
    if program.ending == "{}":
        return Counter(results)
    last = {}
    for leaf, key, count, value in results:
        last[leaf, key] = max(last.get((leaf, key), (0, 0)), (count, value))
    return Counter((*where, *what) for where, what in last.items())


def finals(records):
    count, total = Counter(), Counter()
    for key, _, value in records:
        count[key] += 1
        total[key] += value
    return [(key, count[key], total[key]) for key in count]


def final_counts(records):
    return [(key, count, 0) for key, count in Counter(key for key, _, _ in records).items()]


ENDINGS = {
    "{}": list,
    "final({})": finals,
    "final_sum({})": final_counts,
    "final_of_columns({})": finals,
}


def each(function):
    return lambda stream, *parameters: [
        (time, made) for time, record in stream for made in function(record, *parameters)
    ]


def by_key(stream):
    keyed = defaultdict(list)
    for time, record in stream:
        keyed[record[0]].append((time, record))
    return keyed.items()


def totals(stream, delay_ms, clean_up):
    results = []
    for key, elements in by_key(stream):
        previous = float("-inf")
        for timer in sorted({time + delay_ms for time, _ in elements}):
            values = [record[2] for time, record in elements if previous < time <= timer]
            results.append((timer, (key, timer, sum(values))))
            previous = timer if clean_up else previous
    return results


def difference(one, other, delay_ms):
    doubled = [(time, (key, 0, -2 * value)) for time, (key, _, value) in other]
    return totals(one + doubled, delay_ms, False)


def joined(one, other, lower, upper):
    results = []
    for time, (key, _, value) in one:
        for time2, (key2, _, value2) in other:
            if key == key2 and time + lower <= time2 <= time + upper:
                latest = max(time, time2)
                results.append((latest, (key, latest, value - 2 * value2)))
    return results


def windows_of(elements, kind, sizes):
    """Return windows with their records, by sizes in ms: (size,), (size, slide) or (gap,)."""
    if kind == "session":
        windows = []
        for time, record in sorted(elements):
            if windows and time <= windows[-1][0].stop:
                span, records = windows.pop()
                windows.append((range(span.start, max(span.stop, time + sizes[0])), [*records, record]))
            else:
                windows.append((range(time, time + sizes[0]), [record]))
        return windows
    size, slide = sizes[0], sizes[-1]
    first = min(time for time, _ in elements) // slide * slide - size // slide * slide
    last = max(time for time, _ in elements)
    spans = [range(start, start + size) for start in range(first, last + 1, slide)]
    filled = [(span, [record for time, record in elements if time in span]) for span in spans]
    return [(span, records) for span, records in filled if records]


def windowed(kind, function):
    def evaluate(stream, *sizes):
        return [
            (span.stop - 1, function(key, span, records))
            for key, elements in by_key(stream)
            for span, records in windows_of(elements, kind, sizes)
        ]

    return evaluate


def total(records):
    return sum(value for _, _, value in records)


WINDOWS = {"tumbling": "tumbling({1})", "sliding": "sliding({1}, {2})", "session": "session({1})"}
FUNCTIONS_OF_WINDOWS = {
    "reduce": ("reduce(combine)", lambda key, _, rs: (key, max(time for _, time, _ in rs), total(rs))),
    "aggregate": ("aggregate(Sum())", lambda key, _, rs: (key, len(rs), total(rs))),
    "process": ("process(Span())", lambda key, span, rs: (key, span.start, total(rs))),
}
TEMPLATES = {
    "add": "{}.map(add({}))",
    "rekey": "{}.map(rekey({}))",
    "filter": "{}.filter(not_divisible({}))",
    "flat_map": "{}.flat_map(some)",
    "rebalance": "{}.rebalance().map(add(0))",
    "rescale": "{}.rescale().map(add(0)).set_parallelism(2)",
    "shuffle": "{}.shuffle().map(add(0)).set_parallelism(1)",
    "even": "{}.process(Split())",
    "odd": "{}.process(Split()).get_side_output(ODD)",
    "columns": "columns({})",
    "column add": "columns({}).map_batches(added({}))",
    "column filter": "columns({}).filter_batches(indivisible({}))",
    "totals": "{}.key_by(key_of).process(Totals({}, {}))",
    "union": "{}.union({})",
    "connect map": "{}.connect({}).map(Sides())",
    "difference": "{}.connect({}).key_by(key_of, key_of).process(Difference({}))",
    "join": "{}.key_by(key_of).interval_join({}.key_by(key_of)).between({}, {}).process(Pair())",
}
MODELS = {
    "add": each(lambda record, number: [(*record[:2], record[2] + number)]),
    "rekey": each(lambda record, count: [("abcdef"[record[2] % count], *record[1:])]),
    "filter": each(lambda record, number: [record] if record[2] % number else []),
    "flat_map": each(lambda record: [(*record[:2], record[2] + 10 * n) for n in range(record[2] % 3)]),
    "rebalance": list,
    "rescale": list,
    "shuffle": list,
    "even": each(lambda record: [] if record[2] % 2 else [record]),
    "odd": each(lambda record: [record] if record[2] % 2 else []),
    "columns": list,
    "column add": each(lambda record, number: [(*record[:2], record[2] + number)]),
    "column filter": each(lambda record, number: [record] if record[2] % number else []),
    "totals": totals,
    "union": lambda one, other: one + other,
    "connect map": lambda one, other: one + [(time, (*r[:2], -r[2])) for time, r in other],
    "difference": difference,
    "join": joined,
}
for _window, _assigner in WINDOWS.items():
    for _name, (_call, _model) in FUNCTIONS_OF_WINDOWS.items():
        TEMPLATES[f"{_window} {_name}"] = "{0}.key_by(key_of).window(" + _assigner + ")." + _call
        MODELS[f"{_window} {_name}"] = windowed(_window, _model)

for _window in ("tumbling", "sliding"):
    _assigner = WINDOWS[_window]
    TEMPLATES[f"{_window} columns"] = "aggregated(columns({0}).key_by('f0').window(" + _assigner + "))"
    MODELS[f"{_window} columns"] = windowed(_window, FUNCTIONS_OF_WINDOWS["aggregate"][1])

SMALL = st.integers(1, 5)
DELAY = st.integers(0, 120)
PARAMETERS = {
    "add": [SMALL],
    "rekey": [SMALL],
    "filter": [st.integers(2, 4)],
    "column add": [SMALL],
    "column filter": [st.integers(2, 4)],
    "totals": [DELAY, st.booleans()],
    "difference": [DELAY],
    "join": [st.integers(-80, 0), st.integers(0, 80)],
    "tumbling": [st.sampled_from([30, 100])],
    "sliding": [st.sampled_from([60, 90]), st.sampled_from([30, 40])],
    "session": [st.sampled_from([20, 60])],
}
TWO_INPUTS = {"union", "connect map", "difference", "join"}


# Programs whose results depend on event time only.

RECORD = st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.integers(0, 9))
JITTER = st.integers(0, BOUND_MS)


@st.composite
def sources(draw):
    """Draw one or two sources, in two orders of arrival in which no record is late."""
    jittered = draw(
        st.lists(st.lists(st.tuples(RECORD, JITTER, JITTER), min_size=1, max_size=15), min_size=1, max_size=2)
    )
    # A record is overtaken only by those at most BOUND_MS later, so none is late.
    return tuple(
        [
            [entry[0] for entry in sorted(entries, key=lambda entry: entry[0][1] + entry[arrival])]
            for entries in jittered
        ]
        for arrival in (1, 2)
    )


@st.composite
def event_time_programs(draw):
    """Draw a program whose results depend on event time only."""
    arrivals = draw(sources())
    count = len(arrivals[0])
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(EVENT_TIME_KINDS))
        # Mostly a step goes on from a late stream; the earlier ones make forks.
        latest = count + number - 1
        inputs = [
            latest - draw(st.integers(0, min(latest, 3))) for _ in range(2 if kind in TWO_INPUTS else 1)
        ]
        parameters = PARAMETERS.get(kind, PARAMETERS.get(kind.split()[0], []))
        steps.append(Step(kind, tuple(inputs), tuple(map(draw, parameters))))
    return Program(arrivals, steps, draw(st.sampled_from(sorted(ENDINGS))))


# Programs whose results depend on the order of each key's records: linear, with one key.


def rolling(step):
    """Give each key's records to `step(result before or None, record)` one by one."""

    def evaluate(stream):
        last, results = {}, []
        for time, record in stream:
            before = last.get(record[0])
            last[record[0]] = record if before is None else step(before, record)
            results.append((time, last[record[0]]))
        return results

    return evaluate


def numbered(stream):
    seen, results = Counter(), []
    for time, record in stream:
        seen[record[0]] += 1
        results.append((time, (*record[:2], record[2] * 10 + seen[record[0]])))
    return results


def count_window(stream, size, slide):
    kept, seen, results = defaultdict(list), Counter(), []
    for _, record in stream:
        key = record[0]
        seen[key] += 1
        kept[key].append(record[2])
        # Window n holds the records from n * slide on.
        if seen[key] >= size and (seen[key] - size) % slide == 0:
            number = 0
            for value in kept[key][-size:]:
                number = (number * 7 + value) % 1009
            results.append((0, (key, 0, number)))
    return results


ORDERED_TEMPLATES = {
    "chain": "{}.key_by(key_of).reduce(chain)",
    "sum": "{}.key_by(key_of).sum(2)",
    "min": "{}.key_by(key_of).min(2)",
    "max": "{}.key_by(key_of).max(2)",
    "min_by": "{}.key_by(key_of).min_by(2)",
    "max_by": "{}.key_by(key_of).max_by(2)",
    "number": "{}.key_by(key_of).process(Number())",
    "count window": "{}.key_by(key_of).count_window({}, {}).process(Listed())",
}
ORDERED_MODELS = {
    "chain": rolling(lambda one, other: (one[0], other[1], (one[2] * 3 + other[2]) % 1009)),
    "sum": rolling(lambda one, other: (*one[:2], one[2] + other[2])),
    "min": rolling(lambda one, other: (*one[:2], min(one[2], other[2]))),
    "max": rolling(lambda one, other: (*one[:2], max(one[2], other[2]))),
    "min_by": rolling(lambda one, other: other if other[2] < one[2] else one),
    "max_by": rolling(lambda one, other: other if other[2] > one[2] else one),
    "number": numbered,
    "count window": count_window,
}
STATELESS = ["add", "filter", "flat_map", "columns", "column add", "column filter"]
ORDERED_PARAMETERS = {"count window": [st.integers(1, 4), st.integers(1, 4)]}
EVENT_TIME_KINDS = sorted(TEMPLATES)
TEMPLATES |= ORDERED_TEMPLATES
MODELS |= ORDERED_MODELS


@st.composite
def ordered_programs(draw):
    """Draw a linear program that keeps the order of each key's records, whatever its parallelism."""
    records = draw(st.lists(RECORD, min_size=1, max_size=25).map(sorted_by_time))
    kinds = draw(st.lists(st.sampled_from(sorted([*ORDERED_TEMPLATES, *STATELESS])), min_size=1, max_size=5))
    # The source is one subtask; behind it, records are dealt by key from the beginning.
    kinds.insert(0, draw(st.sampled_from(sorted(ORDERED_TEMPLATES))))
    parameters = PARAMETERS | ORDERED_PARAMETERS
    steps = [
        Step(kind, (number,), tuple(map(draw, parameters.get(kind, [])))) for number, kind in enumerate(kinds)
    ]
    return Program(([records], [records]), steps, ordered=True)


def sorted_by_time(records):
    return sorted(records, key=lambda record: record[1])
