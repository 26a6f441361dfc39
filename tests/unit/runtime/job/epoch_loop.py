"""The epoch loop by itself, for tests: slots that answer as they are told, storage in memory, a clock moved by hand."""

from __future__ import annotations

from types import SimpleNamespace

from millstream.base.clock import ManualClock
from millstream.base.errors import SinkError
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.graph.epoch_plan import build_epoch_plan
from millstream.graph.job_graph import build_job_graph
from millstream.graph.stream_graph import build_stream_graph
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import OperatorReport
from millstream.operators.sink import CollectSpec, SinkSpec
from millstream.operators.source import SourceSpec
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.control.console import JobOutput
from millstream.runtime.job.job_master import JobMaster
from millstream.runtime.job.observer import JobObserver
from millstream.runtime.job.settings import JobSettings
from millstream.runtime.job.steering import JobControl, SavepointRequest
from millstream.runtime.protocol.deployment import Deployment
from millstream.runtime.protocol.executor import Executor
from millstream.runtime.protocol.orders import WrittenState
from millstream.runtime.protocol.report import Backlog, SlotReport
from millstream.spi.sink import Committer, Sink
from millstream.spi.source import Boundedness, RangeEnd, Source, SourcePlan, SplitEnumerator, SplitRange
from millstream.testing import MemoryStores

SOURCE, SINK, COLLECT = 1, 2, 3
SLOTS = 2


class Numbers(Source, SplitEnumerator):
    """Ten records a subtask, five in an epoch; or whatever the test puts into `plans`."""

    def __init__(self, log):
        self.log = log
        self.read = dict.fromkeys(range(SLOTS), 0)
        self.plans = []
        self.total = 10
        self.backlog = False

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        if restored is not None:
            self.read = dict(restored)
        return self

    def build_reader(self, subtask_index, parallelism):
        raise AssertionError("the driver reads nothing")

    def plan(self, request):
        if self.plans:
            return self.plans.pop(0)
        ranges = {
            subtask: [SplitRange(str(subtask), None, done, done + 5)]
            for subtask, done in self.read.items()
            if done < self.total
        }
        return SourcePlan(
            ranges,
            frozenset(subtask for subtask, done in self.read.items() if done + 5 >= self.total),
            backlog=self.backlog,
        )

    def advance(self, ends):
        for end in ends:
            self.read[int(end.split_id)] = end.position

    def snapshot(self):
        return dict(self.read)

    def close(self):
        self.log.append("close source")


class Target(Sink, Committer):
    def __init__(self, log):
        self.log = log
        self.fails = 0

    def build_writer(self, context):
        raise AssertionError("the driver writes nothing")

    def build_committer(self):
        return self

    def commit(self, committables):
        if self.fails:
            self.fails -= 1
            raise SinkError("the target is away")
        self.log.append(f"commit {' '.join(committables)}")

    def recover(self, committables):
        self.log.append(f"recover {' '.join(committables)}")

    def abort(self, committables):
        self.log.append(f"remove {' '.join(committables)}")

    def close(self):
        self.log.append("close sink")


