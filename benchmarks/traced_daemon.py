"""Spark's Python workers for `epoch.py`: each notes when its tasks begin, ask a slot first, are answered, and end; of a
carrier that stays, when it begins and ends each epoch.

Spark starts this module in place of its own (`spark.python.daemon.module`).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import daemon

TRACE = "MILLSTREAM_EPOCH_TRACE"

_work = daemon.worker


def _traced_work(sock: Any, authenticated: bool) -> int:
    """Run one task, as `pyspark.daemon.worker` does, and note its times."""
    from pyspark import worker

    if not hasattr(worker, "times"):
        _trace(worker)
    return _work(sock, authenticated)


def _trace(worker: Any) -> None:
    from millstream.runtime.slot import wire
    from millstream.runtime.spark import shuttle

    main = worker.main
    worker.times = []

    def noting(call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            worker.times.append(time.time())
            try:
                return call(*arguments, **options)
            finally:
                worker.times.append(time.time())

        return noted

    if hasattr(wire, "Conversation"):
        wire.Conversation.ask = noting(wire.Conversation.ask)  # type: ignore[method-assign]
        wire.Conversation.wait = noting(wire.Conversation.wait)  # type: ignore[method-assign]
    else:
        shuttle.ask = noting(shuttle.ask)

    carried: list[list[float]] = []
    with contextlib.suppress(ImportError):  # a checkout without carriers that stay
        from millstream.runtime.spark import staying_carrier

        carry_epoch = staying_carrier.carry_epoch

        def noting_epoch(*arguments: Any, **options: Any) -> Any:
            began = time.time()
            try:
                return carry_epoch(*arguments, **options)
            finally:
                carried.append([began, time.time()])

        staying_carrier.carry_epoch = noting_epoch

    def traced_main(infile: Any, outfile: Any) -> None:
        infile.peek(1)
        began = time.time()
        worker.times.clear()
        try:
            main(infile, outfile)
        finally:
            if worker.times:
                times = [began, worker.times[0], worker.times[-1], time.time()]
                with Path(os.environ[TRACE], f"worker-{os.getpid()}").open("a") as file:
                    file.write(json.dumps(["task", times]) + "\n")
                    file.writelines(json.dumps(["carried", each]) + "\n" for each in carried)
            carried.clear()

    worker.main = traced_main


if __name__ == "__main__":
    daemon.worker = _traced_work
    daemon.manager()
