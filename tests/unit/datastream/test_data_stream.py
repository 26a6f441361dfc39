import json
import subprocess
import sys

import cloudpickle
import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    JobExecutionError,
    TypeMismatchError,
)
from millstream.common.functions import (
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    SinkFunction,
)
from millstream.common.output_tag import OutputTag
from millstream.common.state import MapStateDescriptor, ValueStateDescriptor
from millstream.config import options
from millstream.config.configuration import CONFIG_VARIABLE, Configuration
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.graph.launcher import JobLauncher, JobResult, RunningJob, set_launcher_override
from millstream.graph.transformation import ChainingStrategy
from millstream.operators import partitioners
from millstream.operators.process import KeyedProcessSpec, ProcessSpec
from millstream.operators.reduce import ReduceSpec
from millstream.operators.simple import FilterSpec, FlatMapSpec, MapSpec
from millstream.operators.sink import CollectSpec, PrintSpec, SinkFunctionSpec
from millstream.operators.source import SourceSpec
from millstream.types.row import Row
from millstream.types.typeinfo import Types


class FakeJob(RunningJob):
    job_id = "cd" * 16

    def __init__(self, records=(), failure=None):
        self.records = records
        self.failure = failure
        self.cancelled = False

    def wait(self, timeout_s=None):
        if self.failure:
            raise self.failure
        return JobResult(self.job_id, 5, None)

    def cancel(self):
        self.cancelled = True

    def stop(self):
        raise AssertionError

    def collected(self, collect_id):
        self.collect_id = collect_id
        yield from self.records
        self.wait()

    def status(self):
        return "RUNNING"


class FakeLauncher(JobLauncher):
    def __init__(self):
        self.submissions = []
        self.job = FakeJob()

    def launch(self, submission):
        self.submissions.append(submission)
        return self.job


@pytest.fixture
def launcher():
    fake = FakeLauncher()
    before = set_launcher_override(fake)
    yield fake
    set_launcher_override(before)


@pytest.fixture
def env(monkeypatch):
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    return StreamExecutionEnvironment.get_execution_environment()


