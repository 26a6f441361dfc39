"""Whether a Spark session is still there: nobody has stopped it, and its JVM lives, in which is all that Spark knows.

A session that millstream has opened is opened anew for the next attempt, JVM and all. One that was given is not ours to
replace: the job ends, and says so.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from millstream.base.errors import MillstreamError, SessionLostError, SlotLostError

__all__ = ["is_alive", "is_stopped", "session_lost", "session_stopped"]


def is_alive(context: SparkContext) -> bool:
    """Return whether a context's JVM answers."""
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False
    jvm = context._jvm
    if jvm is None or context._jsc is None:
        return False
    try:
        jvm.java.lang.System.currentTimeMillis()
    except (OSError, Py4JError):
        return False
    return True


def is_stopped(context: SparkContext) -> bool:
    """Return whether somebody has stopped a context, or is about to; its JVM may live on."""
    java: Any = context._jsc  # None as soon as it is stopped
    try:
        return java is None or bool(java.sc().isStopped())
    except (OSError, Py4JError):
        return False  # the JVM is gone


def session_stopped(*, owned: bool) -> MillstreamError:
    """Return what to raise when the program has stopped the session.

    Args:
        owned: Whether millstream opened the session.
    """
    what, hint = (
        "Spark's context was stopped while the job ran",
        "Stop it when the job has ended, or cancel the job.",
    )
    return SlotLostError(what, hint=hint) if owned else SessionLostError(what, hint=hint)


def session_lost(*, owned: bool) -> MillstreamError:
    """Return what to raise when the JVM is gone.

    Args:
        owned: Whether millstream opened the session.
    """
    if owned:
        return SlotLostError(
            "the JVM of Spark's driver has ended, and the slots with it",
            hint="Another is started for the next attempt. If it ended for lack of memory, give it more: "
            "spark.driver.memory.",
        )
    return SessionLostError(
        "the JVM of the Spark session that the program opened has ended",
        detail="millstream uses such a session as it is, and cannot open it again.",
        hint="Start the program anew; with high-availability.storageDir, --recover goes on from the last checkpoint.",
    )
