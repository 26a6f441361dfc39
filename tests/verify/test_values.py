"""Functions that change what they have emitted, under failures and other cuts of epochs: the results stay the same."""

from __future__ import annotations

from collections import Counter

import pytest
from verify_jobs import captured

from millstream.common import Types
from millstream.common.state import ValueStateDescriptor
from millstream.datastream.functions import FlatMapFunction, KeyedProcessFunction
from millstream.verify.verifier import Verifier

pytestmark = pytest.mark.usefixtures("some_form")

NUMBERS = range(40)


class Grow(FlatMapFunction):
    def flat_map(self, value):
        row = []
        for number in range(2):
            row.append(value + number)
            yield row
        row.clear()


class DictInState(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        seen = self.state.value() or {"key": ctx.get_current_key(), "rows": []}
        seen["rows"].append(value)
        self.state.update(seen)
        yield seen


def change(seen):
    seen["rows"] = len(seen["rows"]), sum(map(sum, seen["rows"]))
    return seen


def group(row):
    return row[0] % 3


def job(environment):
    stream = environment.from_collection(list(NUMBERS)).flat_map(Grow()).key_by(group).process(DictInState())
    stream.map(change).map(str).print()
    stream.map(str).map(len).print()


def expected():
    changed, lengths, seen = [], [], {}
    for number in NUMBERS:
        rows = seen.setdefault(number % 3, [])
        for row in ([number], [number, number + 1]):
            rows.append(row)
            found = {"key": number % 3, "rows": rows}
            lengths.append(str(len(str(found))))
            changed.append(str({**found, "rows": (len(rows), sum(map(sum, rows)))}))
    return [Counter(changed), Counter(lengths)]


def test_results_do_not_depend_on_failures_nor_on_epochs():
    verifier = Verifier(captured(job))
    assert list(verifier.reference.outputs.values()) == expected()
    for result in verifier.run(range(40)):
        assert not result.failed, (result.seed, result.error, *map(str, result.differences), *result.trace)
