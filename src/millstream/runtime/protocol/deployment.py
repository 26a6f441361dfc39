"""What travels to the slots once for each attempt: the plan with the user's functions, and facts about the job."""

from __future__ import annotations

import io
import pickle
import platform
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle

from millstream.base.errors import InterpreterError, JobDefinitionError, NotSerializableError, SourceError
from millstream.base.pickling import dump_by_value
from millstream.files.file_systems import FileSystemSettings
from millstream.files.scratch import for_this_machine
from millstream.graph.epoch_plan import EpochPlan
from millstream.operators.combining import CombineMode
from millstream.operators.latency import LatencySettings
from millstream.runtime.program.dependencies import Dependencies
from millstream.runtime.program.main_module import MainModule, dump_program, load_program
from millstream.runtime.protocol.orders import RestoreOrder
from millstream.state.backends import KeyedStateSettings

__all__ = [
    "Deployment",
    "dump_deployment",
    "load_dependencies",
    "load_deployment",
    "load_deployment_and_main",
]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One attempt of a job.

    Attributes:
        job_id: 32 hexadecimal digits.
        attempt: Number of the attempt, from 0.
        plan: What runs.
        job_parameters: Global job parameters.
        now_ms: Processing time of the start, epoch milliseconds.
        batch: Whether results are emitted once, at the end of a bounded input.
        dependencies: Files of the job; on the driver only, slots get them by `load_dependencies`.
        cached_files: Path of each file of the distributed cache, by name; in slots only.
        keyed_state: Where keyed state lives.
        restore: The checkpoint to begin from; None begins anew.
        file_systems: How to reach where checkpoints are.
        checkpoint_directory: Where checkpoints are kept; None if no directory was named.
        generation: Tells drivers of the same job apart, larger for later ones; 0 for the one that began it.
        combine: When records are put together before they are sent.
        name: Of the job, for users.
        latency: How latency is measured; None if it is not.
    """

    job_id: str
    attempt: int
    plan: EpochPlan
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    now_ms: int = 0
    batch: bool = False
    dependencies: Dependencies = field(default_factory=Dependencies)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    keyed_state: KeyedStateSettings = field(default_factory=KeyedStateSettings)
    restore: RestoreOrder | None = None
    file_systems: FileSystemSettings = field(default_factory=FileSystemSettings)
    checkpoint_directory: str | None = None
    generation: int = 0
    combine: CombineMode = CombineMode.AUTO
    name: str = "millstream"
    latency: LatencySettings | None = None


def dump_deployment(deployment: Deployment, *, on_this_machine: bool = False) -> bytes:
    """Pickle a deployment for the slots: first its dependencies, which must be there to unpickle the rest.

    Args:
        deployment: The deployment.
        on_this_machine: Whether all slots are on this machine, and need not be sent what is in a temporary file here.

    Raises:
        NotSerializableError: If a user's function cannot be pickled; names operator and reason.
        JobDefinitionError: If a module that is being imported runs the job, and the job needs it.
        SourceError: If what a source has in a temporary file is gone.
    """
    try:
        rest = replace(deployment, dependencies=Dependencies())
        with for_this_machine() if on_this_machine else nullcontext():
            program = dump_program(rest)
        return pickle.dumps(deployment.dependencies, protocol=5) + program
    except (JobDefinitionError, SourceError):
        raise
    except Exception as error:
        raise _not_serializable(deployment, error) from error


def load_dependencies(payload: bytes) -> Dependencies:
    """Unpickle a deployment's dependencies only."""
    dependencies: Dependencies = pickle.loads(payload)
    return dependencies


def load_deployment(payload: bytes, cached_files: Mapping[str, str] | None = None) -> Deployment:
    """Unpickle a deployment.

    Args:
        payload: What `dump_deployment` gave.
        cached_files: Where the files of the distributed cache lie in this slot, by name.
    """
    return load_deployment_and_main(payload, cached_files)[0]


def load_deployment_and_main(
    payload: bytes, cached_files: Mapping[str, str] | None = None
) -> tuple[Deployment, MainModule]:
    """Unpickle a deployment, and what a slot's main module is to have; arguments as of `load_deployment`."""
    stream = io.BytesIO(payload)
    pickle.load(stream)
    try:
        deployment, main = load_program(pickle.Unpickler(stream))
    except (ImportError, AttributeError) as error:
        raise _not_here(error) from error
    return replace(deployment, cached_files=cached_files or {}), main


def _not_here(error: Exception) -> InterpreterError:
    versions = f"Here are Python {platform.python_version()} and cloudpickle {cloudpickle.__version__}"
    name = getattr(error, "name", None)
    if isinstance(error, ModuleNotFoundError) and name is not None:
        return InterpreterError(
            f'module "{name}", which the job\'s functions use, is not in {sys.executable}',
            detail=f"Functions of other modules than the program itself travel by name. {versions}.",
            hint="Send it along with add_python_file(...) or set_python_requirements(...), or install it there.",
        )
    return InterpreterError(
        f"the job cannot be unpickled in {sys.executable}: {type(error).__name__}: {error}",
        detail=f"{versions}.",
        hint="Have the same packages, in the same versions, where the program runs and where its functions do.",
    )


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
        dump_by_value(spec)
    except Exception as error:  # noqa: BLE001 - any object may refuse to be pickled in any way
        return f"{type(error).__name__}: {error}"
    return None
