"""Rebuilds logical nodes with other inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from millstream.table.plan.logical import LogicalNode, ProcessTable, SetOperation

__all__ = ["map_children", "with_inputs"]


def with_inputs(node: LogicalNode, inputs: tuple[LogicalNode, ...]) -> LogicalNode:
    """Return a node over other inputs, of the same schemas."""
    if inputs == node.inputs:
        return node
    if isinstance(node, (SetOperation, ProcessTable)):
        return replace(node, relations=inputs)
    names = [name for name in ("input", "left", "right") if hasattr(node, name)]
    changes: dict[str, Any] = dict(zip(names, inputs, strict=True))
    return replace(node, **changes)


def map_children(node: LogicalNode, change: Callable[[LogicalNode], LogicalNode]) -> LogicalNode:
    """Return a node whose inputs are changed."""
    return with_inputs(node, tuple(map(change, node.inputs)))
