"""The runtime's entry point: checks a submission, chooses an executor, starts the job on a thread."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import (
    JobDefinitionError,
    JobExecutionError,
    MillstreamError,
)
from millstream.base.ids import new_id
from millstream.base.interrupts import is_interruption
from millstream.base.log_context import add_to_log_context
from millstream.base.signals import wait_for
from millstream.common.job_failure import JobFailureInfo
from millstream.config import options, options_operating, options_state
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.config.targets import check_target
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.scratch import sweep
from millstream.files.stores import check_locations, open_store
from millstream.graph.epoch_plan import EpochPlan, build_epoch_plan
from millstream.graph.job_graph import build_job_graph
from millstream.graph.launcher import (
    EpochProgress,
    JobLauncher,
    JobResult,
    JobSubmission,
    RunningJob,
)
from millstream.graph.runtime_mode import is_batch
from millstream.graph.stream_graph import build_stream_graph
from millstream.operators.combining import CombineMode
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.pointer import LostJob
from millstream.runtime.checkpoint.restore import Restored
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.control.archive import JobArchive
from millstream.runtime.control.channel import ControlChannel
from millstream.runtime.control.configuration import describe_configuration
from millstream.runtime.control.console import JobOutput
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.job_history import HistorySizes
from millstream.runtime.control.queryable import StateQuery
from millstream.runtime.control.status_files import StatusFile, read_running_jobs
from millstream.runtime.control.views import CheckpointConfigView
from millstream.runtime.job import ending
from millstream.runtime.job.ended_job import JobEndedBefore, describe_end
from millstream.runtime.job.job_master import JobMaster
from millstream.runtime.job.live_job import LiveJob
from millstream.runtime.job.observer import JobObserver
from millstream.runtime.job.rescaling import plan_rescaling
from millstream.runtime.job.serving import find_server
from millstream.runtime.job.settings import JobSettings, latency_settings
from millstream.runtime.job.steering import JobControl
from millstream.runtime.job.supervisor import JobSupervisor
from millstream.runtime.program.dependencies import collect_dependencies
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.executor import Executor, find_executor
from millstream.runtime.recovery.failures import FailureHistory, describe_failure
from millstream.runtime.recovery.high_availability import JobTraces, find_traces
from millstream.runtime.recovery.restart import restart_strategy
from millstream.runtime.reporting.log_lines import keep_secret
from millstream.runtime.reporting.reporters import JobReporters
from millstream.runtime.slot.workspace import sweep_workspaces
from millstream.state.backends import KeyedStateSettings

__all__ = ["DefaultLauncher"]

log = logging.getLogger(__name__)

_ABANDON_S = 2.0


class DefaultLauncher(JobLauncher):
    """Runs jobs in this process (`execution.target` "local") or on Spark (any Spark master).

    Args:
        clock: Time; by default the machine's.
        build_executor: Makes the executor of an attempt; by default the one that the options name.
        build_output: Makes what takes a job's lines and collected records, given collect ids by node id.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        build_executor: Callable[[Configuration, JobOutput], Executor] | None = None,
        build_output: Callable[[Mapping[int, str]], JobOutput] = JobOutput,
    ) -> None:
        self._clock = clock or SystemClock()
        self._build_executor = build_executor or _build_executor
        self._build_output = build_output
        self._launched: Counter[str] = Counter()

    def launch(self, submission: JobSubmission) -> RunningJob:
        """Check the job and start it."""
        configuration = submission.configuration
        check_target(configuration.get(options.TARGET))
        plan = _build_plan(submission)
        show = find_server(configuration)
        threading.Thread(target=_sweep, args=(configuration,), name="sweep", daemon=True).start()
        file_systems = FileSystemSettings.of(configuration, os.environ)
        with using(file_systems):
            check_locations(configuration)
            self._launched[submission.name] += 1
            name = submission.name if submission.named else None
            traces = find_traces(
                configuration, name, number=self._launched[submission.name], clock=self._clock
            )
            if traces.ended is not None and traces.results is not None:
                log.warning("%s and is not run again", describe_end(traces.ended))
                return JobEndedBefore(traces.ended, traces.results.where)
            if traces.lost is not None and traces.lost.rescaled:
                plan, traces = _go_on_rescaled(submission, plan, traces, traces.lost)
            job = _Job(
                submission, plan, traces, self._clock, self._build_executor, self._build_output, file_systems
            )
            traces.begin_anew()
        if show is not None:
            show(job.gateway)
        if configuration.get(options.DEBUG):
            job.run()
        else:
            job.start()
        return job

    def spark_session(self, configuration: Configuration) -> Any:
        """Return the session that is there, or the one of jobs that run on Spark."""
        return find_executor("spark")(configuration, lambda logs: None).session()


