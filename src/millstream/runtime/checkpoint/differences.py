"""Says how a program differs from the one that made a checkpoint, by what its operators do.

Operators of queries have ids that follow from what they and all below them do. One whose own text is the same on both
sides, but not its id, is therefore unchanged itself: the change is below it, and is told instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from millstream.graph.job_graph import JobGraph
from millstream.runtime.checkpoint.manifest import OperatorEntry

__all__ = ["describe_changes"]

_SHOWN = 3
_LENGTH = 300


def describe_changes(before: Sequence[OperatorEntry], job_graph: JobGraph, lost: OperatorEntry) -> str:
    """Return what has changed, in a sentence or more.

    Args:
        before: Operators of the checkpoint.
        job_graph: The program's job.
        lost: An operator of the checkpoint that the program has not.
    """
    assert lost.description is not None, "whoever made the checkpoint told what its operators do"
    nodes = [node for vertex in job_graph.vertices for node in vertex.nodes]
    kept = {node.operator_id for node in nodes} & {entry.operator_id for entry in before}
    old = Counter(each.description for each in before if each.operator_id not in kept and each.description)
    new = Counter(each.description for each in nodes if each.operator_id not in kept and each.description)
    gone, come = old - new, new - old
    parts = [f"It was {_text(lost.description)}."]
    if lost.description in new:
        parts = [f"It was {_text(lost.description)}, and still is, but over other rows."]
    elif not new:
        return f"{parts[0]} No operator has taken its place."
    for what, texts in (("Of the checkpoint are gone", gone), ("New in the program are", come)):
        others = [each for each in texts if each != lost.description]
        if others:
            parts.append(f"{what}: {_list(others)}.")
    return " ".join(parts)


def _list(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return "; ".join([*map(_text, texts[:_SHOWN]), *more])


def _text(description: str) -> str:
    return description if len(description) <= _LENGTH else f"{description[:_LENGTH]} …"