class Tagging(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Counting(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Writing(SinkFunction):
    def invoke(self, value):
        pass


def edges(stream):
    return [(e.source.name, e.partitioning, e.side_output) for e in stream._ports[0].source.inputs]


def spec(stream):
    return stream._ports[0].source.spec


# Building


def test_operators_become_transformations_in_order_of_creation(env):
    numbers = env.from_collection([1, 2])
    numbers.map(str).filter(bool).flat_map(list).process(Tagging()).print()
    built = env._transformations
    assert [each.id for each in built] == [1, 2, 3, 4, 5, 6]
    assert [type(each.spec) for each in built] == [
        SourceSpec,
        MapSpec,
        FilterSpec,
        FlatMapSpec,
        ProcessSpec,
        PrintSpec,
    ]
    assert [each.name for each in built] == [
        "Collection Source",
        "Map",
        "Filter",
        "Flat Map",
        "Process",
        "Print to Std. Out",
    ]
    assert [[edge.source.id for edge in each.inputs] for each in built] == [[], [1], [2], [3], [4], [5]]


def test_partitioning_stands_on_the_edge_of_the_next_operator(env):
    numbers = env.from_collection([1])
    assert edges(numbers.map(str)) == [("Collection Source", None, None)]
    for stream, expected in [
        (numbers.rebalance(), partitioners.Rebalance()),
        (numbers.rescale(), partitioners.Rescale()),
        (numbers.shuffle(), partitioners.Shuffle()),
        (numbers.forward(), partitioners.Forward()),
        (numbers.broadcast(), partitioners.Broadcast()),
        (numbers.global_(), partitioners.Global()),
        (numbers.rebalance().shuffle(), partitioners.Shuffle()),
        (numbers.key_by(str), partitioners.KeyGroups(str)),
    ]:
        assert edges(stream.map(str)) == [("Collection Source", expected, None)]


@pytest.mark.parametrize(
    "repartition",
    [
        lambda stream: stream.rebalance(),
        lambda stream: stream.rescale(),
        lambda stream: stream.shuffle(),
        lambda stream: stream.forward(),
        lambda stream: stream.global_(),
        lambda stream: stream.broadcast(),
        lambda stream: stream.broadcast(MapStateDescriptor("m", Types.INT(), Types.INT())),
        lambda stream: stream.partition_custom(lambda key, count: 0, str),
    ],
)
def test_a_keyed_stream_is_not_dealt_anew(env, repartition):
    keyed = env.from_collection([1]).key_by(str)
    with pytest.raises(JobDefinitionError, match="a keyed stream was to be dealt"):
        repartition(keyed)
    assert edges(keyed.key_by(int).map(str)) == [("Collection Source", partitioners.KeyGroups(int), None)]


def test_a_keyed_stream_is_collected_with_its_keys():
    settings = {"execution.target": "local", "parallelism.default": 1}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    keyed = env.from_collection(["a", "bb", "c", "dd"]).map(str.upper).set_parallelism(1).key_by(len)
    expected = [Row(f0=1, f1="A"), Row(f0=2, f1="BB"), Row(f0=1, f1="C"), Row(f0=2, f1="DD")]
    assert keyed.execute_and_collect(limit=3) == expected[:3]
    with keyed.execute_and_collect() as rows:
        assert list(rows) == expected


def test_a_custom_partitioner_gets_its_key_selector(env):
    def modulo(key, count):
        return key % count

    stream = env.from_collection([1]).partition_custom(modulo, int).map(str)
    ((source, partitioning, _),) = edges(stream)
    assert source == "Collection Source"
    assert isinstance(partitioning, partitioners.CustomPartitioning)
    assert (partitioning.partitioner(5, 3), partitioning.key_selector) == (2, int)


def test_a_union_reads_all_its_streams_each_dealt_in_its_own_way(env):
    left, right = env.from_collection([1]).map(str), env.from_collection([2])
    stream = left.union(right.rebalance(), right.global_()).map(str)
    assert edges(stream) == [
        ("Map", None, None),
        ("Collection Source", partitioners.Rebalance(), None),
        ("Collection Source", partitioners.Global(), None),
    ]


def test_a_side_output_is_read_by_its_id_and_has_the_tags_type(env):
    tagged = env.from_collection([1]).process(Tagging())
    side = tagged.get_side_output(OutputTag("late", Types.INT()))
    assert side.get_type() == Types.INT()
    assert edges(side.map(str)) == [("Process", None, "late")]


def test_operators_of_a_keyed_stream_know_its_key(env):
    keyed = env.from_collection([("a", 1)]).key_by(len)
    assert isinstance(spec(keyed.process(Counting())), KeyedProcessSpec)
    assert spec(keyed.process(Counting())).key_selector is len
    assert isinstance(spec(keyed.reduce(max)), ReduceSpec)
    for stream in (keyed.sum(1), keyed.min(1), keyed.max(1), keyed.min_by(1), keyed.max_by("f1")):
        assert spec(stream).key_selector is len
        assert edges(stream) == [("Collection Source", partitioners.KeyGroups(len), None)]


class ByLength(KeySelector):
    def get_key(self, value):
        return len(value)


def test_a_key_selector_instance_travels_as_its_method(env):
    keyed = env.from_collection(["ab"]).key_by(ByLength(), Types.INT())
    assert cloudpickle.loads(cloudpickle.dumps(keyed._key_selector))("abc") == 3


def test_settings_reach_the_operator_they_are_made_behind(env):
    stream = env.from_collection([1]).map(str).name("m").uid("u").set_parallelism(3).set_max_parallelism(6)
    stream.set_description("d").slot_sharing_group("g").start_new_chain().set_uid_hash("0f" * 16)
    built = stream._ports[0].source
    assert (built.name, built.uid, built.parallelism, built.max_parallelism) == ("m", "u", 3, 6)
    assert (built.description, built.slot_sharing_group, built.uid_hash) == ("d", "g", "0f" * 16)
    assert built.chaining is ChainingStrategy.HEAD
    assert (stream.get_name(), stream.get_parallelism()) == ("m", 3)
    sink = stream.print("OUT").name("p").set_parallelism(2).disable_chaining()
    written = sink._ports[0].source
    assert (written.name, written.parallelism, written.chaining) == ("p", 2, ChainingStrategy.NEVER)
    assert written.spec == PrintSpec("OUT")


@pytest.mark.parametrize(
    "derive",
    [
        lambda s: s.rebalance(),
        lambda s: s.key_by(str),
        lambda s: s.union(s),
        lambda s: s.get_side_output(OutputTag("t")),
    ],
)
def test_a_setting_on_a_stream_without_an_operator_of_its_own_is_refused(env, derive):
    with pytest.raises(JobDefinitionError, match="direct result"):
        derive(env.from_collection([1]).map(str)).uid("u")


def test_a_source_that_is_not_parallel_stays_so(env):
    numbers = env.from_collection([1])
    assert numbers.get_parallelism() == 1
    with pytest.raises(ConfigurationError, match="parallelism 2"):
        numbers.set_parallelism(2)


@pytest.mark.parametrize("parallelism", [0, -1, "2", True, 1.0])
def test_a_parallelism_is_a_positive_integer(env, parallelism):
    with pytest.raises(ConfigurationError, match="parallelism"):
        env.from_collection([1]).map(str).set_parallelism(parallelism)


def test_types_follow_the_records(env):
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    pairs = env.from_collection([("a", 1)], pair)
    assert pairs.filter(bool).rebalance().key_by(len).sum(1).get_type() == pair
    assert pairs.map(str).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert pairs.map(len, Types.INT()).get_type() == Types.INT()
    assert pairs.project(1).get_type() == Types.TUPLE([Types.INT()])
    assert spec(pairs.project(1)).function(("a", 1)) == (1,)
    assert spec(pairs.project(1, 0)).function(("a", 1)) == (1, "a")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.map(3),
        lambda s: s.filter(None),
        lambda s: s.flat_map(Tagging()),
        lambda s: s.process(Counting()),
        lambda s: s.process(str),
        lambda s: s.key_by(len).process(Tagging()),
        lambda s: s.key_by(3),
        lambda s: s.key_by(len).reduce(Tagging()),
        lambda s: s.map(str, Types.STRING),
        lambda s: s.map(str, output_type=str),
        lambda s: s.union([s]),
        lambda s: s.sink_to(Writing()),
        lambda s: s.add_sink(print),
        lambda s: s.get_side_output("late"),
        lambda s: s.assign_timestamps_and_watermarks(None),
        lambda s: s.partition_custom(3, str),
        lambda s: s.get_execution_environment().from_collection("abc"),
        lambda s: s.get_execution_environment().from_collection([1], int),
        lambda s: s.get_execution_environment().from_source([1], None, "x"),
    ],
)
def test_an_argument_of_the_wrong_class_is_refused_where_it_is_given(env, call):
    numbers = env.from_collection([1])
    before = len(env._transformations)
    with pytest.raises(TypeMismatchError):
        call(numbers)
    assert len(env._transformations) == before


