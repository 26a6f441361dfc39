"""The Spark executor: slots beside Spark's executors, one Spark job for each epoch.

An epoch's job is a chain of stages, one for each level, with a shuffle between two::

    anchor ─► shuttle(0) ─► partitionBy(slot) ─► shuttle(1) ─► … ─► collect: one report for each slot

or, while slots send each other little, one task that asks them all, level by level (`carrier.py`).

What Spark loses of it - a task, a Python worker, a shuffle file, an executor's blocks - it runs again, and a slot that
is asked again gives the same bytes. A slot that is lost ends the attempt. Spark would first wait for another executor
in place of a lost one, and for minutes for a host that is silent: so slots are watched (`slot_watch.py`), and Spark is
told to give up the job, and an executor that cannot be reached.
"""

from __future__ import annotations

import logging
import math
import pickle
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, MillstreamError, SlotLostError
from millstream.base.pickling import dump_by_value
from millstream.config import options, options_checkpointing
from millstream.config.configuration import Configuration
from millstream.runtime.protocol.deployment import Deployment, dump_deployment
from millstream.runtime.protocol.executor import Executor, SlotPlace
from millstream.runtime.protocol.questions import AnyQuestion
from millstream.runtime.protocol.report import EpochHeader, LogLine, SlotReport
from millstream.runtime.slot.cancel import CancelWatch
from millstream.runtime.slot.doors import Doors
from millstream.runtime.slot.place import find_place
from millstream.runtime.slot.wire import Request, SlotAddress, SlotSilentError, hold, is_busy
from millstream.runtime.slot.workspace import workspace_name
from millstream.runtime.spark.carrier import Carried, CarriedEpochs, EpochCarrier
from millstream.runtime.spark.carrier_stays import CarrierStays
from millstream.runtime.spark.python_tasks import PythonTasks
from millstream.runtime.spark.session import (
    SessionConfig,
    SessionHandle,
    acquire_session,
    find_session,
    release_session,
)
from millstream.runtime.spark.shared import join_pool
from millstream.runtime.spark.shuttle import LevelShuttle, SlotStarter
from millstream.runtime.spark.slot_group import SlotGroup
from millstream.runtime.spark.slot_watch import SlotWatch
from millstream.runtime.spark.staying_carrier import DriverDoor, StayingCarrier
from millstream.runtime.spark.worker_errors import describe_failed_start, first_line

__all__ = ["SparkExecutor"]

_log = logging.getLogger(__name__)
_SLOW_EPOCH_S = 30.0
_IDLE_S = 0.1

