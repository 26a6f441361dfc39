"""Flink's options that have nothing to act on here, and why: what a program or a command line is told that sets one.

Known by the beginnings of their keys, the longest first.
"""

from __future__ import annotations

from typing import Final

__all__ = ["why_without_effect"]

_NO_CLUSTER = "there is no cluster of Flink"
_NO_JVM = "no code of a job runs in a JVM"
_SPARK_DEPLOYS = "Spark runs the job where execution.target says"
_NO_LOCAL_RECOVERY = "state is always read back from the checkpoint storage"
_FILE_LAYOUT = "each slot writes one file for a checkpoint"
_UNKNOWN = "millstream has no such option"

_REASONS: Final = {
    "taskmanager.": "slots run beside Spark's executors: spark.executor.memory, spark.executor.cores",
    "taskmanager.state.local.": _NO_LOCAL_RECOVERY,
    "jobmanager.": "the driver is Spark's: spark.driver.memory",
    "akka.": _NO_CLUSTER,
    "pekko.": _NO_CLUSTER,
    "blob.": _NO_CLUSTER,
    "cluster.": _NO_CLUSTER,
    "heartbeat.": _NO_CLUSTER,
    "historyserver.": _NO_CLUSTER,
    "queryable-state.": "millstream query asks a running job for any state",
    "rest.": "the server has no such setting; docs/rest.md lists those that it has",
    "web.": _NO_CLUSTER,
    "classloader.": _NO_JVM,
    "env.": _NO_JVM,
    "kubernetes.": _SPARK_DEPLOYS,
    "yarn.": _SPARK_DEPLOYS,
    "high-availability": "a lost driver is recovered through high-availability.storageDir, without ZooKeeper",
    "recovery.": "a lost driver is recovered through high-availability.storageDir, without ZooKeeper",
    "execution.": _UNKNOWN,
    "execution.checkpointing.approximate-local-recovery": _NO_LOCAL_RECOVERY,
    "execution.checkpointing.file-merging.": _FILE_LAYOUT,
    "execution.checkpointing.local-backup.": _NO_LOCAL_RECOVERY,
    "execution.checkpointing.unaligned.": "nothing is in flight between two epochs",
    "execution.state-recovery.approximate-local-recovery": _NO_LOCAL_RECOVERY,
    "execution.state-recovery.from-local": _NO_LOCAL_RECOVERY,
    "job-result-store.": _UNKNOWN,
    "parallelism.": _UNKNOWN,
    "pipeline.": _UNKNOWN,
    "pipeline.force-": "records are pickled",
    "pipeline.generic-types": "records are pickled",
    "pipeline.serialization-config": "records are pickled",
    "python.": _UNKNOWN,
    "restart-strategy.": _UNKNOWN,
    "state.": _UNKNOWN,
    "state.backend.changelog.": "checkpoints are made of what changed anyway",
    "state.backend.local-recovery": _NO_LOCAL_RECOVERY,
    "state.backend.fs.": _FILE_LAYOUT,
    "state.backend.rocksdb.": "the backend on disk has another engine",
    "state.changelog.": "checkpoints are made of what changed anyway",
    "state.storage.fs.": _FILE_LAYOUT,
}
_LONGEST_FIRST: Final = sorted(_REASONS, key=len, reverse=True)


def why_without_effect(key: str) -> str | None:
    """Return why a key of Flink that is no option of millstream has no effect; None if it may be a user's own.

    >>> why_without_effect("taskmanager.memory.process.size")
    "slots run beside Spark's executors: spark.executor.memory, spark.executor.cores"
    """
    beginning = next((each for each in _LONGEST_FIRST if key.startswith(each)), None)
    return None if beginning is None else _REASONS[beginning]
