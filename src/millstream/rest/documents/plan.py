"""A job's graph, as Flink draws it."""

from __future__ import annotations

from html import escape
from typing import Any

from msgspec import UNSET, UnsetType

from millstream.base.ids import new_id
from millstream.rest.documents.base import Document
from millstream.runtime.control.views import EdgeView, JobView, PlannedJobView, PlanView, VertexPlan

__all__ = ["Plan", "PlanDocument", "plan_document", "plan_of", "plan_of_planned"]


class PlanInput(Document, frozen=True, kw_only=True):
    """What a vertex reads."""

    num: int
    id: str
    ship_strategy: str
    exchange: str


class PlanNode(Document, frozen=True, kw_only=True):
    """A vertex."""

    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    optimizer_properties: dict[str, Any]
    inputs: list[PlanInput] | UnsetType = UNSET


class Plan(Document, frozen=True, kw_only=True):
    """A graph."""

    jid: str
    name: str
    type: str
    nodes: list[PlanNode]


class PlanDocument(Document, frozen=True, kw_only=True):
    """`/jobs/:jobid/plan`."""

    plan: Plan


def plan_document(job: JobView) -> PlanDocument:
    """Return a job's graph."""
    return PlanDocument(plan=plan_of(job))


def plan_of(job: JobView) -> Plan:
    """Return a job's graph, the sinks first, as in Flink."""
    return _plan(job.job_id, job.name, job.job_type, job.plan)


def plan_of_planned(job: PlannedJobView) -> Plan:
    """Return the graph of a job that was not run; its id is made up, as in Flink."""
    return _plan(new_id(), job.name, job.job_type, job.plan)


def _plan(job_id: str, name: str, job_type: str, plan: PlanView) -> Plan:
    exchange = "blocking" if job_type == "BATCH" else "pipelined_bounded"
    nodes = [
        _node(vertex, [edge for edge in plan.edges if edge.target == vertex.vertex_id], exchange)
        for vertex in reversed(plan.vertices)
    ]
    return Plan(jid=job_id, name=name, type=job_type, nodes=nodes)


def _node(vertex: VertexPlan, edges: list[EdgeView], exchange: str) -> PlanNode:
    inputs = [
        PlanInput(num=number, id=edge.source, ship_strategy=edge.ship_strategy, exchange=exchange)
        for number, edge in enumerate(edges)
    ]
    return PlanNode(
        id=vertex.vertex_id,
        parallelism=vertex.parallelism,
        operator="",
        operator_strategy="",
        description=_describe(vertex),
        optimizer_properties={},
        inputs=inputs or UNSET,
    )


def _describe(vertex: VertexPlan) -> str:
    """Return the operators' descriptions, one a line, as HTML: names are the user's, so they are escaped."""
    lines = [escape(operator.description).replace("\n", "<br/>") for operator in vertex.operators]
    return "<br/>".join(("+- " if index else "") + line for index, line in enumerate(lines))