def test_values_of_a_collection_are_checked_and_named_at_once(env):
    with pytest.raises(TypeMismatchError, match=r"'x'.*INT"):
        env.from_collection([1, "x"], Types.INT())
    assert env._transformations == []


# Options


def test_code_wins_over_the_command_line(monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, json.dumps({"parallelism.default": "3", "execution.target": "local"}))
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_parallelism() == 3
    env.set_parallelism(5)
    assert env.get_parallelism() == 5
    given = Configuration().set(options.DEFAULT_PARALLELISM, 4)
    env = StreamExecutionEnvironment.get_execution_environment(given)
    assert env.get_parallelism() == 4
    assert env._configuration.get(options.TARGET) == "local"


def test_the_environments_setters_set_options(env):
    env.set_max_parallelism(7).set_runtime_mode(RuntimeExecutionMode.BATCH).disable_operator_chaining()
    env.configure(Configuration().set("my.key", 1))
    get = env._configuration.get
    assert (get(options.MAX_PARALLELISM), get(options.RUNTIME_MODE), get("my.key")) == (7, "BATCH", 1)
    assert not env.is_chaining_enabled()
    with pytest.raises(ConfigurationError, match="32768"):
        env.set_max_parallelism(40_000)


def test_an_operator_has_the_parallelism_that_held_when_it_was_made(env):
    env.set_parallelism(2)
    early = env.from_collection([1]).map(str)
    env.set_parallelism(4)
    late = early.map(str)
    assert (early.get_parallelism(), late.get_parallelism()) == (2, 4)


# Jobs


def test_execute_submits_what_was_built_and_returns_how_it_ended(env, launcher):
    env.from_collection([1]).map(str).print()
    before = StreamExecutionEnvironment.executed_jobs
    result = env.execute("my job")
    (submission,) = launcher.submissions
    assert submission.name == "my job"
    assert [each.name for each in submission.transformations] == [
        "Collection Source",
        "Map",
        "Print to Std. Out",
    ]
    assert (str(result.get_job_id()), result.get_net_runtime()) == ("cd" * 16, 5)
    assert StreamExecutionEnvironment.executed_jobs == before + 1


