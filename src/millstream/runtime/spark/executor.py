"""The Spark executor: slots beside Spark's executors, one Spark job for each epoch.

An epoch's job is a chain of stages, one for each level, with a shuffle between two::

    anchor ─► shuttle(0) ─► partitionBy(slot) ─► shuttle(1) ─► … ─► collect: one report for each slot
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import NoOpSerializer

from millstream.common import options
from millstream.common.configuration import Configuration
from millstream.common.errors import MillstreamError, SlotLostError
from millstream.runtime.job.executor import Executor
from millstream.runtime.job.queryable import SlotQuestion
from millstream.runtime.slot.process import host_name
from millstream.runtime.slot.wire import Answer, Request, SlotAddress, ask
from millstream.runtime.slot.workspace import workspace_name
from millstream.runtime.spark.cancel import CancelWatch
from millstream.runtime.spark.session import SessionConfig, SessionHandle, shared_session
from millstream.runtime.spark.shuttle import LevelShuttle, SlotStarter
from millstream.runtime.task.deployment import Deployment, dump_deployment
from millstream.runtime.task.report import EpochHeader, LogLine, SlotReport

__all__ = ["SparkExecutor"]

_log = logging.getLogger(__name__)
_ABORT_S = 5.0


class SparkExecutor(Executor):
    """Runs an attempt on Spark; the job master's thread calls it.

    Args:
        configuration: All options; keys that begin with `spark.` go to Spark.
        on_logs: Takes what user code printed and logged outside of epochs.
    """

    def __init__(self, configuration: Configuration, on_logs: Callable[[Sequence[LogLine]], None]) -> None:
        self._configuration = configuration
        self._on_logs = on_logs
        self._timeout_s = configuration.get(options.SLOT_TIMEOUT) / 1000
        self._lease_s = configuration.get(options.SLOT_LEASE) / 1000
        self._secret = secrets.token_bytes(32)
        self._addresses: dict[int, SlotAddress] = {}
        self._handle: SessionHandle | None = None
        self._broadcast: Any = None
        self._watch: CancelWatch | None = None

    def deploy(self, deployment: Deployment) -> None:
        """Start the slots by a Spark job, then have all of them open their operators."""
        payload = dump_deployment(deployment)
        self._levels = len(deployment.plan.levels)
        self._slots = deployment.plan.slots
        self._handle = shared_session(self._session_config())
        context = self._handle.context
        self._broadcast = context.broadcast(payload)
        self._anchor = context.parallelize(range(self._slots), self._slots)
        starter = SlotStarter(
            self._broadcast,
            deployment.attempt,
            self._secret,
            self._lease_s,
            tcp=not str(context.master).startswith("local"),
            python_path=tuple(_user_path()),
            workspace=workspace_name(deployment.job_id, deployment.attempt),
            python_version=sys.version_info[:2],
        )
        found = [pickle.loads(raw) for raw in self._collect(self._anchor.mapPartitionsWithIndex(starter))]
        self._addresses = {one.slot: one for one in found if isinstance(one, SlotAddress)}
        for failure in found:
            if isinstance(failure, MillstreamError):
                raise failure
        self._begin_watch()
        self._ask_all(Request("open"))

    def run_epoch(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        """Run one Spark job."""
        rdd: RDD[Any] = self._anchor
        for level in range(self._levels):
            if level:
                rdd = self._exchange(rdd)
            rdd = rdd.mapPartitionsWithIndex(
                LevelShuttle(
                    level,
                    level == self._levels - 1,
                    headers,
                    self._addresses,
                    self._secret,
                    self._timeout_s,
                )
            )
        try:
            frames = self._collect(rdd)
        finally:
            if self._levels > 1:
                rdd._jrdd.rdd().cleanShuffleDependencies(False)
        reports = [pickle.loads(frame[1:]) for frame in frames if frame[:1] == b"R"]
        failures = [pickle.loads(frame[1:]) for frame in frames if frame[:1] == b"E"]
        if failures:
            error, logs = failures[0]
            for report in reports:
                self._on_logs(report.logs)
            self._on_logs(logs)
            raise error
        return reports

    def finish(self) -> None:
        """Close the operators and end the slots."""
        try:
            self._ask_all(Request("close"))
        finally:
            self._end_watch()
            self._addresses = {}

    def abort(self) -> None:
        """Have slots remove what they staged and end; kill those that do not answer."""
        self._end_watch()
        addresses, self._addresses = self._addresses, {}
        for address in addresses.values():
            try:
                answer = self._ask(address, Request("abort"), timeout_s=_ABORT_S)
                self._on_logs(answer.logs)
                if answer.error is not None:
                    _log.warning(
                        "another error while slot %d of a failed attempt was ended: %s",
                        address.slot,
                        answer.error,
                    )
            except SlotLostError:
                self._kill(address)

    def keep_alive(self) -> None:
        """Ping every slot.

        Raises:
            SlotLostError: If one is gone.
        """
        for address in self._addresses.values():
            self._ask(address, Request("ping"), timeout_s=self._timeout_s)

    def query(self, slot: int, question: SlotQuestion) -> bytes:
        """Ask a slot."""
        answer = self._ask(
            self._addresses[slot], Request("query", question=question), timeout_s=self._timeout_s
        )
        self._on_logs(answer.logs)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def release(self) -> None:
        """Give back the broadcast; the session stays for the process's next job."""
        broadcast, self._broadcast = self._broadcast, None
        if broadcast is not None:
            try:
                broadcast.destroy()
            except Py4JError:
                _log.debug("the JVM is gone, and the broadcast with it")

    def _session_config(self) -> SessionConfig:
        return SessionConfig(
            master=self._configuration.get(options.TARGET),
            app_name=self._configuration.get(options.PIPELINE_NAME) or "millstream",
            conf=self._configuration.spark_settings(),
            verbose=self._configuration.get(options.VERBOSE),
        )

    def _exchange(self, rdd: RDD[Any]) -> RDD[Any]:
        """Route frames to their slots: what `RDD.partitionBy` does, without pickling frames once more."""
        rdd._bypass_serializer = True  # type: ignore[attr-defined]
        jvm = rdd.ctx._jvm
        assert jvm is not None
        pairs = jvm.PairwiseRDD(rdd._jrdd.rdd()).asJavaPairRDD()
        routed = pairs.partitionBy(jvm.PythonPartitioner(self._slots, 0))
        return RDD(jvm.PythonRDD.valueOfPair(routed), rdd.ctx, NoOpSerializer())

    def _collect(self, rdd: RDD[Any]) -> list[bytes]:
        rdd._bypass_serializer = True  # type: ignore[attr-defined]
        try:
            return rdd.collect()
        except Py4JError as error:
            raise SlotLostError(
                f"Spark could not run an epoch's job: {_first_line(error)}",
                hint="An executor or a Python worker was lost; run with --verbose to see what Spark says.",
            ) from error

    def _ask_all(self, request: Request) -> None:
        """Ask all slots at once; the first error is raised when all have answered."""
        if not self._addresses:
            return
        with ThreadPoolExecutor(len(self._addresses)) as pool:
            answers = list(
                pool.map(
                    lambda address: self._ask(address, request, timeout_s=self._timeout_s),
                    self._addresses.values(),
                )
            )
        for answer in answers:
            self._on_logs(answer.logs)
        for answer in answers:
            if answer.error is not None:
                raise answer.error

    def _ask(self, address: SlotAddress, request: Request, *, timeout_s: float) -> Answer:
        return ask(address, self._secret, request, here=host_name(), timeout_s=timeout_s)

    def _begin_watch(self) -> None:
        self._watch = CancelWatch(
            self._is_cancelled, tell=self._tell_cancelled, kill=self._kill_all, grace_s=self._timeout_s
        )
        self._watch.start()

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()

    def _tell_cancelled(self) -> None:
        for address in tuple(self._addresses.values()):
            try:
                self._ask(address, Request("cancel"), timeout_s=_ABORT_S)
            except SlotLostError:
                _log.debug("slot %d is gone and cannot be told that its job is cancelled", address.slot)

    def _kill_all(self) -> None:
        for address in tuple(self._addresses.values()):
            _log.warning("slot %d has not ended its epoch since the job was cancelled: killed", address.slot)
            self._kill(address)

    def _kill(self, address: SlotAddress) -> None:
        """End a slot that does not answer; one on another host that cannot be reached ends by its lease."""
        if address.host == host_name():
            try:
                os.kill(address.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
        else:
            try:
                self._ask(address, Request("kill"), timeout_s=1.0)
            except SlotLostError:
                _log.info("slot ends by its lease", extra={"slot": address.slot, "host": address.host})


def _user_path() -> list[str]:
    """Return where the driver looks for modules that slots need as well: the script's directory and the like."""
    return [str(Path(entry).resolve()) for entry in sys.path if Path(entry or ".").is_dir()]


def _first_line(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
