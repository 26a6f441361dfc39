"""One Spark session for several processes: who owns it hands it over, others attach to it.

::

    owner      open_session ─► hand_over: a file for this user only: port and secret of the JVM's gateway, interpreter
    others     target "session" ─► attach: a SparkContext of their own in Python, over the same context in the JVM

Whoever has the file may do anything in the JVM, so it lies in a private directory. A process that attaches and is
killed leaves the session as it is; its slots and Spark jobs end by themselves. The session ends with its owner.

Spark runs the jobs of all of them at once. With `spark.scheduler.mode=FAIR` each process is a pool with an equal share.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from millstream.base.errors import SessionLostError
from millstream.files.durable import write_file
from millstream.files.private_files import open_own
from millstream.runtime.spark.jvm import environ, import_pyspark

__all__ = ["SESSION_VARIABLE", "AttachedContext", "attach", "hand_over", "join_pool"]

SESSION_VARIABLE = "MILLSTREAM_SESSION"
"""Environment variable: the file of the session that jobs with the target "session" run in."""


class AttachedContext(SparkContext):
    """Spark's context as a process sees it that did not open it: stopping it leaves the session to the others."""

    def stop(self) -> None:
        """Use the session no more."""
        self._jsc = None
        if self._accumulatorServer is not None:
            self._accumulatorServer.shutdown()
            self._accumulatorServer = None  # type: ignore[assignment]
        with SparkContext._lock:
            SparkContext._active_spark_context = None


def hand_over(context: SparkContext, path: str | Path) -> None:
    """Write the file with which other processes of this user attach to a session.

    Args:
        context: Of the session.
        path: In a directory that nobody else can enter.

    Raises:
        OSError: If it cannot be written.
    """
    parameters = context._gateway.gateway_parameters  # type: ignore[union-attr]
    document = {
        "port": parameters.port,
        "secret": parameters.auth_token,
        "python": context.pythonExec,
        "master": context.master,
    }
    write_file(str(path), json.dumps(document).encode())
    os.chmod(path, 0o600)


def attach(path: str | Path) -> SparkContext:
    """Return Spark's context of a session that another process has handed over; it is this process's active one then.

    Called on the driver, at most once at a time.

    Raises:
        SessionLostError: If the session has ended.
    """
    try:
        with open_own(path) as file:
            document: dict[str, Any] = json.load(file)
    except FileNotFoundError as error:
        raise _lost(path) from error
    import_pyspark()
    variables = {"PYSPARK_GATEWAY_PORT": str(document["port"]), "PYSPARK_GATEWAY_SECRET": document["secret"]}
    try:
        with environ(variables):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        # The active one. Without one this raises: nothing says what master a new one should have.
        context = getattr(gateway.jvm, "org.apache.spark.SparkContext").getOrCreate()
        java_context = gateway.jvm.JavaSparkContext(context)
        conf = SparkConf(_jconf=java_context.sc().conf())
        with environ({"PYSPARK_PYTHON": document["python"]}):
            return AttachedContext(gateway=gateway, jsc=java_context, conf=conf)
    except (OSError, Py4JError) as error:
        raise _lost(path) from error


def join_pool(context: SparkContext) -> None:
    """Have the jobs that this thread submits share the session fairly with those of other processes."""
    if isinstance(context, AttachedContext):
        context.setLocalProperty("spark.scheduler.pool", f"process-{os.getpid()}")


def _lost(path: str | Path) -> SessionLostError:
    return SessionLostError(
        f'the Spark session at "{path}" has ended',
        detail="It belongs to a cluster, which opens another one.",
        hint="Start the job again, with --recover to go on with it; `millstream cluster status` shows the cluster.",
    )