def test_a_second_job_holds_what_is_new_and_what_it_reads(env, launcher):
    numbers = env.from_collection([1])
    numbers.map(str).print()
    env.execute()
    numbers.filter(bool).print()
    env.execute()
    names = [each.name for each in launcher.submissions[1].transformations]
    assert names == ["Collection Source", "Filter", "Print to Std. Out"]


def test_later_changes_of_options_do_not_reach_a_submitted_job(env, launcher):
    env.from_collection([1]).print()
    env.execute_async()
    env.configure(Configuration().set("my.key", 1))
    assert not launcher.submissions[0].configuration.contains_key("my.key")


@pytest.mark.parametrize("build", [lambda env: None, lambda env: env.from_collection([1])])
def test_a_program_without_operators_is_refused(env, launcher, build):
    build(env)
    for submit in (env.execute, env.execute_async, env.get_execution_plan):
        with pytest.raises(JobDefinitionError, match="no operators defined"):
            submit()
    assert launcher.submissions == []


def test_a_job_is_named_by_its_option_unless_execute_names_it(env, launcher):
    env.configure(Configuration().set(options.PIPELINE_NAME, "by option"))
    for name in (None, "by call"):
        env.from_collection([1]).print()
        env.execute(name)
    assert [each.name for each in launcher.submissions] == ["by option", "by call"]


def test_an_interrupt_while_waiting_cancels_the_job(env, launcher):
    launcher.job.failure = KeyboardInterrupt()
    env.from_collection([1]).print()
    with pytest.raises(KeyboardInterrupt):
        env.execute()
    assert launcher.job.cancelled


def test_the_plan_shows_nodes_and_how_they_are_joined(env):
    env.set_parallelism(2)
    env.from_collection([("a", 1)]).key_by(len).sum(1).print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [node["parallelism"] for node in nodes] == [1, 2, 2]
    assert nodes[1]["predecessors"][0]["ship_strategy"] == "HASH"
    assert len(env._transformations) == 3, "looking at the plan must not use it up"


def test_collecting_reads_the_records_of_this_stream(env, launcher):
    launcher.job.records = [1, 2, 3]
    with env.from_collection([1]).execute_and_collect("c") as records:
        assert list(records) == [1, 2, 3]
    last = launcher.submissions[0].transformations[-1]
    assert last.spec == CollectSpec(launcher.job.collect_id)
    assert not launcher.job.cancelled


def test_collecting_up_to_a_limit_gives_a_list_and_cancels_the_rest(env, launcher):
    launcher.job.records = [1, 2, 3]
    assert env.from_collection([1]).execute_and_collect(limit=2) == [1, 2]
    assert launcher.job.cancelled


def test_a_failing_job_raises_from_the_iterator(env, launcher):
    launcher.job.records = [1]
    launcher.job.failure = JobExecutionError("job failed")
    records = env.from_collection([1]).execute_and_collect()
    assert records.next() == 1
    with pytest.raises(JobExecutionError):
        next(records)
    with pytest.raises(StopIteration):
        next(records)


def test_add_sink_takes_a_sink_function(env):
    sink = env.from_collection([1]).add_sink(Writing())
    assert isinstance(sink._ports[0].source.spec, SinkFunctionSpec)


# Through the local executor


@pytest.fixture
def local():
    return StreamExecutionEnvironment(Configuration().set(options.TARGET, "local"))


class RunningCount(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


def test_a_map_function_of_a_keyed_stream_has_keyed_state(local):
    local.set_parallelism(2)
    stream = local.from_collection(list("abab")).key_by(str).map(RunningCount())
    assert sorted(stream.execute_and_collect()) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_small_program_runs(local):
    kind = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.INT()])
    words = local.from_collection(["to be", "or not to be"]).flat_map(str.split)
    counts = words.map(lambda word: Row(word, 1), kind).key_by(lambda row: row.word).sum("count")
    latest = {row.word: row["count"] for row in counts.execute_and_collect()}
    assert latest == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_importing_the_facade_loads_neither_spark_nor_arrow():
    code = "import sys, millstream.datastream; print({'pyspark', 'pyarrow', 'py4j'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
