"""A job that runs is told another parallelism: it goes on from a checkpoint of its own, and the results are exact."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from recovery_programs import PROGRAMS, RECORDS, plain
from recovery_support import FAULTS, SAME, Tap, difference, multiset, new_environment, run, running

from millstream.base.errors import JobExecutionError, JobRequestError
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, MapFunction
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ValueStateDescriptor
from millstream.runtime.control.codec import read_command, write_command
from millstream.runtime.control.commands import Rescale
from millstream.runtime.control.views import CheckpointsView, ExceptionsView, JobView, MetricsView


class Rescaled:
    """Runs a program that is rescaled; keeps what came of each command, and views of the job behind it."""

    def __init__(self, build, *, parallelism, steps, gaps=(), interval=1, epoch=3, **options):
        if interval is not None:
            options["execution_checkpointing_interval"] = interval
        environment = new_environment(parallelism, epoch, **options)
        FAULTS.arm(*gaps)
        self.outcomes = []
        with running() as cluster:
            for at, *commands in steps:
                cluster.do_after(at, lambda commands=commands: self._ask(cluster, commands))
            with build(environment).execute_and_collect() as results:
                self.found = multiset(results)
            gateway = cluster.job().gateway
            self.job, self.exceptions = gateway.view(JobView), gateway.view(ExceptionsView)
            self.checkpoints, self.metrics = gateway.view(CheckpointsView), gateway.view(MetricsView)

    def _ask(self, cluster, commands):
        self.outcomes += [cluster.job().gateway.perform(command) for command in commands]


def parallelism_of(job, name):
    return next(vertex.parallelism for vertex in job.plan.vertices if name in vertex.name)


def at_of(name):
    return 5 if name == "processing_timers" else 25


MORE = [pytest.param(*pair, marks=pytest.mark.long) for pair in [(1, 4), (2, 3), (4, 1)]]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 2), *MORE])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_running_job_goes_on_at_another_parallelism(name, before, after):
    build = PROGRAMS[name]
    wanted = run(build, epoch=8)
    ran = Rescaled(build, parallelism=before, steps=[(at_of(name), Rescale(after))])
    assert difference(ran.found, wanted) == SAME
    (outcome,) = ran.outcomes
    assert outcome.result(0).checkpoint is not None, "it ended before it was rescaled"
    assert ran.job.attempt == 1
    assert ran.exceptions.total == 0
    assert ran.checkpoints.latest_restored.path == outcome.result(0).checkpoint


def numbers(env):
    source = NumberSequenceSource(1, 1_000)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").map(Tap())
    return stream.key_by(lambda number: number % 17).process(Sums()).uid("sums")


class Sums(KeyedProcessFunction):
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, context):
        total = (self.total.value() or 0) + value
        self.total.update(total)
        yield context.get_current_key(), value, total


def sums_of(count):
    """The same, by a loop: of each key the numbers in some order, and running totals that end in their sum."""
    return Counter({key: sum(n for n in range(1, count + 1) if n % 17 == key) for key in range(17)})


@pytest.mark.parametrize("gaps", [(), (150,), (180, 5, 100)])
def test_it_can_be_rescaled_again_and_again_and_fail_between(gaps):
    steps = [(100, Rescale(3)), (300, Rescale(2)), (500, Rescale(4)), (700, Rescale(1))]
    ran = Rescaled(numbers, parallelism=2, steps=steps, gaps=gaps, epoch=20)
    assert Counter(value for _, value, _ in ran.found.elements()) == Counter(range(1, 1_001))
    ends = Counter()
    for key, _, total in ran.found:
        ends[key] = max(ends[key], total)
    assert ends == sums_of(1_000)
    assert [each.result(0).parallelism for each in ran.outcomes] == [3, 2, 4, 1]
    assert ran.job.parallelism == 1
    assert ran.exceptions.total == len(gaps)
    assert ran.job.attempt == 4 + len(gaps)


def test_what_was_counted_is_counted_once_over_all_parallelisms():
    ran = Rescaled(numbers, parallelism=1, steps=[(200, Rescale(4)), (600, Rescale(2))], epoch=20)
    read = [each for each in ran.metrics.metrics if each.name == "numRecordsOut" and each.scope == "operator"]
    by_operator = Counter()
    for each in read:
        by_operator[each.operator] += each.value
    assert by_operator["numbers"] == 1_000
    assert {each.subtask for each in read if each.operator == "numbers"} == {0, 1}
    (vertex,) = (each for each in ran.job.vertices if "sums" in each.name or "Process" in each.name)
    assert sum(subtask.records_in for subtask in vertex.subtasks) == 1_000


def test_a_vertex_is_rescaled_by_itself_and_an_operators_own_parallelism_stays():
    def build(env):
        return numbers(env).map(lambda each: each, None).name("own").set_parallelism(3).uid("own")

    ids = {}

    outcomes = []
    environment = new_environment(2, 20, execution_checkpointing_interval=1)
    FAULTS.arm()
    with running() as cluster:

        def ask():
            job = cluster.job().gateway
            ids.update({each.name: each.vertex_id for each in job.view(JobView).plan.vertices})
            (sums,) = (vertex for name, vertex in ids.items() if "process" in name.lower())
            outcomes.append(job.perform(Rescale(1, {sums: 4})))

        cluster.do_after(100, ask)
        with build(environment).execute_and_collect() as results:
            found = multiset(results)
        job = cluster.job().gateway.view(JobView)
    assert Counter(value for _, value, _ in found.elements()) == Counter(range(1, 1_001))
    assert outcomes[0].result(0).parallelism == 4
    assert parallelism_of(job, "numbers") == 1
    assert parallelism_of(job, "own") == 3


REFUSED = {
    "no checkpoints": (numbers, {"interval": None}, Rescale(3), "it makes no checkpoints"),
    "not positive": (numbers, {}, Rescale(0), "cannot have parallelism 0"),
    "nothing": (numbers, {}, Rescale(), "without a parallelism"),
    "more than key groups": (numbers, {"pipeline_max__parallelism": 8}, Rescale(9), "has parallelism 9"),
    "no such vertex": (numbers, {}, Rescale(2, {"ab": 1}), "no vertex ab"),
    "all fixed": (
        lambda env: plain(env).set_parallelism(1),
        {},
        Rescale(2),
        "each of its operators has a parallelism of its own",
    ),
    "forward": (
        lambda env: numbers(env).set_parallelism(2).forward().map(lambda each: each).name("behind"),
        {},
        Rescale(3),
        "forward",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_the_reason_and_the_job_goes_on(name):
    build, options, command, reason = REFUSED[name]
    ran = Rescaled(
        build, parallelism=2 if name == "forward" else 1, steps=[(20, command)], epoch=10, **options
    )
    with pytest.raises(JobRequestError, match=reason):
        ran.outcomes[0].result(0)
    assert ran.job.attempt == 0
    assert ran.job.status == "FINISHED"
    assert sum(ran.found.values()) == (len(RECORDS) if name == "all fixed" else 1_000)


def test_the_same_parallelism_changes_nothing():
    ran = Rescaled(numbers, parallelism=2, steps=[(100, Rescale(2))], epoch=20)
    outcome = ran.outcomes[0].result(0)
    assert (outcome.before, outcome.parallelism, outcome.checkpoint) == (2, 2, None)
    assert ran.job.attempt == 0


def test_who_does_not_wait_is_answered_at_once():
    ran = Rescaled(numbers, parallelism=1, steps=[(100, Rescale(2, waits=False))], epoch=20)
    assert ran.outcomes[0].result(0).checkpoint is None
    assert (ran.job.attempt, ran.job.parallelism) == (1, 2)


def test_one_at_a_time():
    ran = Rescaled(numbers, parallelism=1, steps=[(100, Rescale(2), Rescale(3))], epoch=20)
    assert ran.outcomes[0].result(0).parallelism == 2
    with pytest.raises(JobRequestError, match="being rescaled already"):
        ran.outcomes[1].result(0)


class NotInThree(MapFunction):
    def open(self, context):
        if context.get_number_of_parallel_subtasks() == 3:
            raise OSError("there is not enough of me")

    def map(self, value):
        return value


def test_a_job_that_cannot_run_that_parallel_goes_back():
    def build(env):
        return numbers(env).map(NotInThree())

    ran = Rescaled(build, parallelism=2, steps=[(100, Rescale(3))], epoch=20, restart__strategy_type="none")
    assert Counter(value for _, value, _ in ran.found.elements()) == Counter(range(1, 1_001))
    error = ran.outcomes[0].exception(0)
    assert "could not run with parallelism 3, and goes on as before" in str(error)
    assert "there is not enough of me" in str(error)
    assert (ran.job.attempt, ran.job.parallelism, ran.exceptions.total) == (2, 2, 1)


def test_commands_survive_their_way_through_the_socket():
    command = Rescale(3, {"ab": 2}, waits=False)
    assert read_command(json.loads(json.dumps(write_command(command)))) == command


def test_a_later_driver_goes_on_at_the_parallelism_to_which_its_predecessor_was_rescaled(tmp_path):
    def start(**options):
        environment = new_environment(
            1,
            20,
            execution_checkpointing_interval=1,
            execution_checkpointing_dir=str(tmp_path / "checkpoints"),
            high__availability_storageDir=str(tmp_path / "ha"),
            **options,
        )
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        numbers(environment).map(lambda each: str(each[1]), Types.STRING()).sink_to(sink)
        return environment

    FAULTS.arm()
    with running() as cluster:
        outcomes = []
        cluster.do_after(100, lambda: outcomes.append(cluster.job().gateway.perform(Rescale(3))))
        cluster.do_after(400, lambda: cluster.job().suspend())
        with pytest.raises(JobExecutionError, match="suspended"):
            start().execute("numbers")
    assert outcomes[0].result(0).parallelism == 3

    with running() as cluster:
        start(millstream_recover=True).execute("numbers")
        job = cluster.job().gateway.view(JobView)
    assert (job.parallelism, job.status) == (3, "FINISHED")
    lines = [
        line for part in (tmp_path / "out").rglob("*") if part.is_file() for line in part.read_text().split()
    ]
    assert Counter(lines) == Counter(map(str, range(1, 1_001)))
