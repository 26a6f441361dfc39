"""Queries of a running job: what a key has as of the last epoch, an error for the asker, nothing for the job."""

from __future__ import annotations

import pickle
import threading
from collections import deque

import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobExecutionError,
    NotSerializableError,
    NotSupportedError,
    SlotLostError,
    StateAccessError,
)
from millstream.base.time import Time
from millstream.common import Configuration, WatermarkStrategy
from millstream.connectors.collection import CollectionSource
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.operators.base import EpochTime
from millstream.runtime.control.queryable import StateQuery, answer_queries, fail_queries
from millstream.runtime.local.executor import LocalExecutor
from millstream.runtime.protocol.questions import SlotQuestion
from millstream.runtime.slot.state_query import read_state
from millstream.runtime.slot.wire import SlotSilentError
from millstream.spi.source import Boundedness, SourcePlan, SplitEnumerator
from millstream.state.disk import DiskKeyedStateBackend
from millstream.state.heap import HeapKeyedStateBackend
from millstream.state.touched import TouchedKeys

RECORDS = [(f"k{n % 5}", n) for n in range(50)]


class WaitingSource(CollectionSource):
    """A collection that does not end; tells when it has been processed."""

    def __init__(self, values):
        super().__init__(values)
        self.processed = threading.Event()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "processed"}

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism, restored):
        return _Waiting(super().build_enumerator(parallelism, restored), self.processed)


