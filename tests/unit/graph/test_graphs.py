from __future__ import annotations

from dataclasses import dataclass

import pytest

from millstream.base.errors import JobDefinitionError
from millstream.graph.epoch_plan import build_epoch_plan
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.graph.transformation import ChainingStrategy, Edge, Transformation
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.partitioners import Forward, KeyGroups, Rebalance


@dataclass(frozen=True)
class Spec(OperatorSpec):
    is_source: bool = False
    acts_on_time: bool = True

    def build(self) -> Operator:
        raise NotImplementedError


class Program:
    """Builds transformations by name."""

    def __init__(self, built_before: int = 0) -> None:
        self.built: dict[str, Transformation] = {}
        self.built_before = built_before

    def add(self, name: str, *inputs: str | Edge, acts_on_time=True, **settings) -> Transformation:
        edges = [each if isinstance(each, Edge) else Edge(self.built[each]) for each in inputs]
        self.built[name] = Transformation(
            self.built_before + len(self.built) + 1,
            name,
            Spec(is_source=not inputs, acts_on_time=acts_on_time),
            edges,
            **settings,
        )
        return self.built[name]

    def from_(self, name: str, **settings) -> Edge:
        return Edge(self.built[name], **settings)

    def stream_graph(self, parallelism: int = 2):
        return build_stream_graph(list(self.built.values()), parallelism=parallelism, max_parallelism=8)

    def job_graph(self, parallelism: int = 2, **settings):
        return build_job_graph(self.stream_graph(parallelism), **settings)

    def vertices(self, **settings) -> list[str]:
        return [vertex.name for vertex in self.job_graph(**settings).vertices]

    def levels(self) -> list[list[str]]:
        plan = build_epoch_plan(self.job_graph())
        return [[plan.job_graph.vertex(vertex).name for vertex in level] for level in plan.levels]

    def regions(self) -> list[set[str]]:
        plan = build_epoch_plan(self.job_graph())
        return [{plan.job_graph.vertex(vertex).name for vertex in region} for region in plan.regions]


@pytest.fixture
def program():
    program = Program()
    program.add("source")
    return program


def test_operators_of_equal_parallelism_are_chained(program):
    program.add("map", "source")
    program.add("sink", "map")
    assert program.vertices() == ["source -> map -> sink"]
    assert program.job_graph().edges == ()


def test_fork_is_a_tree_in_one_chain(program):
    for name in ("left", "right"):
        program.add(name, "source")
        program.add(f"{name} sink", name)
    (vertex,) = program.job_graph().vertices
    assert [node.name for node in vertex.nodes] == ["source", "left", "left sink", "right", "right sink"]
    assert [(edge.source, edge.target) for edge in vertex.chained] == [(1, 2), (2, 3), (1, 4), (4, 5)]


@pytest.mark.parametrize(
    ("settings", "chained"),
    [
        ({}, True),
        ({"parallelism": 1}, False),
        ({"slot_sharing_group": "other"}, False),
        ({"chaining": ChainingStrategy.HEAD}, False),
        ({"chaining": ChainingStrategy.NEVER}, False),
    ],
)
def test_what_an_operator_says_decides_whether_it_is_chained_to_its_input(program, settings, chained):
    program.add("map", "source", **settings)
    assert program.vertices() == (["source -> map"] if chained else ["source", "map"])


def test_slot_sharing_group_is_handed_on_to_operators_that_name_none(program):
    program.add("map", "source", slot_sharing_group="g")
    program.add("behind", "map")
    program.add("both", "source", "behind")
    program.add("own", "behind", slot_sharing_group="default")
    groups = {node.name: node.slot_sharing_group for node in program.stream_graph().nodes.values()}
    assert groups == {"source": "default", "map": "g", "behind": "g", "both": "default", "own": "default"}


def test_operator_that_is_never_chained_has_nothing_chained_behind_it_a_head_has(program):
    program.add("never", "source", chaining=ChainingStrategy.NEVER)
    program.add("behind", "never")
    program.add("head", "source", chaining=ChainingStrategy.HEAD)
    program.add("behind head", "head")
    assert program.vertices() == ["source", "never", "head -> behind head", "behind"]


def test_chaining_switched_off_leaves_every_operator_alone(program):
    program.add("map", "source")
    assert program.vertices(chaining=False) == ["source", "map"]


def test_two_inputs_or_a_shuffle_are_not_chained(program):
    program.add("map", "source")
    program.add("union", "source", "map")
    program.add("dealt", program.from_("union", partitioning=Rebalance()))
    assert program.vertices() == ["source -> map", "union", "dealt"]


