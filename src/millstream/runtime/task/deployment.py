"""What travels to the slots once for each attempt: the plan with the user's functions, and facts about the job."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from millstream.common.errors import NotSerializableError
from millstream.graph.epoch_plan import EpochPlan

__all__ = ["Deployment", "dump_deployment", "load_deployment"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One attempt of a job.

    Attributes:
        job_id: 32 hexadecimal digits.
        attempt: Number of the attempt, from 0.
        plan: What runs.
        job_parameters: Global job parameters.
        now_ms: Processing time of the start, epoch milliseconds.
    """

    job_id: str
    attempt: int
    plan: EpochPlan
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    now_ms: int = 0


def dump_deployment(deployment: Deployment) -> bytes:
    """Pickle a deployment for the slots.

    Raises:
        NotSerializableError: If a user's function cannot be pickled; names operator and reason.
    """
    try:
        return bytes(cloudpickle.dumps(deployment, protocol=5))
    except Exception as error:
        raise _not_serializable(deployment, error) from error


def load_deployment(payload: bytes) -> Deployment:
    """Unpickle a deployment."""
    deployment: Deployment = pickle.loads(payload)
    return deployment


def _not_serializable(deployment: Deployment, error: Exception) -> NotSerializableError:
    for vertex in deployment.plan.job_graph.vertices:
        for node in vertex.nodes:
            reason = _why_not(node.spec)
            if reason is not None:
                return NotSerializableError(
                    f'the function of operator "{node.name}" cannot be pickled: {reason}',
                    detail="Functions travel to the processes that run them, with all they refer to.",
                    hint="Make connections, locks and files in open(), not in the constructor or a closure.",
                )
    return NotSerializableError(f"the job cannot be pickled: {error}")


def _why_not(spec: Any) -> str | None:
    try:
        cloudpickle.dumps(spec, protocol=5)
    except Exception as error:  # noqa: BLE001 - any object may refuse to be pickled in any way
        return f"{type(error).__name__}: {error}"
    return None
