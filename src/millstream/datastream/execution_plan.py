"""A job's plan: the text that Flink's visualizer reads, shown by notebooks as a table."""

from __future__ import annotations

import json

from millstream.base.html import html_table

__all__ = ["ExecutionPlan"]


class ExecutionPlan(str):
    """The plan as JSON; a text like any other, but in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        nodes = json.loads(self)["nodes"]
        rows = [
            (
                node["id"],
                node["contents"],
                node["parallelism"],
                ", ".join(f"{each['id']} {each['ship_strategy']}" for each in node.get("predecessors", ())),
            )
            for node in nodes
        ]
        return html_table(f"{len(nodes)} operators", ("id", "operator", "parallelism", "reads"), rows)
