"""What people see who look at streams, plans and results, in a terminal and in a notebook."""

from __future__ import annotations

import json

from millstream.common import Configuration, Time, Types
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_id import JobID
from millstream.datastream import MapFunction, OutputTag, StreamExecutionEnvironment
from millstream.datastream.state import MapStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows


def environment():
    made = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local"})
    )
    return made.set_parallelism(2)


def test_streams_tell_operator_dealing_parallelism_and_type():
    env = environment()
    numbers = env.from_collection([1], Types.LONG()).name("numbers")
    mapped = numbers.map(str, Types.STRING()).name("texts")
    keyed = mapped.key_by(lambda text: text)
    late = mapped.get_side_output(OutputTag("late"))
    assert repr(numbers) == 'DataStream("numbers", parallelism=1, LONG)'
    assert repr(mapped) == 'DataStream("texts", parallelism=2, STRING)'
    assert repr(keyed) == 'KeyedStream("texts" HASH, parallelism=2, STRING)'
    assert repr(late) == 'DataStream("texts" side output "late", parallelism=2)'
    assert (
        repr(mapped.rebalance().union(late)) == 'DataStream("texts" REBALANCE + "texts" side output "late")'
    )
    assert repr(mapped.print()) == 'DataStreamSink("Print to Std. Out", parallelism=2)'
    windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    assert repr(windowed) == f"WindowedStream({keyed!r}, TumblingEventTimeWindows)"
    assert repr(numbers.connect(mapped)) == f"ConnectedStreams({numbers!r}, {mapped!r})"
    assert repr(numbers.join(mapped)) == f"JoinedStreams({numbers!r}, {mapped!r})"
    assert repr(keyed.interval_join(keyed)) == f"IntervalJoin({keyed!r}, {keyed!r})"
    rules = mapped.broadcast(MapStateDescriptor("rules", Types.STRING(), Types.STRING()))
    assert (
        repr(rules) == 'BroadcastStream(DataStream("texts" BROADCAST, parallelism=2, STRING), state "rules")'
    )
    assert repr(numbers.connect(rules)) == f"BroadcastConnectedStream({numbers!r}, {rules!r})"


def test_environments_tell_what_would_run():
    env = environment()
    env.from_collection([1]).print()
    assert repr(env) == "StreamExecutionEnvironment(parallelism=2, target=local, 2 operators built)"


def test_results_tell_how_far_they_are():
    with environment().from_collection([1, 2, 3]).execute_and_collect() as results:
        next(results)
        assert repr(results).endswith(", 1 records so far, open)")
        assert "<td>1</td><td>open</td>" in results._repr_html_()
        list(results)
        assert repr(results).endswith(", 3 records so far, ended)")


class Counting(MapFunction):
    def open(self, runtime_context):
        self.counter = runtime_context.get_long_counter("<script>alert(1)</script>")

    def map(self, value):
        self.counter.add(1)
        return value


def test_job_results_show_accumulators_escaped():
    env = environment()
    env.from_collection([1, 2]).map(Counting()).print()
    result = env.execute()
    assert "accumulators={'<script>alert(1)</script>': 2}" in repr(result)
    assert "<script>" not in result._repr_html_()
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>2</td>" in result._repr_html_()
    assert repr(JobExecutionResult(JobID("ab" * 16), 5)) == f"JobExecutionResult(job {'ab' * 16}, 5 ms)"


def test_clients_tell_job_and_status():
    env = environment()
    env.from_collection([1]).print()
    client = env.execute_async()
    client.get_job_execution_result().result()
    assert repr(client) == f"JobClient(job {client.get_job_id()}, FINISHED)"


def test_plans_are_json_and_tables_escaped():
    env = environment()
    env.from_collection([1]).map(str).name("<script>alert(1)</script>").key_by(
        lambda text: text
    ).sum().print()
    plan = env.get_execution_plan()
    assert isinstance(plan, str)
    assert json.loads(plan)["nodes"][1]["type"] == "<script>alert(1)</script>"
    shown = plan._repr_html_()
    assert "<script>" not in shown
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>2</td><td>1 REBALANCE</td>" in shown
    assert "2 HASH" in shown
