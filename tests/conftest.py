"""Runs programs on an executor of choice; Spark's session is shared by all tests of this process."""

from __future__ import annotations

import contextlib
import os
import pickle
import pwd
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
from hypothesis import settings

from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from servers.kafka import KafkaServer

# A script's shell has what it puts into the background ignore Ctrl-C, and all that this starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are slow now and then; what takes too long is caught by the limit on the test as a whole.
settings.register_profile("millstream", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("millstream")

# `batch_forms`, `servers`: with `--import-mode=importlib` tests have no directory on the path.
sys.path.append(str(Path(__file__).parent))

NewEnvironment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture(scope="session", autouse=True)
def directories_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the directory below which all tests have theirs, before one of them moves the temporary directory."""
    tmp_path_factory.getbasetemp()


@pytest.fixture(scope="module")
def new_environment(request: pytest.FixtureRequest) -> Iterator[NewEnvironment]:
    """Make environments: `new_environment("local[2]", 2, {"millstream.epoch.fixed-records": 10})`.

    Functions and classes of the test's module travel by value: slots cannot import tests.
    """
    module = sys.modules[request.module.__name__]
    cloudpickle.register_pickle_by_value(module)

    def make(
        target: str = "local", parallelism: int = 1, options: dict[str, Any] | None = None
    ) -> StreamExecutionEnvironment:
        configuration = Configuration.from_dict({"execution.target": target, **(options or {})})
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        environment.set_parallelism(parallelism)
        return environment

    yield make
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka broker, for all tests of a process. Tests that kill it start it again."""
    from servers.kafka import KafkaServer  # its client is not needed by most tests

    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        server.warm_up()
        yield server
    finally:
        server.stop()


class OtherUser:
    """Another user of this machine: `nobody`, in children of this process."""

    def __init__(self) -> None:
        found = pwd.getpwnam("nobody")
        self.uid, self.gid = found.pw_uid, found.pw_gid
        self._children: list[int] = []

    def do(self, action: Callable[[], Any]) -> Any:
        """Do something as that user; return what it returns, or raise what it raises."""
        return self.begin(action)()

    def begin(self, action: Callable[[], Any]) -> Callable[[], Any]:
        """Begin something as that user; return what waits for what comes of it."""
        source, target = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child uses none of them
            child = os.fork()
        if not child:
            os.close(source)
            self._act(action, target)
        os.close(target)
        self._children.append(child)

        def wait() -> Any:
            with open(source, "rb") as outcome:
                data = outcome.read()
            self._end(child)
            assert data, "the other user's process was killed"
            result, error = pickle.loads(data)
            if error is not None:
                raise error
            return result

        return wait

    def _act(self, action: Callable[[], Any], target: int) -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)
            outcome = (action(), None)
        except BaseException as error:
            outcome = (None, error)
        with contextlib.suppress(BaseException), open(target, "wb") as file:
            file.write(pickle.dumps(outcome))
        os._exit(0)

    def _end(self, child: int) -> None:
        self._children.remove(child)
        os.waitpid(child, 0)

    def close(self) -> None:
        """Kill what is still under way."""
        for child in list(self._children):
            os.kill(child, signal.SIGKILL)
            self._end(child)


@pytest.fixture
def nobody() -> Iterator[OtherUser]:
    """Another user of this machine."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    other = OtherUser()
    yield other
    other.close()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that everybody may write, as /tmp is, in its place."""
    directory = Path(tempfile.mkdtemp(prefix="ms-public-", dir="/tmp"))
    directory.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    yield directory
    shutil.rmtree(directory)
