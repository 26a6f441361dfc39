"""Runs Python functions as Spark's tasks with few calls of the JVM.

PySpark builds an RDD by some thirty calls for each function, most of them to convert and look up what is the same for
all: the environment, the interpreter, classes. Here that is done once. An RDD of a function is then two calls.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from py4j.java_collections import ListConverter, MapConverter
from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

__all__ = ["PythonTask", "PythonTasks"]

PythonTask = Callable[[int, Iterable[Any]], Iterator[bytes]]
"""Takes the number of its partition and its input, gives frames."""

_log = logging.getLogger(__name__)
_FRAMES = NoOpSerializer()
_BROADCAST_BYTES = 1 << 20


class PythonTasks:
    """Runs tasks in a session, for one job; called by one thread.

    Args:
        context: Of Spark.
        slots: How many partitions a stage has that is more than one task.
    """

    def __init__(self, context: SparkContext, slots: int) -> None:
        self._context = context
        jvm: Any = context._jvm
        client = context._gateway._gateway_client  # type: ignore[union-attr]
        self._function = jvm.SimplePythonFunction
        self._python_rdd = jvm.PythonRDD
        self._pairwise_rdd = jvm.PairwiseRDD
        self._value_of_pair = jvm.PythonRDD.valueOfPair
        self._collect_and_serve = jvm.PythonRDD.collectAndServe
        self._environment = MapConverter().convert(context.environment, client)
        self._includes = ListConverter().convert(context._python_includes, client)
        self._no_broadcasts = ListConverter().convert([], client)
        self._partitioner = jvm.PythonPartitioner(slots, 0)
        anchors: list[RDD[Any]] = [context.parallelize([], partitions) for partitions in (1, slots)]
        self._anchor, self._anchors = (anchor._jrdd.rdd() for anchor in anchors)
        self._anchor_items = anchors[0]._jrdd_deserializer

    def run_one(self, task: PythonTask) -> bytes:
        """Run one task and return its only frame, which is not large."""
        return self.begin_one(task)()

    def begin_one(self, task: PythonTask) -> Callable[[], bytes]:
        """Have Spark run one task; return what waits for its only frame, on any thread."""
        rdd = self._make(self._anchor, task, self._anchor_items)
        # Not `collect`: it has Spark read the code of two large classes each time, to look into its closures.
        running = rdd.asJavaRDD().collectAsync()

        def wait() -> bytes:
            frame: bytes = running.get()[0]
            return frame

        return wait

    def run_stages(self, tasks: Sequence[PythonTask]) -> list[bytes]:
        """Run a stage of a task for each slot, exchange what it gives by slot, run the next stage.

        Args:
            tasks: Of each stage; all but the last give target and frame in turn, see `shuttle.pack_target`.

        Returns:
            The frames of the last stage.
        """
        rdd = self._make(self._anchors, tasks[0], self._anchor_items)
        for task in tasks[1:]:
            # What `RDD.partitionBy` does, without pickling frames once more.
            pairs = self._pairwise_rdd(rdd).asJavaPairRDD()
            routed = self._value_of_pair(pairs.partitionBy(self._partitioner))
            rdd = self._make(routed.rdd(), task, _FRAMES)
        try:
            with _load_from_socket(self._collect_and_serve(rdd), _FRAMES) as frames:
                return list(frames)
        finally:
            if len(tasks) > 1:
                _clean_shuffles(rdd)

    def _make(self, parent: Any, task: PythonTask, items: Any) -> Any:
        """Return the RDD of a task."""
        command = (task, None, items, _FRAMES)
        pickled, broadcasts = pickle.dumps(command, protocol=5), self._no_broadcasts
        if len(pickled) > _BROADCAST_BYTES:
            pickled, broadcasts, _, _ = _prepare_for_python_RDD(self._context, command)
        context = self._context
        function = self._function(
            bytearray(pickled),
            self._environment,
            self._includes,
            context.pythonExec,
            context.pythonVer,
            broadcasts,
            context._javaAccumulator,
        )
        return self._python_rdd(parent, function, False, False)


def _clean_shuffles(rdd: Any) -> None:
    try:
        rdd.cleanShuffleDependencies(False)
    except (OSError, Py4JError) as error:
        _log.debug("the JVM is gone, and the epoch's shuffle with it: %s", error)
