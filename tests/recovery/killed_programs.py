"""Programs whose functions kill their own process, for `test_functions.py`; each runs in a process of its own.

    python -m millstream.cli.main run ... killed_programs.py PROGRAM DIRECTORY

What functions live through is told in DIRECTORY/events, one line for each event; results are in DIRECTORY/out.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.common.functions import CheckpointedFunction, CheckpointListener
from millstream.datastream import (
    KeyedBroadcastProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.connectors.base import (
    Boundedness,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.functions import SourceFunction
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.spi.batch import Rows

COUNT = 600


def die_once(directory, place):
    """End this process as the kernel would, the first time that any process gets here."""
    try:
        os.close(os.open(os.path.join(directory, f"died {place}"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def tell(directory, *event):
    """Append a line; whole, whoever else appends."""
    descriptor = os.open(os.path.join(directory, "events"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(descriptor, (" ".join(map(str, (os.getpid(), *event))) + "\n").encode())
    os.close(descriptor)


def is_there(directory, checkpoint_id):
    """Whether the manifest of a checkpoint is published, by whichever driver."""
    home = Path(directory, "checkpoints")
    names = (f"chk-{checkpoint_id}", f"chk-{checkpoint_id}.*")
    return any(True for name in names for _ in home.glob(f"*/{name}/_metadata"))


class Buffer(ProcessFunction, CheckpointedFunction, CheckpointListener):
    """Holds records back, in list state; says in union state which subtask it is; tells all that happens to it.

    Dies while it works on a record, makes a snapshot, and learns of a checkpoint.
    """

    def __init__(self, directory):
        self.directory = directory

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.saved = store.get_list_state(ListStateDescriptor("buffer"))
        self.known = store.get_union_list_state(ListStateDescriptor("subtasks"))
        self.buffer = list(self.saved.get())
        self.init = context.is_restored(), context.get_restored_checkpoint_id(), len(list(self.known.get()))

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.largest = -1
        tell(self.directory, self.subtask, "init", *self.init)

    def process_element(self, value, ctx):
        self.largest = max(self.largest, value)
        if value > 150:
            die_once(self.directory, "at a record")
        self.buffer.append(value)
        if len(self.buffer) > 7 or value >= COUNT - 40:
            yield from map(str, self.buffer)
            self.buffer.clear()

    def snapshot_state(self, context):
        if self.largest > 250:
            die_once(self.directory, "at a snapshot")
        self.saved.update(self.buffer)
        self.known.update([self.subtask])
        tell(self.directory, self.subtask, "snapshot", context.get_checkpoint_id())

    def notify_checkpoint_complete(self, checkpoint_id):
        tell(self.directory, self.subtask, "complete", checkpoint_id, is_there(self.directory, checkpoint_id))
        if self.largest > 350:
            die_once(self.directory, "at a notification")


def buffers(env, directory):
    numbers = env.from_source(
        NumberSequenceSource(0, COUNT - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    return numbers.set_parallelism(1).rebalance().process(Buffer(directory), Types.STRING()).uid("buffer")


class Folder(Source):
    """Numbers in files that appear while it runs; a split is a file, ended by an empty line.

    It ends when there is a file `end`. A file is always read by the same subtask of a given parallelism.
    """

    def __init__(self, directory):
        self.directory = directory

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism, restored):
        return FolderEnumerator(self.directory, restored)

    def build_reader(self, subtask_index, parallelism):
        return FolderReader()


class FolderEnumerator(SplitEnumerator):
    def __init__(self, directory, restored):
        self.directory = directory
        self.offsets, self.read = restored or ({}, set())

    def plan(self, request):
        ended = os.path.exists(os.path.join(self.directory, "end"))
        for path in Path(self.directory).glob("*.split"):
            if path.name not in self.read:
                self.offsets.setdefault(path.name, 0)
        if ended and not self.offsets:
            return SourcePlan(finished=frozenset(range(request.parallelism)))
        ranges = {}
        for name, offset in sorted(self.offsets.items()):
            subtask = int(name.partition(".")[0]) % request.parallelism
            if subtask not in ranges:
                path = os.path.join(self.directory, name)
                ranges[subtask] = [SplitRange(name, path, offset, max_records=request.max_records)]
        return SourcePlan(ranges, next_ms=request.now_ms + 1)

    def advance(self, ends):
        for end in ends:
            self.offsets[end.split_id] = end.position
            if end.finished:
                del self.offsets[end.split_id]
                self.read.add(end.split_id)

    def snapshot(self):
        return dict(self.offsets), set(self.read)


class FolderReader(SourceReader):
    def read(self, split_range, emit):
        numbers = []
        with open(split_range.split) as file:
            file.seek(split_range.start)
            while len(numbers) < split_range.max_records and (line := file.readline()) != "\n":
                numbers.append(int(line))
            position, finished = file.tell(), line == "\n"
        emit(Rows(numbers))
        return RangeEnd(split_range.split_id, position, finished, len(numbers))


def dying(directory, at, numbered=""):
    """Make a function that hands records on, and dies when enough have passed it, once for each limit."""

    def check(value):
        check.seen += 1
        for limit in at:
            if check.seen >= limit:
                die_once(directory, f"{numbered}{limit}")
        return str(value)

    check.seen = 0
    return check


def folder(env, directory):
    numbers = env.from_source(Folder(directory + "/in"), WatermarkStrategy.no_watermarks(), "folder")
    return numbers.uid("folder").map(dying(directory, (40, 25, 12)), Types.STRING())


class Groups(SourceFunction, CheckpointedFunction):
    """Emits numbers in threes and moves on behind each three."""

    def initialize_state(self, context):
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("next"))
        self.next = max(self.saved.get(), default=0)

    def open(self, runtime_context):
        self.running = True

    def snapshot_state(self, context):
        self.saved.update([self.next])

    def run(self, ctx):
        while self.running and self.next < COUNT:
            with ctx.get_checkpoint_lock():
                for number in range(self.next, self.next + 3):
                    ctx.collect(number)
                self.next += 3

    def cancel(self):
        self.running = False


class Once(SourceFunction):
    """Takes lines out of a file that nobody gives again, and acknowledges each when it is handed over."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def run(self, ctx):
        acknowledged = Path(self.path + ".acknowledged")
        done = int(acknowledged.read_text()) if acknowledged.exists() else 0
        for number in range(done, COUNT):
            ctx.collect(-1 - number)
            staged = Path(self.path + ".staged")
            staged.write_text(str(number + 1))
            staged.replace(acknowledged)


