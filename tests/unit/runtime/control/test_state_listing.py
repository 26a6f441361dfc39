"""States and keys of a running job, listed page by page, beside what the program has put there."""

from __future__ import annotations

import ast
import threading

import pytest

from millstream.base.errors import JobRequestError
from millstream.common import Configuration, WatermarkStrategy
from millstream.connectors.collection import CollectionSource
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.runtime.control import queryable
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.commands import KeyPage, ListKeys, ListStates
from millstream.spi.source import Boundedness, SourcePlan, SplitEnumerator

KEYS = [(f"k{number % 37}", number) for number in range(37)]


class Waiting(CollectionSource):
    """A collection that does not end; tells when it has been processed."""

    processed = threading.Event()

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism, restored):
        return _Enumerator(super().build_enumerator(parallelism, restored), self.processed)


class _Enumerator(SplitEnumerator):
    def __init__(self, inner, processed):
        self.inner = inner
        self.processed = processed
        self.ended = False

    def plan(self, request):
        if self.ended:
            self.processed.set()
            return SourcePlan()
        plan = self.inner.plan(request)
        self.ended = bool(plan.finished)
        return SourcePlan(plan.ranges)

    def advance(self, ends):
        self.inner.advance(ends)

    def snapshot(self):
        return self.inner.snapshot()


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))
        self.text = runtime_context.get_map_state(MapStateDescriptor("<b>text</b>"))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        self.all.add(value[1])
        self.text.put(value[1], "x" * 2_000)


@pytest.fixture(params=["hashmap", "rocksdb"])
def job(request):
    options = {
        "execution.target": "local",
        "state.backend.type": request.param,
        "execution.runtime-mode": "STREAMING",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    Waiting.processed = threading.Event()
    stream = env.from_source(Waiting([*KEYS, *KEYS]), WatermarkStrategy.no_watermarks(), "records")
    stream.key_by(lambda record: record).process(Keep()).uid("keep").name("Keep <i>it</i>")
    client = env.execute_async("listed")
    assert Waiting.processed.wait(60)
    (found,) = [each for each in find_jobs() if each.job_id == str(client.get_job_id())]
    yield found
    client.cancel().result()


def keys_of(job, state, limit):
    """Return all keys of both subtasks with their values as text, page by page, and how many pages there were."""
    found, pages = {}, 0
    for subtask in (0, 1):
        offset = 0
        while True:
            page: KeyPage = job.perform(ListKeys("keep", state, subtask, offset, limit)).result(60)
            found |= {ast.literal_eval(each.key): each.value for each in page.keys}
            pages += 1
            offset += limit
            if not page.more:
                break
    return found, pages


@pytest.mark.parametrize("limit", [500, 5])
def test_all_keys_come_once_over_the_pages_with_what_they_have(job, limit):
    totals, pages = keys_of(job, "total", limit)
    assert {key: ast.literal_eval(value) for key, value in totals.items()} == {
        key: 2 * key[1] for key in KEYS
    }
    assert pages == 2 if limit == 500 else pages > 6
    lists, _ = keys_of(job, "all", limit)
    assert {key: ast.literal_eval(value) for key, value in lists.items()} == {
        key: [key[1]] * 2 for key in KEYS
    }


def test_states_are_listed_with_their_kinds_and_large_values_are_cut(job):
    (operator,) = job.perform(ListStates()).result(60).operators
    assert (operator.operator, operator.name, operator.parallelism) == ("keep", "Keep <i>it</i>", 2)
    assert [(each.name, each.kind.split(" of ")[0]) for each in operator.states] == [
        ("<b>text</b>", "map state"),
        ("all", "list state"),
        ("total", "value state"),
    ]
    page = job.perform(ListKeys("keep", "<b>text</b>", 0, 0, 3)).result(60)
    assert {(each.type, each.namespace) for each in page.keys} == {("dict", None)}
    assert all(len(each.value) < 600 for each in page.keys)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (ListKeys("nobody", "total"), 'no operator with uid "nobody"'),
        (ListKeys("keep", "nothing"), 'no keyed state "nothing"'),
        (ListKeys("keep", "total", 2), "no subtask 2"),
        (ListKeys("keep", "total", 0, 0, 501), "1 to 500"),
        (ListKeys("keep", "total", 0, -1), "from 0 on"),
    ],
)
def test_what_is_not_there_is_refused_and_the_job_goes_on(job, command, said):
    with pytest.raises(JobRequestError, match=said):
        job.perform(command).result(60)
    assert job.perform(ListKeys("keep", "total", 0, 0, 1)).result(60).keys


def test_only_so_many_keys_are_listed(job, monkeypatch):
    monkeypatch.setattr(queryable, "MOST_LISTED", 6)
    page = job.perform(ListKeys("keep", "total", 0, 4, 50)).result(60)
    assert (len(page.keys), page.more, page.limited) == (2, False, True)
    assert job.perform(ListKeys("keep", "total", 0, 6, 50)).result(60) == KeyPage((), limited=True)
