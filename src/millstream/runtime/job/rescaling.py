"""Another parallelism for a job that runs: what is to change, and whether it can.

::

    asked (any thread) ── plan made anew, or refused ─► checkpoint ─► attempt ends ─► next attempt, new plan
                                                                                         │ first epoch: done
                                                                                         └ fails before: old plan

The job goes on from its own checkpoint, as behind a failure, so that results are as exact as then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millstream.base.errors import JobDefinitionError, JobRequestError
from millstream.graph.epoch_plan import EpochPlan
from millstream.runtime.control.commands import Rescale
from millstream.runtime.job.steering import RescaleRequest

__all__ = ["plan_rescaling"]


def plan_rescaling(
    command: Rescale,
    plan: EpochPlan,
    rescaled: Mapping[str, int],
    build: Callable[[Mapping[str, int]], EpochPlan],
) -> RescaleRequest:
    """Return what a job is to do.

    Args:
        command: What was asked for.
        plan: What runs.
        rescaled: The parallelism of operators by id that earlier commands have changed.
        build: Makes a plan, given all that are changed.

    Raises:
        JobRequestError: If it cannot be done; says why.
    """
    wanted = dict(rescaled)
    _check(command, plan)
    for vertex in plan.job_graph.vertices:
        for node in vertex.nodes:
            parallelism = command.parallelism if node.follows else None
            parallelism = command.vertices.get(vertex.head.operator_id, parallelism)
            if parallelism is not None:
                wanted[node.operator_id] = parallelism
    try:
        new = build(wanted)
    except JobDefinitionError as error:
        raise JobRequestError(
            f"the job cannot be rescaled: {error.message}", detail=error.detail, hint=error.hint
        ) from error
    return RescaleRequest(new, wanted, plan.slots, is_nothing=_parallelism(new) == _parallelism(plan))


def _parallelism(plan: EpochPlan) -> dict[str, int]:
    return {node.operator_id: node.parallelism for vertex in plan.job_graph.vertices for node in vertex.nodes}


def _check(command: Rescale, plan: EpochPlan) -> None:
    vertices = {vertex.head.operator_id: vertex for vertex in plan.job_graph.vertices}
    unknown = sorted(command.vertices.keys() - vertices)
    if unknown:
        raise JobRequestError(
            f"the job has no vertex {unknown[0]}", hint="The job's details list its vertices with their ids."
        )
    for asked in (
        *command.vertices.values(),
        *([] if command.parallelism is None else [command.parallelism]),
    ):
        if asked < 1:
            raise JobRequestError(f"a job cannot have parallelism {asked}", hint="It is 1 at least.")
    if command.parallelism is None and not command.vertices:
        raise JobRequestError("a job was to be rescaled without a parallelism")
    nodes = [node for vertex in vertices.values() for node in vertex.nodes]
    if command.parallelism is not None and not any(node.follows for node in nodes):
        names = ", ".join(f'"{node.name}" ({node.parallelism})' for node in nodes)
        raise JobRequestError(
            "the job cannot be rescaled: each of its operators has a parallelism of its own",
            detail=f"They are {names}.",
            hint="Leave out set_parallelism(...) for those that are to follow the job's parallelism.",
        )