def _go_on_rescaled(
    submission: JobSubmission, plan: EpochPlan, traces: JobTraces, lost: LostJob
) -> tuple[EpochPlan, JobTraces]:
    """Return the plan of a job that its former driver had rescaled; the program's own if that fits no more."""
    try:
        return _build_plan(submission, lost.rescaled), traces
    except JobDefinitionError as error:
        log.warning("job was rescaled, which the program allows no more: %s", error.message)
        return plan, replace(traces, lost=replace(lost, rescaled={}))


def _build_plan(submission: JobSubmission, rescaled: Mapping[str, int] | None = None) -> EpochPlan:
    configuration = submission.configuration
    stream_graph = build_stream_graph(
        submission.transformations,
        parallelism=configuration.default_parallelism(),
        max_parallelism=configuration.get(options.MAX_PARALLELISM),
        rescaled=rescaled,
    )
    if not stream_graph.nodes:
        raise JobDefinitionError("the job has no operators", hint="Build a stream that ends in a sink.")
    chaining = configuration.get(options.OPERATOR_CHAINING)
    keyed = not is_batch(submission.transformations, configuration)
    return build_epoch_plan(build_job_graph(stream_graph, chaining=chaining, keyed=keyed))


def _build_executor(configuration: Configuration, output: JobOutput) -> Executor:
    is_local = configuration.get(options.TARGET) == "local" or configuration.get(options.DEBUG)
    build = find_executor("local" if is_local else "spark")
    return build(configuration, output.logs)