_Result = TypeVar("_Result")


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
        self._group = self._group_of({})
        self._handle: SessionHandle | None = None
        self._broadcast: Any = None
        self._cancel_watch: CancelWatch | None = None
        self._slot_watch: SlotWatch | None = None
        self._tag: str | None = None
        self._clock = SystemClock()
        self._epoch_began: float | None = None
        self._stays: CarrierStays | None = None
        self._doors: Doors | None = None
        self._door: DriverDoor | None = None
        self._hold_s = configuration.get(options.EPOCH_CARRIER_HOLD) / 1000

    def deploy(self, deployment: Deployment) -> None:
        """Start the slots by a Spark job, then have all of them open their operators."""
        config = SessionConfig.of(self._configuration)
        # Before Spark is started: what cannot be pickled is told at once.
        payload = dump_deployment(deployment, on_this_machine=config.on_one_machine)
        self._levels = len(deployment.plan.levels)
        self._slots = deployment.plan.slots
        self._name = deployment.name
        self._handle = acquire_session(config)
        context = self._handle.context
        on_one_machine = str(context.master).startswith("local")
        if on_one_machine != config.on_one_machine:  # the session was there, and is another one
            payload = dump_deployment(deployment, on_this_machine=on_one_machine)
        self._mark_jobs(f"millstream-{deployment.job_id}-{deployment.attempt}")
        self._broadcast = context.broadcast(payload)
        self._tasks = PythonTasks(context, self._slots)
        at_most = self._configuration.get(options.EPOCH_CARRIED_BYTES)
        self._carried = CarriedEpochs(self._slots, at_most, self._is_shared)
        self._java_context: Any = context._jsc
        self._jobs = self._java_context.statusTracker()
        self._cores = context.defaultParallelism
        starter = SlotStarter(
            self._broadcast,
            deployment.attempt,
            self._secret,
            self._lease_s,
            tcp=not on_one_machine,
            python_path=tuple(_user_path()),
            workspace=workspace_name(deployment.job_id, deployment.attempt),
            python_version=sys.version_info[:2],
        )
        found = [pickle.loads(raw) for raw in self._start_slots(starter)]
        self._group = self._group_of({one.slot: one for one in found if isinstance(one, SlotAddress)})
        for failure in found:
            if isinstance(failure, MillstreamError):
                raise failure
        if len(self._group.addresses) != self._slots:
            raise SlotLostError(f"Spark started {len(self._group.addresses)} of {self._slots} slots")
        self._check_storage()
        self._prepare_stays(deployment)
        self._begin_watch()
        self._group.ask_all(Request("open"))

    def places(self) -> Sequence[SlotPlace]:
        """Return where each slot lives."""
        return [
            SlotPlace(each.slot, each.host, each.pid, each.executor)
            for _, each in sorted(self._group.addresses.items())
        ]

    def run_epoch(self, headers: Mapping[int, EpochHeader]) -> Sequence[SlotReport]:
        """Run one Spark job: a task that carries the epoch's blocks, or a stage for each level."""
        self._raise_lost()
        pickled = {slot: _pickle_header(header) for slot, header in headers.items()}
        self._epoch_began = self._clock.monotonic()
        try:
            epoch = next(iter(headers.values())).epoch
            if self._run(lambda: self._carried.is_next):
                carried = self._carry(pickled, epoch)
            else:
                carried = self._without_stay(pickled, epoch)
            if carried.is_large:
                carried = self._shuttle(pickled, epoch)
        except SlotLostError:
            self._raise_lost()
            raise
        finally:
            self._epoch_began = None
        reports: list[SlotReport] = [pickle.loads(report) for report in carried.reports]
        if carried.failures:
            error, logs = carried.failures[0]
            for report in reports:
                self._on_logs(report.logs)
            self._on_logs(logs)
            raise error
        if len(reports) != self._slots:
            raise SlotLostError(f"Spark brought the reports of {len(reports)} of {self._slots} slots")
        self._carried.learn(reports)
        return reports

    def _carry(self, headers: Mapping[int, bytes], epoch: int) -> Carried:
        """Have one task run all levels, which stays if it can reach the driver."""
        stays = self._stays
        if stays is not None:
            stayed = self._run(lambda: stays.carry(epoch, headers))
            if stayed is not None:
                return stayed
        return self._carry_once(headers, epoch)

    def _without_stay(self, headers: Mapping[int, bytes], epoch: int) -> Carried:
        """Let a core go that a task may hold; what there is in one slot never leaves it, and needs no more tasks."""
        if self._stays is not None:
            self._stays.end()
        return self._carry_once(headers, epoch) if self._slots == 1 else Carried(is_large=True)

    def _carry_once(self, headers: Mapping[int, bytes], epoch: int) -> Carried:
        carrier = EpochCarrier(
            self._levels, headers, self._group.addresses, self._secret, self._timeout_s, self._carried.at_most
        )
        carried = pickle.loads(self._run(lambda: self._tasks.run_one(carrier), f"epoch {epoch}"))
        assert isinstance(carried, Carried)
        return carried

    def _begin_stay(self, number: int, epoch: int) -> Callable[[], bytes]:
        """Have Spark run a carrier that stays; return what waits for its end."""
        assert self._door is not None
        self._describe_jobs(f"epochs from {epoch} on")
        carrier = StayingCarrier(
            number,
            self._levels,
            self._group.addresses,
            self._secret,
            self._timeout_s,
            self._carried.at_most,
            self._door,
            min(_IDLE_S, self._hold_s),
        )
        return self._tasks.begin_one(carrier)

    def _shuttle(self, headers: Mapping[int, bytes], epoch: int) -> Carried:
        """Have a stage of tasks run each level."""
        shuttles = [
            LevelShuttle(
                level,
                level == self._levels - 1,
                headers,
                self._group.addresses,
                self._secret,
                self._timeout_s,
            )
            for level in range(self._levels)
        ]
        frames = self._run(lambda: self._tasks.run_stages(shuttles), f"epoch {epoch}")
        return Carried(
            [frame[1:] for frame in frames if frame[:1] == b"R"],
            [pickle.loads(frame[1:]) for frame in frames if frame[:1] == b"E"],
        )

    def finish(self, completed_checkpoint: int | None = None) -> None:
        """Close the operators and end the slots."""
        self._end_stays()
        self._end_slot_watch()
        try:
            self._group.ask_all(Request("close", completed_checkpoint=completed_checkpoint))
        finally:
            self._end_cancel_watch()
            self._group = self._group_of({})

    def abort(self) -> None:
        """Have slots remove what they staged and end; kill those that do not answer."""
        self._end_stays()
        self._end_slot_watch()
        self._end_cancel_watch()
        group, self._group = self._group, self._group_of({})
        for executor in group.abort():
            self._give_up_executor(executor)

    def abandon(self) -> bool:
        """Kill the slots whose functions have not returned, by which the epoch's job ends."""
        self._group.kill_all()
        return False

    def keep_alive(self) -> None:
        """Ping every slot.

        Raises:
            SlotLostError: If one is gone.
        """
        for address in self._group.addresses.values():
            self._raise_lost()
            with suppress(SlotSilentError):  # if it is not only busy, the watch tells
                self._group.ask(address, Request("ping"), min(self._timeout_s, self._lease_s / 6))

    def as_job(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have what a call runs on Spark carry the properties of this thread: tag, pool, description."""
        if self._tag is None or not isinstance(SparkContext._gateway, ClientServer):
            return call  # without a thread of the JVM for each of Python's, properties belong to no thread
        assert self._handle is not None
        try:
            properties = self._handle.context._jsc.sc().getLocalProperties().clone()
        except (AttributeError, OSError, Py4JError) as error:  # the first of a context that was stopped
            _log.debug("Spark's context is gone, and properties with it: %s", error)
            return call
        return partial(_with_properties, self._handle.context, properties, call)

    def cancel_jobs(self) -> None:
        """Have Spark give up what carries the attempt's tag."""
        if self._tag is not None:
            self._cancel_spark()

    def query(self, slot: int, question: AnyQuestion) -> bytes:
        """Ask a slot."""
        answer = self._group.ask(self._group.addresses[slot], Request("query", question=question))
        self._on_logs(answer.logs)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def release(self) -> None:
        """Give back the broadcast; the session stays for the process's next job."""
        broadcast, self._broadcast = self._broadcast, None
        tag, self._tag = self._tag, None
        if tag is not None:
            assert self._handle is not None
            try:
                self._handle.context.removeJobTag(tag)
                self._handle.context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
            except (AttributeError, OSError, Py4JError):  # Spark's context has been stopped
                _log.debug("the JVM is gone, and this thread's tags with it")
        if broadcast is not None:
            try:
                broadcast.destroy()
            except (OSError, Py4JError):
                _log.debug("the JVM is gone, and the broadcast with it")
        if self._handle is not None:
            self._handle = None
            release_session()

    def session(self) -> Any:
        """Return the session that is there, or the one of jobs with these options."""
        return find_session(self._configuration)

    def _run(self, run: Callable[[], _Result], what: str | None = None) -> _Result:
        """Run an epoch's job.

        Args:
            run: Does it.
            what: The job is for, to be shown by Spark; None if `run` says so itself.

        Raises:
            SlotLostError: If Spark could not.
        """
        try:
            if what is not None:
                self._describe_jobs(what)
            return run()
        except (OSError, EOFError, Py4JError) as error:
            loss = self._handle.find_loss() if self._handle is not None else None
            if loss is not None:
                raise loss from error
            raise SlotLostError(
                f"Spark could not run an epoch's job: {first_line(_what_spark_said(error))}",
                hint="An executor or a Python worker was lost; run with --verbose to see what Spark says.",
            ) from error

    def _group_of(self, addresses: Mapping[int, SlotAddress]) -> SlotGroup:
        return SlotGroup(addresses, self._secret, self._timeout_s, self._on_logs)

    def _start_slots(self, starter: SlotStarter) -> list[bytes]:
        assert self._handle is not None
        anchor: RDD[int] = self._handle.context.parallelize([], self._slots)
        started: RDD[bytes] = anchor.mapPartitionsWithIndex(starter)
        started._bypass_serializer = True  # type: ignore[attr-defined]
        try:
            return started.collect()
        except Py4JError as error:
            python = str(started.ctx.pythonExec)
            raise describe_failed_start(_what_spark_said(error), python) from error

    def _mark_jobs(self, tag: str) -> None:
        """Have the jobs that this thread submits be known by a tag, and their tasks be interrupted when cancelled.

        A task may wait for blocks of a host that is gone.
        """
        assert self._handle is not None
        self._handle.context.addJobTag(tag)
        self._handle.context.setInterruptOnCancel(True)
        join_pool(self._handle.context)
        self._tag = tag

    def _describe_jobs(self, what: str) -> None:
        """Have Spark show what the jobs are for that this thread submits from now on."""
        self._java_context.setJobDescription(f"{self._name}: {what}")

    def _is_shared(self) -> bool:
        """Return whether slots have to share Spark's cores: others have jobs in the session, or there are too few.

        Spark shares its cores by tasks, so each slot then needs one of its own for what takes long.
        """
        if self._cores < self._slots:
            return True
        active = self._ids_of(self._jobs.getActiveJobIds())
        if not active:
            return False
        own = self._java_context.sc().statusTracker().getJobIdsForTag(self._tag)
        return not active <= self._ids_of(own)

    def _ids_of(self, jobs: Any) -> set[str]:
        """Return an array of the JVM's by one call, not one for each element."""
        assert self._handle is not None
        jvm: Any = self._handle.context._jvm
        return set(str(jvm.java.util.Arrays.toString(jobs)).strip("[]").replace(" ", "").split(",")) - {""}

    def _prepare_stays(self, deployment: Deployment) -> None:
        """Let carriers that stay connect to this process."""
        handle, addresses = self._handle, self._group.addresses.values()
        assert handle is not None
        if not self._hold_s:
            return
        running = handle.running_stays
        self._stays = CarrierStays(
            self._begin_stay,
            hold_s=self._hold_s,
            running=running,
            # Two calls of the JVM, by what Spark keeps for its web page: whether others wait or run, it does not tell.
            others_wait=lambda: len(self._jobs.getActiveJobIds()) > len(running),
            clock=self._clock,
        )
        name = f"driver of {workspace_name(deployment.job_id, deployment.attempt)}, {secrets.token_hex(16)}"
        self._doors = Doors(name, self._secret, self._stays.converse, self._clock)
        try:
            tcp = None
            if any(address.tcp is not None for address in addresses):
                conf = handle.context.getConf()
                host = str(conf.get("spark.driver.host", ""))
                tcp = (host, self._doors.open_tcp(str(conf.get("spark.driver.bindAddress", host))))
            self._door = DriverDoor(name, find_place(), self._doors.open_unix(find_place()), tcp)
        except OSError as error:
            _log.warning("each epoch is a job: the driver cannot listen for carriers that stay: %s", error)
            self._end_stays()

    def _end_stays(self) -> None:
        """Let no carrier stay, and wait until Spark's job has ended: nothing of the attempt runs on."""
        doors, self._doors = self._doors, None
        stays, self._stays = self._stays, None
        if doors is not None:
            doors.close()
        if stays is not None and not stays.close():
            self._cancel_spark()

    def _check_storage(self) -> None:
        """See that other hosts can write checkpoints where the driver finds them.

        Raises:
            ConfigurationError: If there are slots elsewhere and no directory was named.
        """
        get = self._configuration.get
        named = get(options_checkpointing.CHECKPOINT_DIRECTORY) or get(options_checkpointing.HA_DIRECTORY)
        if named or not get(options_checkpointing.CHECKPOINT_INTERVAL):
            return
        elsewhere = {each.host for each in self._group.addresses.values() if each.place != find_place()}
        if elsewhere:
            raise ConfigurationError(
                f"slots run on {', '.join(sorted(elsewhere))}, and checkpoints would be kept in a temporary directory "
                "of the driver's host",
                hint=f"Set {options_checkpointing.CHECKPOINT_DIRECTORY.key} to one that all hosts share.",
            )

    def _begin_watch(self) -> None:
        self._cancel_watch = CancelWatch(
            self._is_cancelled,
            tell=lambda: self._group.tell_cancelled(),
            kill=lambda: self._group.kill_all(),
            grace_s=self._timeout_s,
        )
        self._cancel_watch.start()
        # Short: while one slot is busy, the others' leases have to be renewed.
        group, ping_s = self._group, min(self._timeout_s, self._lease_s / 6)
        self._slot_watch = SlotWatch(
            tuple(group.addresses.values()),
            hold=lambda address: hold(address, self._secret, here=find_place(), timeout_s=self._timeout_s),
            ping=lambda address: group.ask(address, Request("ping"), ping_s),
            on_lost=self._cancel_spark,
            interval_s=min(self._lease_s / 3, self._timeout_s / 4),
            is_busy=lambda address: is_busy(address, find_place()),
            patience=math.ceil(self._timeout_s / ping_s),
            on_look=self._look_at_epoch,
        )
        self._slot_watch.start()

    def _end_cancel_watch(self) -> None:
        watch, self._cancel_watch = self._cancel_watch, None
        if watch is not None:
            watch.stop()

    def _end_slot_watch(self) -> None:
        watch, self._slot_watch = self._slot_watch, None
        if watch is not None:
            watch.stop()

    def _raise_lost(self) -> None:
        if self._slot_watch is not None and self._slot_watch.lost is not None:
            raise self._slot_watch.lost

    def _cancel_spark(self) -> None:
        """Have Spark give up the epoch's job: it may wait for a host that is gone."""
        assert self._handle is not None and self._tag is not None
        try:
            self._handle.context.cancelJobsWithTag(self._tag)
        except (AttributeError, OSError, Py4JError) as error:  # the first of a context that was stopped
            _log.debug("Spark's context is gone, and the epoch's job with it: %s", error)

    def _give_up_executor(self, executor: str) -> None:
        """Have Spark run nothing more on an executor that cannot be reached, and ask for another."""
        assert self._handle is not None
        _log.warning("executor %s does not answer and is given up", executor)
        try:
            self._handle.context._jsc.sc().killAndReplaceExecutor(executor)
        except (AttributeError, OSError, Py4JError) as error:
            _log.warning("executor %s could not be given up: %s", executor, error)

    def _look_at_epoch(self) -> None:
        """Tell of an epoch that takes long, once, and what its slots are at; on the watch's thread."""
        began = self._epoch_began
        if began is None or self._clock.monotonic() - began < _SLOW_EPOCH_S:
            return
        self._epoch_began = None
        for address, stack in self._group.find_stacks():
            _log.warning(
                "an epoch takes longer than %g s; slot %d is here:\n%s", _SLOW_EPOCH_S, address.slot, stack
            )


def _with_properties(context: SparkContext, properties: Any, call: Callable[[], None]) -> None:
    try:
        context._jsc.sc().setLocalProperties(properties)
    except (AttributeError, OSError, Py4JError) as error:
        _log.debug("Spark's context is gone, and properties with it: %s", error)
    call()


def _pickle_header(header: EpochHeader) -> bytes:
    try:
        return pickle.dumps(header, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return dump_by_value(header)


def _user_path() -> list[str]:
    """Return where the driver looks for modules that slots need as well: the script's directory and the like."""
    return [str(Path(entry).resolve()) for entry in sys.path if Path(entry or ".").is_dir()]


def _what_spark_said(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    if java is not None and java.getClass().getSimpleName() == "ExecutionException":
        java = java.getCause()
    return (str(java.getMessage()) if java is not None else str(error)) or type(error).__name__