class _Waiting(SplitEnumerator):
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
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))
        self.odd = runtime_context.get_map_state(MapStateDescriptor("odd"))
        self.locks = runtime_context.get_state(ValueStateDescriptor("locks"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.all.add(value[1])
        self.odd.put(value[1], value[1] % 2 == 1)


@pytest.fixture(params=[(1, "hashmap"), (3, "hashmap"), (2, "rocksdb")], ids=str)
def client(request):
    parallelism, backend = request.param
    options = {
        "execution.target": "local",
        "state.backend.type": backend,
        "execution.runtime-mode": "STREAMING",
        "millstream.epoch.fixed-records": 7,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(parallelism)
    source = WaitingSource(RECORDS)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records").uid("records")
    stream.key_by(lambda r: r[0]).process(Keep()).uid("keep").name("Keep it")
    client = env.execute_async("waiting")
    assert source.processed.wait(60)
    yield client
    client.cancel().result()


def test_a_key_has_what_plain_python_computes(client):
    for key in ("k0", "k4"):
        own = [n for other, n in RECORDS if other == key]
        assert client.query_state("keep", "count", key).result() == len(own)
        assert client.query_state("keep", "all", key).result() == own
        assert client.query_state("Keep it", "odd", key).result() == {n: n % 2 == 1 for n in own}


def test_an_answer_is_a_copy(client):
    answer = client.query_state("keep", "all", "k1").result()
    expected = list(answer)
    answer.append("mine")
    assert client.query_state("keep", "all", "k1").result() == expected


@pytest.mark.parametrize(
    "asked",
    [
        ("keep", "count", "k9"),
        ("keep", "all", "k9"),
        ("keep", "odd", "k9"),
        ("keep", "count", "k1", ("window", 1)),
    ],
)
def test_a_key_that_has_nothing_gives_none(client, asked):
    assert client.query_state(*asked).result() is None


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (("nobody", "count", "k1"), StateAccessError, 'no operator with uid "nobody"'),
        (("records", "count", "k1"), StateAccessError, "its input is not keyed"),
        (("keep", "nothing", "k1"), StateAccessError, 'no keyed state "nothing"'),
        (("keep", "count", (n for n in ())), ConfigurationError, "generator"),
        (("keep", "count", "k1", ["w"]), StateAccessError, r"namespace \['w'\] is not hashable"),
    ],
)
def test_the_asker_gets_an_error_and_the_job_goes_on(client, asked, kind, said):
    with pytest.raises(kind, match=said):
        client.query_state(*asked).result()
    assert client.get_job_status().result().name == "RUNNING"
    assert client.query_state("keep", "count", "k1").result() == 10


def test_after_the_jobs_end_the_asker_is_told(client):
    client.cancel().result()
    with pytest.raises(JobExecutionError, match="the job has ended: CANCELED"):
        client.query_state("keep", "count", "k1").result()


# What a slot answers


@pytest.fixture(params=["heap", "disk"])
def backend(request, tmp_path):
    time = EpochTime(1_000)
    if request.param == "heap":
        made = HeapKeyedStateBackend(operator="op", time=time, tracking=True)
    else:
        made = DiskKeyedStateBackend(str(tmp_path), operator="op", time=time)
    made.clock = time
    yield made
    made.close()


def ask(backend, state, key, namespace=None):
    return pickle.loads(read_state(backend, SlotQuestion(1, state, key, namespace)))


def test_namespaces_are_apart(backend):
    backend.set_current_key("k")
    for namespace, value in ((None, 1), ("w", 2)):
        backend.get_state(ValueStateDescriptor("v"), namespace).update(value)
    assert (ask(backend, "v", "k"), ask(backend, "v", "k", "w")) == (1, 2)


def test_state_with_a_time_to_live_is_given_without_its_times_and_not_when_expired(backend):
    config = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
    kinds = {"v": ValueStateDescriptor, "l": ListStateDescriptor, "m": MapStateDescriptor}
    states = {}
    backend.set_current_key("k")
    for name, kind in kinds.items():
        descriptor = kind(name)
        descriptor.enable_time_to_live(config)
        states[name] = backend.get_state(descriptor)
    states["v"].update(1)
    states["l"].add("old")
    states["m"].put("old", 1)
    backend.clock.now_ms = 1_060
    states["l"].add("new")
    states["m"].put("new", 2)
    assert [ask(backend, name, "k") for name in kinds] == [1, ["old", "new"], {"old": 1, "new": 2}]
    backend.clock.now_ms = 1_120
    assert [ask(backend, name, "k") for name in ("l", "m")] == [["new"], {"new": 2}]
    assert ask(backend, "v", "k") is None


def test_values_that_cannot_be_pickled_are_an_error_for_the_asker(backend):
    if isinstance(backend, DiskKeyedStateBackend):
        pytest.skip("such values cannot be on disk")
    backend.set_current_key("k")
    backend.get_state(ValueStateDescriptor("v")).update(threading.Lock())
    with pytest.raises(NotSerializableError, match="cannot be pickled"):
        ask(backend, "v", "k")


def test_a_question_leaves_state_and_changed_keys_as_they_are(backend):
    backend.set_current_key("k")
    backend.get_state(ValueStateDescriptor("v")).update(1)
    if isinstance(backend, HeapKeyedStateBackend):
        backend.tracking = True
        backend.track(TouchedKeys({"k"}))
    before = backend.snapshot()
    assert ask(backend, "v", "other", namespace=("no", "such")) is None
    assert ask(backend, "v", "k") == 1
    assert backend.snapshot() == before
    if isinstance(backend, HeapKeyedStateBackend):
        assert backend.touched == {"k"}
        # A table of a namespace would have patches clear all that a key had.
        assert not any(patch.cleared for patch in backend.patch().patches.values())


# What the job master does


class FakeNode:
    class spec:
        is_keyed = True

    def __init__(self, uid):
        self.id, self.uid, self.operator_id, self.name = 7, uid, "0" * 32, "name"
        self.parallelism, self.max_parallelism = 4, 128


class FakeGraph:
    class vertex:
        nodes = (FakeNode("op"),)

    vertices = (vertex,)


def test_questions_to_a_lost_slot_wait_for_the_next_attempt():
    def lost(slot, question):
        raise SlotLostError("slot 1 is lost")

    queries = deque(StateQuery("op", "s", key) for key in ("a", "b"))
    asked = list(queries)
    with pytest.raises(SlotLostError):
        answer_queries(queries, FakeGraph, lost)
    assert list(queries) == asked
    answer_queries(queries, FakeGraph, lambda slot, question: b"value")
    assert [query.done.result(0) for query in asked] == [b"value", b"value"]


def test_a_silent_slot_fails_the_question_and_nothing_else():
    def silent(slot, question):
        raise SlotSilentError("slot 1 has not answered")

    queries = deque(StateQuery("op", "s", key) for key in ("a", "b"))
    asked = list(queries)
    answer_queries(queries, FakeGraph, silent)
    assert not queries
    assert {type(query.done.exception(0)) for query in asked} == {SlotSilentError}


def test_an_asker_who_gave_up_is_no_trouble():
    query = StateQuery("op", "s", "a")
    assert query.done.cancel()
    answer_queries(deque([query]), FakeGraph, lambda slot, question: b"value")
    fail_queries(deque([query]), "the job has ended")
    assert query.done.cancelled()


def test_an_executor_that_cannot_ask_says_so():
    class Other(LocalExecutor):
        pass

    from millstream.runtime.protocol.executor import Executor

    with pytest.raises(NotSupportedError, match="Other"):
        Executor.query(Other(), 0, SlotQuestion(1, "s", "k", None))
