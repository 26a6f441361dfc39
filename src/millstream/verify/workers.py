"""Shares the seeds of a job among processes, each of which has a copy of the job.

They are begun anew, not forked: this process may have threads (a Spark session's, Arrow's), and what these hold as it
is forked is held in the child for good::

    here                                    a process
    the job, once                 ────►     unpickles it
    a seed, when it has none      ────►     runs it
    next seed, or the end         ◄────     its result, or what was raised
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType

import millstream
from millstream.base.errors import MillstreamError
from millstream.base.pyflink_names import install, is_installed
from millstream.runtime.program.main_module import dump_program, load_program
from millstream.verify.verifier import SeedResult, Verifier

__all__ = ["run_shared"]

_PACKAGES = str(Path(millstream.__file__).parent.parent)
_COMMAND = (
    f"import sys; sys.path.insert(0, {_PACKAGES!r}); from millstream.verify.workers import serve; serve()"
)


def run_shared(verifier: Verifier, seeds: Sequence[int], processes: int) -> Iterator[SeedResult]:
    """Run seeds in processes; these end with the iterator.

    Args:
        verifier: The job.
        seeds: The seeds.
        processes: How many.

    Yields:
        The results, in the order of the seeds.

    Raises:
        MillstreamError: If a process ends before its seed does.
    """
    payload = pickle.dumps((sys.path, is_installed())) + dump_program(verifier)
    todo = iter(enumerate(seeds))
    done: dict[int, SeedResult] = {}
    with ExitStack() as stack:
        idle = [stack.enter_context(_Worker(payload)) for _ in range(min(processes, len(seeds)))]
        busy: dict[int, tuple[_Worker, int]] = {}
        for place in range(len(seeds)):
            while place not in done:
                for worker, (given, seed) in zip(idle, todo, strict=False):
                    worker.ask(seed)
                    busy[worker.fileno()] = worker, given
                finished = [busy.pop(each) for each in busy.keys() & wait(list(busy))]
                done.update((given, worker.answer(seeds[given])) for worker, given in finished)
                idle = [worker for worker, _ in finished]
            yield done.pop(place)


class _Worker:
    """One process.

    Args:
        payload: The job.
    """

    def __init__(self, payload: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._send(payload)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._answers.close()
        try:
            self._requests.close()
        except BrokenPipeError:  # it ended before it was asked: its answer says so
            return

    def fileno(self) -> int:
        """Return what is ready when an answer is there, or the process has ended."""
        return self._answers.fileno()

    def ask(self, seed: int) -> None:
        """Have a seed run."""
        self._send(pickle.dumps(seed))

    def answer(self, seed: int) -> SeedResult:
        """Wait for what became of it.

        Raises:
            MillstreamError: If the process has ended.
        """
        try:
            result, error = pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):  # it wrote nothing, or a part
            raise MillstreamError(
                f"the process that ran seed {seed} ended with exit code {self._process.wait()}",
                hint=f"Run that seed alone, with --seed {seed}; what it printed last is above.",
            ) from None
        if error is not None:
            raise error
        found: SeedResult = result
        return found

    def _send(self, data: bytes) -> None:
        try:
            self._requests.write(data)
            self._requests.flush()
        except BrokenPipeError:  # it has ended: so says `answer`
            return


def serve() -> None:
    """Run the seeds that come on the standard input until it ends; results go to the standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; who asks ends this one
    requests = open(sys.stdin.fileno(), "rb")  # noqa: SIM115 - open to the end of the process
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what modules print as they are imported is no result
    search_path, with_pyflink = pickle.load(requests)
    sys.path[:] = search_path
    if with_pyflink:
        install()
    verifier, main = load_program(pickle.Unpickler(requests))
    main.install()
    while requests.peek(1):
        answers.write(_run(verifier, pickle.load(requests)))
        answers.flush()


def _run(verifier: Verifier, seed: int) -> bytes:
    try:
        return pickle.dumps((verifier.run_seed(seed), None))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the seed was asked for
        return _dump_error(error)


def _dump_error(error: Exception) -> bytes:
    try:
        data = pickle.dumps((None, error))
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - any error may refuse to be pickled, or unpickled, in any way
        return pickle.dumps((None, MillstreamError("".join(traceback.format_exception(error)))))
    return data