def source_functions(env, directory):
    groups = env.add_source(Groups(), "groups").uid("groups")
    once = env.add_source(Once(directory + "/queue"), "once").uid("once")
    return groups.union(once).map(dying(directory, (500, 300, 100)), Types.STRING()).uid("check")


RULES = MapStateDescriptor("rules")


class Judge(KeyedBroadcastProcessFunction):
    """Counts by key; a timer at the end tells the count and how many rules are known."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = 0

    def process_element(self, value, ctx):
        self.seen += 1
        for limit in (60, 40, 20):
            if self.seen >= limit:
                die_once(self.directory, str(limit))
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**9 + value)

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        state.put(value % 5, (state.get(value % 5) or 0) + 1)

    def on_timer(self, timestamp, ctx):
        rules = sorted(ctx.get_broadcast_state(RULES).items())
        yield f"{timestamp - 10**9} {self.count.value()} {rules}"


def broadcast_and_timers(env, directory):
    def numbers(name, last):
        source = NumberSequenceSource(0, last)
        return env.from_source(source, WatermarkStrategy.no_watermarks(), name).uid(name).set_parallelism(1)

    rules = numbers("rules", 299).broadcast(RULES)
    keyed = numbers("numbers", COUNT - 1).key_by(lambda number: number % 7)
    return keyed.connect(rules).process(Judge(directory), Types.STRING()).uid("judge")


PROGRAMS = {build.__name__: build for build in (buffers, folder, source_functions, broadcast_and_timers)}


def main(name, directory, parallelism):
    os.fsync = lambda descriptor: None  # processes die in a test, the machine does not
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(
            {
                "high-availability.storageDir": directory + "/ha",
                "execution.checkpointing.dir": directory + "/checkpoints",
                "execution.checkpointing.interval": "1 ms",
                "execution.checkpointing.num-retained": 3,
                "millstream.epoch.fixed-records": 10,
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 20,
                "restart-strategy.fixed-delay.delay": "10 ms",
            }
        )
    )
    env.set_parallelism(parallelism)
    sink = FileSink.for_row_format(directory + "/out", Encoder.simple_string_encoder()).build()
    PROGRAMS[name](env, directory).sink_to(sink).uid("files")
    env.execute(name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