class Answering(Executor):
    """Runs epochs by reading what is planned; the test may give other answers, by epoch.

    Attributes:
        headers: Those of slot 0.
        answers: What to do with the reports of an epoch, or what to raise.
    """

    def __init__(self, log, stores):
        self.log = log
        self.stores = stores
        self.headers = []
        self.answers = {}

    def deploy(self, deployment):
        self.log.append("deploy")

    def run_epoch(self, headers):
        header = headers[0]
        assert set(headers) == set(range(SLOTS))
        self.headers.append(header)
        told = f", told of {header.completed_checkpoint}" if header.completed_checkpoint is not None else ""
        self.log.append(f"epoch {header.epoch}{', the last' if header.end_of_input else ''}{told}")
        reports = [self.report(slot, headers[slot]) for slot in range(SLOTS)]
        answer = self.answers.get(header.epoch, lambda reports: None)
        if isinstance(answer, BaseException):
            raise answer
        answer(reports)
        return reports

    def report(self, slot, header):
        work = header.sources.get(SOURCE)
        ends = [
            RangeEnd(each.split_id, each.stop, finished=False, records=5)
            for each in (() if work is None else work.ranges)
        ]
        ready = header.checkpoint or not self.checkpointed
        committables = [f"e{header.epoch}s{slot}"] if ready else []
        operators = [
            (SOURCE, OperatorReport(range_ends=ends)),
            (SINK, OperatorReport(committables=committables)),
            (COLLECT, OperatorReport(collected=[header.epoch])),
        ]
        return SlotReport(
            slot,
            header.epoch,
            operators,
            written=tuple(self.write(slot, order) for order in header.orders),
            backlogs=(Backlog(ended=header.end_of_input),),
        )

    checkpointed = False

    def write(self, slot, order):
        path = f"{order.directory}/{order.checkpoint_id}-{slot}"
        file = self.stores(order.location).write(path, b"state")
        return WrittenState(slot, file, {}, order.base is not None)

    def finish(self, completed_checkpoint=None):
        self.log.append(
            f"finish{'' if completed_checkpoint is None else f', told of {completed_checkpoint}'}"
        )

    def abort(self):
        self.log.append("abort")

    def keep_alive(self):
        self.log.append("keep alive")

    def release(self):
        self.log.append("release")


class Output(JobOutput):
    def __init__(self, log):
        super().__init__({COLLECT: "collected"})
        self.log = log

    def lines(self, lines, *, stderr):
        self.log.append(f"print {' '.join(lines)}")

    def logs(self, logs):
        self.log.extend(f"log {line.text}" for line in logs)

    def collected(self, node_id, records):
        self.log.append(f"collected {records[0]}")


class Driver:
    """A job master and all around it."""

    def __init__(self, *, interval_ms=None, restored=None, options=None, batch=False, **checkpointing):
        self.log = []
        self.clock = ManualClock(1_000)
        self.stores = MemoryStores()
        self.source, self.target = Numbers(self.log), Target(self.log)
        self.executor = Answering(self.log, self.stores)
        self.executor.checkpointed = interval_ms is not None or batch
        self.control = JobControl()
        self.progress = []
        plan = self.plan()
        self.checkpoints = CheckpointCoordinator(
            CheckpointSettings(
                interval_ms=interval_ms, directory="/c", savepoint_directory="/s", **checkpointing
            ),
            job_id="job",
            job_name="Job",
            job_graph=plan.job_graph,
            clock=self.clock,
            open_store=self.stores,
        )
        deployment = Deployment("job", 0, plan, now_ms=self.clock.now_ms(), batch=batch)
        self.observer = JobObserver(
            plan,
            job_id="job",
            name="Job",
            batch=batch,
            clock=self.clock,
            status_file=SimpleNamespace(
                write=lambda document: None, remove=lambda: self.log.append("status removed")
            ),
        )
        self.master = JobMaster(
            deployment,
            JobSettings.of(Configuration.from_dict({"millstream.epoch.fixed-records": 5, **(options or {})})),
            executor=self.executor,
            clock=self.clock,
            output=Output(self.log),
            control=self.control,
            on_progress=self.progress.append,
            checkpoints=self.checkpoints,
            observer=self.observer,
            restored=restored,
        )

    def plan(self):
        source = Transformation(
            SOURCE, "source", SourceSpec(self.source, WatermarkStrategy.no_watermarks()), uid="source"
        )
        sink = Transformation(SINK, "sink", SinkSpec(self.target), [Edge(source)], uid="sink")
        collect = Transformation(COLLECT, "collect", CollectSpec("collected"), [Edge(source)])
        graph = build_stream_graph([source, sink, collect], parallelism=SLOTS, max_parallelism=8)
        return build_epoch_plan(build_job_graph(graph))

    def run(self):
        self.master.run()
        return self.log

    def at_epoch(self, epoch, action):
        """Do something while an epoch runs."""
        self.executor.answers[epoch] = lambda reports: action()

    def ask(self, **how):
        request = SavepointRequest("/s", **how)
        self.control.savepoints.append(request)
        return request