class _Job(RunningJob):
    """A job on a thread of its own."""

    def __init__(
        self,
        submission: JobSubmission,
        plan: EpochPlan,
        traces: JobTraces,
        clock: Clock,
        build_executor: Callable[[Configuration, JobOutput], Executor],
        build_output: Callable[[Mapping[int, str]], JobOutput],
        file_systems: FileSystemSettings,
    ) -> None:
        lost = traces.lost
        self.job_id = new_id() if lost is None else lost.job_id
        self._submission = submission
        self._clock = clock
        self._control = JobControl()
        self._outlives_driver = traces.pointer is not None
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._waiting: list[threading.Thread] = []
        self._started_by = threading.current_thread()
        self.name = submission.name
        collectors = {
            node.id: node.spec.collects
            for vertex in plan.job_graph.vertices
            for node in vertex.nodes
            if node.spec.collects is not None
        }
        self._output = build_output(collectors)
        self._output.taken = self._control.wake
        self._build_executor = build_executor
        self._plan = plan
        configuration = submission.configuration
        checkpoint_settings = CheckpointSettings.of(configuration)
        self._deployment = Deployment(
            job_id=self.job_id,
            attempt=0,
            name=submission.name,
            plan=plan,
            job_parameters=configuration.get(options.GLOBAL_JOB_PARAMETERS) or {},
            now_ms=clock.now_ms(),
            batch=is_batch(submission.transformations, configuration),
            dependencies=collect_dependencies(configuration),
            keyed_state=KeyedStateSettings.of(configuration),
            file_systems=file_systems,
            checkpoint_directory=_where(checkpoint_settings.directory),
            generation=0 if lost is None or traces.ownership is None else traces.ownership.term,
            combine=CombineMode.of(configuration.get(options.EXCHANGE_COMBINE)),
            latency=latency_settings(configuration),
        )
        self._checkpoints = CheckpointCoordinator(
            checkpoint_settings,
            job_id=self.job_id,
            job_name=submission.name,
            job_graph=plan.job_graph,
            clock=clock,
            pointer=traces.pointer,
            ownership=traces.ownership,
            generation=self._deployment.generation,
        )
        self._observer = JobObserver(
            plan,
            job_id=self.job_id,
            name=submission.name,
            batch=self._deployment.batch,
            clock=clock,
            checkpoints=_describe_checkpoints(checkpoint_settings, configuration),
            sizes=HistorySizes(
                checkpoints=configuration.get(options_operating.CHECKPOINT_HISTORY_SIZE),
                failures=configuration.get(keys.EXCEPTION_HISTORY_SIZE),
                epochs=configuration.get(options_operating.EPOCH_HISTORY_SIZE),
            ),
            configuration=lambda: describe_configuration(configuration),
            status_file=StatusFile(self.job_id),
        )
        self._supervisor = JobSupervisor(
            self._build_master,
            job_graph=plan.job_graph,
            checkpoints=self._checkpoints,
            strategy=restart_strategy(configuration),
            restore_path=configuration.get(keys.RECOVERY_PATH) if lost is None else lost.checkpoint,
            allow_non_restored=configuration.get(keys.IGNORE_UNCLAIMED_STATE),
            clock=clock,
            control=self._control,
            claim_behind=_claim_behind(configuration),
            results=traces.results,
            failures=FailureHistory(configuration.get(keys.EXCEPTION_HISTORY_SIZE)),
            tell=self._observer.tell,
            adopt_plan=self._adopt_plan,
        )
        if lost is not None:
            self._checkpoints.use(plan.job_graph, lost.rescaled)
        self._supervisor.prepare()
        self._live = LiveJob(
            self._observer,
            self._control,
            started_ms=clock.now_ms(),
            makes_checkpoints=self._checkpoints.enabled and not self._deployment.batch,
            plan_rescaling=lambda command: plan_rescaling(
                command, self._plan, self._checkpoints.rescaled, partial(_build_plan, submission)
            ),
        )
        self._channel = ControlChannel(self._live)
        self._archive: JobArchive | None = None
        self._reporters = JobReporters(configuration)
        self._thread = threading.Thread(target=self.run, name=f"job-{self.job_id[:8]}", daemon=True)

    def _build_master(self, attempt: int, restored: Restored | None) -> JobMaster:
        configuration = self._submission.configuration
        deployment = replace(
            self._deployment,
            attempt=attempt,
            now_ms=self._clock.now_ms(),
            restore=None if restored is None else restored.order,
        )
        return JobMaster(
            deployment,
            JobSettings.of(configuration),
            executor=self._build_executor(configuration, self._output),
            clock=self._clock,
            output=self._output,
            control=self._control,
            on_progress=self._on_progress,
            checkpoints=self._checkpoints,
            observer=self._observer,
            restored=None if restored is None else restored.driver_states,
            job_name=self._submission.name,
        )

    def _adopt_plan(self, plan: EpochPlan) -> None:
        self._plan = plan
        self._deployment = replace(self._deployment, plan=plan)
        self._observer.use(plan)

    def _on_progress(self, progress: EpochProgress) -> None:
        self._supervisor.epoch_ended()
        if self._submission.on_progress is not None:
            self._submission.on_progress(progress)

    @property
    def gateway(self) -> JobGateway:
        """What the job is seen and steered by."""
        return self._live

    @property
    def _master(self) -> JobMaster:
        assert self._supervisor.master is not None
        return self._supervisor.master

    def start(self) -> None:
        """Run on the job's own thread; other processes of this user may steer it."""
        ending.enter(self)
        self._archive = JobArchive.of(self._submission.configuration)
        self._channel.start()
        self._reporters.start(self._live)
        self._thread.start()

    def run(self) -> None:
        """Run to the end and keep what became of it."""
        keep_secret(self._submission.configuration)
        add_to_log_context(job=self.job_id, job_name=self.name)
        try:
            with using(self._deployment.file_systems):
                self._supervisor.run()
        except BaseException as error:
            self._failure = error
            if isinstance(error, KeyboardInterrupt) and is_interruption(error):
                raise  # with millstream.debug: on the main thread, which is not to wait
        finally:
            try:
                sweep()  # what slots of this job left that were killed
                self._output.end()
                self._live.close(self._failure)
                self._reporters.close()
                if self._archive is not None:
                    self._archive.write(self._live)
                self._channel.close()
            finally:
                self._ended.set()
                ending.leave(self)

    def wait(self, timeout_s: float | None = None) -> JobResult:
        """Wait for the end."""
        # Not by join(): one that is interrupted by a signal takes the thread for ended, on some Python versions.
        self._waiting.append(threading.current_thread())
        try:
            ended = wait_for(self._ended, timeout_s)
        finally:
            self._waiting.remove(threading.current_thread())
        if not ended:
            raise TimeoutError(f"job {self.job_id} still runs after {timeout_s} s")
        if self._failure is not None:
            if isinstance(self._failure, JobExecutionError):
                raise self._failure
            raise _job_failed(self._submission.name, self._failure) from self._failure
        return JobResult(
            self.job_id, self._master.runtime_ms, self._master.progress, self._observer.accumulators.results()
        )

    def cancel(self) -> None:
        """Ask the job to stop at once."""
        self._live.cancel()

    def suspend(self) -> None:
        """Ask the job to stop at once; with storage that outlives the driver a later one goes on with it."""
        if not self._control.cancel.is_set():
            self._control.suspended = self._outlives_driver
        self.cancel()

    @property
    def is_suspended(self) -> bool:
        """Whether a later driver is to go on with it; one that finished all the same is not."""
        return self._control.suspended and self.status() != "FINISHED"

    @property
    def is_awaited(self) -> bool:
        """Whether a thread waits, or may do so, for which Python waits before the process ends."""
        main = threading.main_thread()
        threads = {*self._waiting, self._started_by}
        return any(each.is_alive() and not each.daemon and each is not main for each in threads)

    def abandon(self) -> bool:
        """Abort the attempt though a function of it does not return; two seconds at most."""
        ending.leave(self)
        try:
            aborted = self._clock.within(_ABANDON_S, self._supervisor.abandon)
        except (MillstreamError, OSError, TimeoutError) as error:
            log.warning("the job could not be cleaned up as the process ended: %s", error)
            return False
        if aborted:
            self._channel.close()
        return aborted

    def stop(self) -> None:
        """Ask the job to read no more and end well."""
        self._control.stop.set()
        self._control.wake.set()

    def savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Future[str]:
        """Ask for a savepoint."""
        return self._live.savepoint(directory, stop=stop, drain=drain)

    def query_state(self, uid: str, state: str, key: Any, namespace: Any = None) -> Future[bytes]:
        """Ask for what a key has in a keyed state."""
        return self._live.query_state(StateQuery(uid, state, key, namespace))

    def collected(self, collect_id: str) -> Iterator[Any]:
        """Iterate over collected records."""
        yield from self._output.read(collect_id)
        self.wait()

    def status(self) -> str:
        """Return a Flink job status."""
        return self._supervisor.status

    def failures(self) -> list[JobFailureInfo]:
        """Return the last failures; any thread may ask."""
        return [describe_failure(each) for each in list(self._supervisor.failures)]

    def accumulators(self) -> dict[str, Any]:
        """Return the accumulators as of the last epoch."""
        return self._observer.accumulators.results()


