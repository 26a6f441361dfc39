"""What waits at the input of a subtask goes into checkpoints, and comes back: Flink's in-flight data.

With the same parallelism everything goes on exactly where it was, watermarks included. At another parallelism, or
where the graph is cut otherwise, the records go to the subtasks that now own them, in their order, and are processed
before anything new; watermarks between them are left out, for channels of several old subtasks are put together: none
of the records is taken for late that was not.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from millstream.base.errors import StateIncompatibleError
from millstream.graph.job_graph import JobGraph, JobVertex
from millstream.graph.stream_graph import StreamEdge, StreamNode
from millstream.operators.partitioners import KeyGroups
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileWriter
from millstream.runtime.task.channels import ChannelId, ChannelMerger
from millstream.runtime.task.checkpoint import SavedState
from millstream.spi.batch import Batch, Columns, Element, Rows
from millstream.state.key_groups import key_group, subtask_of
from millstream.types.arrow_records import int64_array

__all__ = ["Recovered", "add_held_input", "restore_held_input"]


class _EdgeName(NamedTuple):
    """What tells an edge of a node from its others, in any program."""

    source: str
    side_output: str | None
    input_index: int
    occurrence: int


class Recovered(NamedTuple):
    """Records that an operator in the middle of a chain has to process before anything else."""

    node_id: int
    batch: Batch


def add_held_input(
    writer: StateFileWriter, job_graph: JobGraph, vertex: JobVertex, merger: ChannelMerger
) -> None:
    """Add what waits in the channels of a subtask to its slot's file; nothing if nothing does.

    Raises:
        NotSerializableError: If a record cannot be pickled.
    """
    time, pending = merger.snapshot()
    if not pending:
        return
    names = _names(job_graph, vertex)

    def named(channels: dict[ChannelId, Any]) -> dict[tuple[_EdgeName, int], Any]:
        return {(names[channel.edge_id], channel.sender): held for channel, held in channels.items()}

    combined, watermarks, inputs = time
    saved_inputs = [
        (
            mark,
            named(marks),
            {(names[each.edge_id], each.sender) for each in idle},
            {(names[each.edge_id], each.sender) for each in behind},
        )
        for mark, marks, idle, behind in inputs
    ]
    content = ((combined, named(watermarks), saved_inputs), named(pending))
    writer.add(vertex.head.operator_id, ChunkKind.INPUT, content)


def restore_held_input(
    saved: SavedState, job_graph: JobGraph, vertex: JobVertex, index: int, merger: ChannelMerger | None
) -> list[Recovered]:
    """Have a subtask go on with what waited; return what is for operators that are no heads of chains now.

    Raises:
        StateIncompatibleError: If records waited between two operators that are not connected any more.
    """
    recovered: list[Recovered] = []
    for node in vertex.nodes:
        held = {
            slot: content
            for slot, chain in sorted(saved.slots.items())
            for _, content in chain.read(node.operator_id, ChunkKind.INPUT)
        }
        if not held:
            continue
        if node.id == vertex.head.id and merger is not None:
            same = saved.order.parallelism.get(node.operator_id) == node.parallelism
            names = {name: edge_id for edge_id, name in _names(job_graph, vertex).items()}
            if not (same and _restore_exactly(held.get(index), names, merger)):
                for edge_id, batch in _mine(held, job_graph, node, index):
                    merger.put(ChannelId(edge_id, _any_sender(job_graph, edge_id, index)), [batch])
        else:
            recovered += [Recovered(node.id, batch) for _, batch in _mine(held, job_graph, node, index)]
    return recovered


def _restore_exactly(content: Any, edge_ids: dict[_EdgeName, int], merger: ChannelMerger) -> bool:
    """Go on exactly where it was, if the channels are the same; nothing is to be done if nothing waited here."""
    if content is None:
        return True
    (combined, watermarks, inputs), pending = content
    if {name for name, _ in watermarks} != set(edge_ids):
        return False

    def channel(of: tuple[_EdgeName, int]) -> ChannelId:
        return ChannelId(edge_ids[of[0]], of[1])

    marks = {channel(of): mark for of, mark in watermarks.items()}
    if marks.keys() != merger.channels:
        return False
    saved_inputs = [
        (
            mark,
            {channel(of): each for of, each in held.items()},
            set(map(channel, idle)),
            set(map(channel, behind)),
        )
        for mark, held, idle, behind in inputs
    ]
    merger.restore_channels(
        (combined, marks, saved_inputs), {channel(of): elements for of, elements in pending.items()}
    )
    return True


def _mine(held: dict[int, Any], job_graph: JobGraph, node: StreamNode, index: int) -> list[tuple[int, Batch]]:
    """Return the records of all old subtasks that are for one new one, with the edge that they come by now."""
    vertex = next(vertex for vertex in job_graph.vertices if any(each.id == node.id for each in vertex.nodes))
    names = _names(job_graph, vertex)
    edges = {
        names[edge.id]: edge for edge in job_graph.edges if edge.edge.target == node.id and edge.id in names
    }
    chained = {edge.target for edge in vertex.chained}
    mine: list[tuple[int, Batch]] = []
    for old, (_, pending) in held.items():
        for (name, _), elements in pending.items():
            edge = edges.get(name)
            if edge is None and node.id not in chained:
                raise StateIncompatibleError(
                    f'the checkpoint holds records on their way to operator "{node.name}" by an edge that is not '
                    "in the program",
                    detail=f"They come from the operator with id {name.source}.",
                    hint="Stop the former program with a savepoint when it has no backlog, or with --drain.",
                )
            for batch in _batches(elements):
                part = _part(batch, None if edge is None else edge.edge, node, old, index)
                if len(part):
                    mine.append((-1 if edge is None else edge.id, part))
    return mine


def _part(batch: Batch, edge: StreamEdge | None, node: StreamNode, old: int, index: int) -> Batch:
    """Return what of a batch that waited at an old subtask is for a new one."""
    partitioning = None if edge is None else edge.partitioning
    if isinstance(partitioning, KeyGroups):
        rows = batch.to_rows()
        most, parallelism, select = node.max_parallelism, node.parallelism, partitioning.key_selector
        places = [
            place
            for place, value in enumerate(rows.values)
            if subtask_of(key_group(select(value), most), most, parallelism) == index
        ]
        if isinstance(batch, Columns):
            return batch.take(int64_array(places))
        stamps = rows.timestamps
        return Rows(
            [rows.values[place] for place in places],
            None if stamps is None else [stamps[place] for place in places],
        )
    return batch if old % node.parallelism == index else Rows([])


def _batches(elements: list[Element]) -> list[Batch]:
    """Return the records of a channel, without the watermarks between them."""
    return [element.unmarked() for element in elements if isinstance(element, (Rows, Columns))]


def _any_sender(job_graph: JobGraph, edge_id: int, index: int) -> int:
    """Return a sender of an edge whose channel leads to a subtask."""
    edge = next(edge for edge in job_graph.edges if edge.id == edge_id)
    targets = edge.edge.partitioning.targets
    return next(
        sender for sender in range(edge.senders) if index in targets(sender, edge.senders, edge.receivers)
    )


def _names(job_graph: JobGraph, vertex: JobVertex) -> dict[int, _EdgeName]:
    """Name the edges into a vertex."""
    nodes = {node.id: node for each in job_graph.vertices for node in each.nodes}
    seen: Counter[tuple[str, str | None, int]] = Counter()
    names = {}
    for edge in job_graph.edges:
        if edge.target_vertex == vertex.id:
            of = (nodes[edge.edge.source].operator_id, edge.edge.side_output, edge.edge.input_index)
            names[edge.id] = _EdgeName(*of, seen[of])
            seen[of] += 1
    return names