@pytest.mark.parametrize(
    ("operator", "graph", "chained"),
    [
        ({"acts_on_time": False}, {"parallelism": 1, "keyed": True}, True),
        ({"acts_on_time": True}, {"parallelism": 1, "keyed": True}, False),
        ({"acts_on_time": False}, {"parallelism": 2, "keyed": True}, False),
        ({"acts_on_time": False}, {"parallelism": 1, "keyed": False}, False),
        ({"acts_on_time": False}, {"parallelism": 1, "keyed": True, "chaining": False}, False),
        (
            {"acts_on_time": False, "chaining": ChainingStrategy.HEAD},
            {"parallelism": 1, "keyed": True},
            False,
        ),
    ],
)
def test_a_keyed_operator_that_time_does_not_concern_is_chained_where_there_is_one_subtask(
    program, operator, graph, chained
):
    program.add("keyed", program.from_("source", partitioning=KeyGroups(len)), **operator)
    assert program.vertices(**graph) == (["source -> keyed"] if chained else ["source", "keyed"])


def test_edge_between_different_parallelisms_is_rebalanced_and_knows_both(program):
    program.add("one", "source", parallelism=1)
    graph = program.job_graph()
    (edge,) = graph.edges
    assert (edge.edge.partitioning, edge.senders, edge.receivers) == (Rebalance(), 2, 1)
    assert graph.slots == 2


def test_vertex_is_on_the_level_of_its_longest_path():
    """::

    a ──────────────► join ► sink        level 0: a, b   1: keyed   2: join, other   3: sink
    b ─► keyed ─────►┘
              └─────► other
    """
    program = Program()
    program.add("a")
    program.add("b")
    program.add("keyed", program.from_("b", partitioning=Rebalance()))
    program.add("join", program.from_("a", partitioning=Rebalance()), program.from_("keyed", input_index=1))
    program.add("other", program.from_("keyed", partitioning=Rebalance()))
    program.add("sink", program.from_("join", partitioning=Rebalance()))
    assert program.levels() == [["a", "b"], ["keyed"], ["join", "other"], ["sink"]]


def test_what_exchanges_records_directly_or_not_is_one_region():
    program = Program()
    for name in "abc":
        program.add(name)
    program.add("of a", program.from_("a", partitioning=Rebalance()))
    program.add("of c", program.from_("c", partitioning=Rebalance()))
    program.add("join", program.from_("of c", partitioning=Rebalance()), program.from_("a", input_index=1))
    program.add("of b", program.from_("b", partitioning=Rebalance()))
    assert program.regions() == [{"a", "of a", "c", "of c", "join"}, {"b", "of b"}]


def test_vertices_come_after_those_they_read(program):
    program.add("last", program.from_("source", partitioning=Rebalance()), parallelism=1)
    program.add("second source")
    program.built["last"].inputs.append(program.from_("second source", partitioning=Rebalance()))
    transformations = [program.built[name] for name in ("source", "second source", "last")]
    graph = build_job_graph(build_stream_graph(transformations, parallelism=2, max_parallelism=8))
    assert [vertex.name for vertex in graph.vertices] == ["source", "second source", "last"]


def test_forward_between_different_parallelisms_is_refused(program):
    program.add("map", program.from_("source", partitioning=Forward()), parallelism=1)
    with pytest.raises(JobDefinitionError, match="parallelism 2 to .map. with parallelism 1"):
        program.stream_graph()


def test_parallelism_above_the_number_of_key_groups_is_refused(program):
    program.add("map", "source", parallelism=9)
    with pytest.raises(JobDefinitionError, match="parallelism 9"):
        program.stream_graph()


def test_two_operators_with_one_uid_are_refused(program):
    program.add("first", "source", uid="same")
    program.add("second", "source", uid="same")
    with pytest.raises(JobDefinitionError, match="same uid 'same'"):
        program.stream_graph()


def test_operator_ids_are_those_of_every_earlier_run_and_a_uid_frees_them_of_the_place(program):
    program.add("map", "source", uid="mine")
    moved = Program()
    moved.add("source")
    moved.add("another", "source")
    moved.add("map", "another", uid="mine")
    ids = [
        {node.name: node.operator_id for node in each.stream_graph().nodes.values()}
        for each in (program, moved)
    ]
    assert ids[0]["map"] == ids[1]["map"] == "f20c0068004f17fce89afa59080e6a5d"
    assert ids[0]["source"] == ids[1]["source"]
    assert len(set(ids[1].values())) == 3


def test_an_operator_without_uid_is_named_by_its_place_whatever_was_built_before(program):
    later = Program(built_before=17)  # ids of transformations go on counting in a second job
    later.add("source")
    for each in (program, later):
        each.add("map", "source")
        each.add("twin", "source")
    ids = [
        {node.name: node.operator_id for node in each.stream_graph().nodes.values()}
        for each in (program, later)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0].values())) == 3