def _sweep(configuration: Configuration) -> None:
    """Remove what drivers and slots of this user have left on this host that were killed."""
    sweep()
    local = configuration.get(options_state.STATE_LOCAL_DIRECTORY)
    if local is not None:
        sweep(local)
    sweep_workspaces()
    with suppress(OSError):  # somebody else's directory, of which whoever asks is told
        read_running_jobs()  # which removes the files of jobs that are gone


def _where(directory: str | None) -> str | None:
    """Return a directory as it is shown, without credentials: it goes to the slots, and into checkpoints."""
    return None if directory is None else open_store(directory).location


def _claim_behind(configuration: Configuration) -> int | None:
    """Return after how many of its own checkpoints the job removes what it was restored from; None for never."""
    claims = configuration.get(keys.CLAIM_MODE).upper() == "CLAIM"
    retained: int = configuration.get(keys.RETAINED_CHECKPOINTS)
    return retained if claims else None


def _describe_checkpoints(settings: CheckpointSettings, configuration: Configuration) -> CheckpointConfigView:
    return CheckpointConfigView(
        interval_ms=settings.interval_ms,
        timeout_ms=settings.timeout_ms,
        min_pause_ms=settings.min_pause_ms,
        tolerable_failures=settings.tolerable_failures,
        retained=settings.retained,
        directory=_where(settings.directory),
        savepoint_directory=_where(settings.savepoint_directory),
        keep_on_cancel=settings.keep_on_cancel,
        keep_on_failure=settings.keep_on_failure,
        state_backend=configuration.get(options_state.STATE_BACKEND),
    )


def _job_failed(name: str, cause: BaseException) -> JobExecutionError:
    if isinstance(cause, MillstreamError):
        return JobExecutionError(f'job "{name}" failed', detail=cause.summary(), hint=cause.hint)
    return JobExecutionError(f'job "{name}" failed: {type(cause).__name__}: {cause}')
