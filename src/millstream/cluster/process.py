"""`python -m millstream.cluster.process DIRECTORY`: a dispatcher in a process of its own.

It holds a lock on the cluster's directory as long as it lives: a second one on the same directory is refused. When it
is found by others it writes "ready" to standard output, and then nothing more.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from pathlib import Path

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, MillstreamError
from millstream.cluster.dispatcher import Dispatcher, DispatcherConfig
from millstream.cluster.door import ClusterDoor
from millstream.cluster.planning import plan_program
from millstream.cluster.uploads import UploadedPrograms
from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.config.options_rest import REST_ENABLED, REST_SUBMIT, REST_UPLOAD_BYTES
from millstream.files.private_files import check_private
from millstream.rest.directory import StartingProgram
from millstream.rest.user_jobs import serve_user_jobs
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.reporting.log_lines import set_up_logging

__all__ = ["main"]

_CONFIG_VARIABLE = "MILLSTREAM_CONFIG"
_MAIN_LOG = "dispatcher.log"


def main(path: str) -> int:
    """Run a dispatcher on a directory until it is told to stop; return the exit code."""
    directory = Path(path)
    try:
        configuration = Configuration.load(os.environ)
        set_up_logging(configuration)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(directory)
        lock = _lock(directory)
        clock = SystemClock()
        target = configuration.get(options.TARGET)
        dispatcher = Dispatcher(
            DispatcherConfig(
                directory,
                options=_program_options(),
                target=target,
                variables={key: value for key, value in os.environ.items() if key != _CONFIG_VARIABLE},
            ),
            clock,
        )
        server = serve_user_jobs(
            configuration,
            clock,
            lambda: _without_job(dispatcher),
            logs=lambda: _log_files(directory),
            logs_of=lambda pid: _log_files_of(directory, dispatcher, pid),
            main_log=_MAIN_LOG,
            programs=_programs(directory, dispatcher, configuration, clock),
        )
        facts = {
            "directory": str(directory),
            "target": target,
            "started_ms": clock.now_ms(),
            "rest": server.address,
        }
        door = ClusterDoor(dispatcher, facts)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: dispatcher.stop())
        door.start()
    except (MillstreamError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        dispatcher.run()
    finally:
        door.close()
        server.close()
        os.close(lock)
    return 0


def _without_job(dispatcher: Dispatcher) -> list[StartingProgram]:
    """Return the programs that have not submitted a job yet, or whose last has ended."""
    have_jobs = {job.pid for job in find_jobs()}
    return [
        StartingProgram(each.application_id, each.name, each.status, each.since_ms, each.message)
        for each in dispatcher.applications()
        if not each.has_ended and (each.pid is None or each.pid not in have_jobs)
    ]


def _programs(
    directory: Path, dispatcher: Dispatcher, configuration: Configuration, clock: Clock
) -> UploadedPrograms | None:
    """Return who takes programs by the REST API, if the options allow that."""
    if not configuration.get(REST_SUBMIT):
        return None
    return UploadedPrograms(
        directory,
        lambda program, name: dispatcher.submit(program, name=name),
        dispatcher.find,
        lambda program: plan_program(program, _program_options(), os.environ),
        clock,
        most_bytes=configuration.get(REST_UPLOAD_BYTES),
    )


def _log_files(directory: Path) -> dict[str, Path]:
    """Return the log files of the cluster and of its programs, `<application id>-<start>.log`, by name."""
    own = {name: directory / name for name in (_MAIN_LOG, "session.log")}
    of_programs = {
        f"{path.parent.parent.name}-{path.name}": path
        for path in (directory / "applications").glob("*/log/*.log")
    }
    return {**of_programs, **own}


def _log_files_of(directory: Path, dispatcher: Dispatcher, pid: int) -> dict[str, Path]:
    """Return the log files of the program that runs as a process."""
    ids = {each.application_id for each in dispatcher.applications() if each.pid == pid}
    return {name: path for name, path in _log_files(directory).items() if path.parent.parent.name in ids}


def _program_options() -> dict[str, str]:
    """Return what programs have as options: the cluster serves their jobs, so they listen on no port themselves."""
    given: dict[str, str] = json.loads(os.environ.get(_CONFIG_VARIABLE) or "{}")
    return {**given, REST_ENABLED.key: "false"}


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigurationError(
            f'another dispatcher runs on "{directory}"',
            hint="`millstream cluster status` shows it; `millstream cluster stop` ends it.",
        ) from None
    return descriptor


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
