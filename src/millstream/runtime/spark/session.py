"""Opens the Spark session that a job runs in.

A session that exists already is used as it is and never stopped; otherwise one is created, with the settings
that epochs need, and stopped together with its JVM when its handle is closed.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import signal
import sys
import sysconfig
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, MillstreamError, NotSupportedError
from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.config.targets import check_target
from millstream.runtime.connect.sockets import find_directory
from millstream.runtime.spark.java import find_java
from millstream.runtime.spark.jvm import Jvm, import_pyspark, read_spark_defaults, start_jvm
from millstream.runtime.spark.master import check_hadoop_is_configured, check_master_answers
from millstream.runtime.spark.shared import SESSION_VARIABLE, attach
from millstream.runtime.spark.vital import is_alive, is_stopped, session_lost, session_stopped

__all__ = [
    "SessionConfig",
    "SessionHandle",
    "SparkConnectError",
    "acquire_session",
    "check_settings",
    "find_session",
    "open_session",
    "release_session",
    "shared_session",
]

log = logging.getLogger(__name__)

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
UNIX_SOCKET_DIRECTORY = "spark.python.unix.domain.socket.dir"
SAFE_PATH = "spark.executorEnv.PYTHONSAFEPATH"
DYNAMIC_ALLOCATION = "spark.dynamicAllocation.enabled"
WORKER_PATH = "spark.executorEnv.PYTHONPATH"
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit has started the program: its JVM is there already."""

ALWAYS = {
    UNIX_SOCKETS: "true",
    DYNAMIC_ALLOCATION: "false",
    "spark.python.worker.reuse": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# One machine: compressing costs more than it saves, and nothing needs the machine's name or network.
ON_ONE_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.shuffle.compress": "false",
}
# Several hosts: one may go without a word. Spark's own values would have it wait for up to three minutes.
ON_SEVERAL_HOSTS = {
    "spark.executor.heartbeatInterval": "5s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "60000",
    "spark.storage.blockManagerTimeoutIntervalMs": "10000",
    # Else the thread that removes old broadcasts, and with it the end of the session, waits for that host's answer.
    "spark.cleaner.referenceTracking.blocking": "false",
}
# The path of a container's temporary directory is too long for a socket (107 bytes): Python workers would end at once.
ON_YARN = {UNIX_SOCKET_DIRECTORY: "/tmp"}


class SparkConnectError(NotSupportedError):
    """The Spark session is a Spark Connect client, which has no RDDs."""

    code = "SPARK_CONNECT"


@dataclass(frozen=True)
class SessionConfig:
    """How to create a Spark session where there is none.

    Attributes:
        master: `local[n]`, `local[*]`, `local-cluster[workers,cores,megabytes]`, `spark://host:port`, `yarn`
            or `k8s://...`.
        app_name: Name shown by Spark.
        conf: Further settings of Spark; they have the last word over millstream's own.
        verbose: Let Spark log at its usual level instead of warnings and errors only.
    """

    master: str = "local[*]"
    app_name: str = "millstream"
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False

    def __post_init__(self) -> None:
        check_target(self.master)

    @staticmethod
    def of(configuration: Configuration) -> SessionConfig:
        """Return what a job's options say."""
        return SessionConfig(
            master=configuration.get(options.TARGET),
            app_name=configuration.get(options.PIPELINE_NAME) or "millstream",
            conf=configuration.spark_settings(),
            verbose=configuration.get(options.VERBOSE),
        )

    @property
    def on_one_machine(self) -> bool:
        """Whether driver and executors share this machine."""
        return self.master.startswith("local")


class SessionHandle:
    """A Spark session that a job may use; close it on the thread that opened it.

    Attributes:
        context: Spark's context, for RDDs.
        owned: Whether millstream created it, so that closing the handle stops it.
        running_stays: Carriers that stay (`carrier_stays.py`) and have a core, of all jobs in the session.
    """

    def __init__(
        self,
        context: SparkContext,
        *,
        owned: bool,
        jvm: Jvm | None = None,
        interrupt_handler: Any = None,
        verbose: bool = False,
    ) -> None:
        self.context = context
        self.owned = owned
        self.running_stays: set[object] = set()
        self._jvm = jvm
        self._interrupt_handler = interrupt_handler
        self._verbose = verbose
        self._closed = False

    @property
    def session(self) -> Any:
        """The `SparkSession` over `context`; built when it is first asked for (about half a second)."""
        from pyspark.sql import SparkSession  # slow to import, and most jobs need RDDs only

        return SparkSession.builder.getOrCreate()

    def is_lost(self) -> bool:
        """Return whether the JVM has ended though nobody has stopped the context."""
        return self.context._jsc is not None and not is_alive(self.context)

    def find_loss(self) -> MillstreamError | None:
        """Return what to raise if the session is not there any more; None if it is."""
        if is_stopped(self.context):
            return session_stopped(owned=self.owned)
        return session_lost(owned=self.owned) if self.is_lost() else None

    def close(self) -> None:
        """Stop what `open_session` created: the context, and the JVM if that was started too.

        Does nothing for a session that was there before, and nothing when called again.
        """
        if self._closed:
            return
        self._closed = True
        if not self.owned:
            return
        was_lost = self.is_lost()
        if self._jvm is not None and not self._verbose and self.context._jsc is not None:
            _silence(self.context)
        try:
            _stop_context(self.context)
        finally:
            _restore_interrupt_handler(self._interrupt_handler)
            if self._jvm is not None:
                _forget_gateway(self._jvm.gateway)
                self._jvm.stop()
            elif was_lost:  # of a JVM that PySpark started for another session before
                _forget_gateway(self.context._gateway)

    def __enter__(self) -> SessionHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_session(config: SessionConfig) -> SessionHandle:
    """Return the active Spark session, one that this process is to attach to, or a new one made from `config`.

    Must be called on the driver; on its main thread if Ctrl-C is to cancel Spark's jobs.

    Raises:
        SparkConnectError: If Spark is used through Spark Connect.
        JavaNotFoundError: If a JVM is needed and there is no Java to run it.
        JvmStartError: If the JVM does not start.
        SparkMasterError: If the master of a standalone cluster does not answer.
        ConfigurationError: If YARN is to be used and nothing says where it is.
        SessionLostError: If the session to attach to has ended.
    """
    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        if not is_alive(context):
            raise session_lost(owned=False)
        check_settings(context)
        return SessionHandle(context, owned=False)
    handed_over = os.environ.get(SESSION_VARIABLE)
    if handed_over:
        return SessionHandle(attach(handed_over), owned=False)
    _check_not_connect(config)
    if GATEWAY_PORT in os.environ and SparkContext._gateway is None:
        return _join_submitted(config)
    if config.master == "yarn":
        check_hadoop_is_configured(os.environ)
    if config.master.startswith("spark://"):
        check_master_answers(config.master, SystemClock())
    return _create_session(config)


_ENDING_S = 5.0
"""How long a session with other settings is waited for: a job that was cancelled needs a moment to end."""


class SharedSession:
    """The one session of this process that jobs share, also jobs that run at once; any thread may call it.

    It stays open for later jobs, until the process ends. Spark allows one context in a process, so one with other
    settings is closed first, unless a job runs in it; one that is just ending is waited for.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._kept: tuple[SessionConfig, SessionHandle] | None = None
        self._users = 0

    def acquire(self, config: SessionConfig) -> SessionHandle:
        """Return the session for `config`; `release` it when the job has ended.

        Raises:
            ConfigurationError: If a job runs in one with other settings; names those that differ.
            MillstreamError: What `open_session` raises.
        """
        with self._lock:
            handle = self._find(config)
            if handle is None:
                handle = open_session(config)
                if self._kept is None:
                    atexit.register(self.close)
                self._kept = (config, handle)
            self._users += 1
            return handle

    def release(self) -> None:
        """Tell that a job needs the session no more."""
        with self._lock:
            self._users -= 1
            self._released.notify_all()

    def close(self) -> None:
        """Stop the session, if millstream made it."""
        if self._kept is not None:
            self._kept[1].close()

    def _find(self, config: SessionConfig) -> SessionHandle | None:
        if self._kept is None:
            return None
        kept, handle = self._kept
        if handle.context._jsc is None:
            self._users = 0  # somebody stopped it: what ran in it fails
            return None
        if handle.is_lost():
            if not handle.owned:
                raise session_lost(owned=False)
            log.warning("the JVM of Spark's driver has ended, and another is started")
            handle.close()
            return None
        differences = _differences(kept, config)
        if not differences:
            return handle
        if self._users and self._released.wait_for(lambda: not self._users, _ENDING_S):
            return self._find(config)  # another job may have taken its place meanwhile
        if self._users:
            raise ConfigurationError(
                f"a job of this process runs in a Spark session with other settings: {'; '.join(differences)}",
                detail="Spark allows one session in a process.",
                hint="Give both jobs the same settings, wait until the other has ended, or start another process.",
            )
        handle.close()
        return None


_session = SharedSession()
acquire_session = _session.acquire
release_session = _session.release


def shared_session(config: SessionConfig) -> SessionHandle:
    """Return the process's session for `config`, for who does not mind that a later job may close it.

    Raises:
        MillstreamError: As `SharedSession.acquire`.
    """
    handle = acquire_session(config)
    release_session()
    return handle


def find_session(configuration: Configuration) -> Any:
    """Return the `SparkSession` that is there, or the one of jobs with these options.

    Raises:
        ConfigurationError: If there is none, and jobs do not run on Spark.
    """
    context = SparkContext._active_spark_context
    if configuration.get(options.TARGET) == "local" and (context is None or context._jsc is None):
        raise ConfigurationError(
            "there is no Spark session",
            detail="The job runs in this process, without Spark.",
            hint="Give the call the session that is to read the result.",
        )
    return shared_session(SessionConfig.of(configuration)).session


def _differences(kept: SessionConfig, config: SessionConfig) -> list[str]:
    """Return which settings differ, and how.

    >>> _differences(SessionConfig("local[2]"), SessionConfig("local[4]", conf={"spark.x": "1"}))
    ['master is local[2], not local[4]', 'spark.x is not set, not 1']
    """
    pairs = {"master": (kept.master, config.master)}
    for key in sorted({*kept.conf, *config.conf}):
        pairs[key] = (kept.conf.get(key, "not set"), config.conf.get(key, "not set"))
    return [f"{key} is {before}, not {now}" for key, (before, now) in pairs.items() if before != now]


def check_settings(context: SparkContext) -> list[str]:
    """Log, and return, what in the settings of a Spark session slows jobs down or endangers them."""
    conf = context.getConf()
    complaints = []
    if conf.get(DYNAMIC_ALLOCATION, "false") == "true":
        complaints.append(
            f"{DYNAMIC_ALLOCATION} is true: Spark may remove executors that hold slots, and jobs then restart"
        )
    if conf.get(UNIX_SOCKETS, "false") != "true":
        complaints.append(f"{UNIX_SOCKETS} is not true: each epoch takes about twice as long")
    for complaint in complaints:
        log.warning("spark session has an unsuitable setting: %s", complaint)
    return complaints


def _create_session(config: SessionConfig) -> SessionHandle:
    settings = _compose_settings(config, read_spark_defaults())
    interrupt_handler = signal.getsignal(signal.SIGINT)
    jvm = None
    if not config.verbose:
        # A program that logs at INFO does not want to read of each connection to the JVM.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        logging.getLogger().addFilter(_is_not_of_a_lost_call)
    if SparkContext._gateway is None:
        jvm = start_jvm(find_java(), settings, verbose=config.verbose)
    try:
        context = _create_context(settings, jvm)
    except BaseException:
        if jvm is not None:
            _forget_gateway(jvm.gateway)
            jvm.stop()
        raise
    check_settings(context)
    # What PySpark receives of accumulators ends with the JVM, which it would report with a traceback.
    context._accumulatorServer.handle_error = _note_error  # type: ignore[method-assign,assignment]
    return SessionHandle(
        context, owned=True, jvm=jvm, interrupt_handler=interrupt_handler, verbose=config.verbose
    )


def _join_submitted(config: SessionConfig) -> SessionHandle:
    """Make the session of a program that spark-submit has started: in the JVM that it has, on the master that it names.

    So a program runs in the application master of YARN, or in a driver's pod that Spark has made.
    """
    import_pyspark()
    interrupt_handler = signal.getsignal(signal.SIGINT)
    SparkContext._ensure_initialized()
    submitted = dict(SparkConf().getAll())
    master = submitted.get("spark.master", config.master)
    settings = _compose_settings(
        replace(
            config,
            master=master,
            app_name=submitted.get("spark.app.name", config.app_name),
            conf={**submitted, **config.conf},
        ),
        {},  # spark-submit has read them; where it has started this program there need not be an installation
    )
    context = _create_context(settings, None)
    check_settings(context)
    return SessionHandle(context, owned=True, interrupt_handler=interrupt_handler, verbose=config.verbose)


def _is_not_of_a_lost_call(record: logging.LogRecord) -> bool:
    """Keep back the tracebacks that py4j writes, as the program's own log, of calls to a JVM that has ended."""
    return not (record.module == "java_gateway" and record.msg == "Exception while sending command.")


def _note_error(*_: object) -> None:
    log.debug("the connection for accumulators ended", exc_info=True)


def _create_context(settings: Mapping[str, str], jvm: Jvm | None) -> SparkContext:
    conf = SparkConf(loadDefaults=jvm is None)
    conf.setAll(list(settings.items()))
    # PySpark reads the interpreter of its workers from the environment and nowhere else.
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    try:
        return SparkContext(conf=conf, gateway=None if jvm is None else jvm.gateway)
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before


def _compose_settings(config: SessionConfig, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings: millstream's own, then the installation's defaults, then the user's."""
    given = dict(defaults) | {key: str(value) for key, value in config.conf.items()}
    settings = dict(ALWAYS)
    settings |= ON_ONE_MACHINE | _guards(config.master) if config.on_one_machine else ON_SEVERAL_HOSTS
    settings |= ON_YARN if config.master == "yarn" else {}
    settings |= given | _python_settings(given)
    settings |= {"spark.master": config.master, "spark.app.name": config.app_name}
    if config.on_one_machine:
        settings[DRIVER_OPTIONS] = _tune_jvm(given.get(DRIVER_OPTIONS, ""))
    return settings


def _guards(master: str) -> dict[str, str]:
    """Return settings that keep other users of this machine out.

    Spark's ports on the loopback interface take orders from whoever can reach them; with `local[n]` Spark makes up the
    secret itself. Its Unix sockets ask nobody for one, so they lie where nobody else gets to them. Its Python workers
    would import from the working directory first, where others may write.
    """
    settings = {SAFE_PATH: "1"}
    if not master.startswith("local-cluster"):
        settings["spark.authenticate"] = "true"
    directory = find_directory("spark", f".{uuid.UUID(int=0)}.sock")
    if directory is not None:
        settings[UNIX_SOCKET_DIRECTORY] = str(directory)
    return settings


def _tune_jvm(options: str) -> str:
    """Return `options` with the parallel collector and the fast compiler alone, unless they choose themselves.

    Epochs are a little of everything that Spark has. The optimizing compiler goes on for minutes with that, on a core
    that slots need, and makes tasks no faster that only hand on bytes.

    >>> _tune_jvm("-Xss4m")
    '-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -Xss4m'
    >>> _tune_jvm("-XX:+UseZGC -XX:+TieredCompilation")
    '-XX:+UseZGC -XX:+TieredCompilation'
    """
    chosen = []
    if not re.search(r"-XX:\+Use\w+GC\b", options):
        chosen.append("-XX:+UseParallelGC")
    if not re.search(r"-XX:[+-]?(Tiered|Tier4)|-Xint\b|-Xcomp\b", options):
        chosen.append("-XX:TieredStopAtLevel=1")
    return " ".join([*chosen, options]).strip()


def _python_settings(given: Mapping[str, str]) -> dict[str, str]:
    python = given.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    settings = {"spark.pyspark.python": python, "spark.pyspark.driver.python": sys.executable}
    root = str(Path(__file__).resolve().parents[3])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # What is installed is found by the same interpreter; on PYTHONPATH it would hide the standard library.
    if root not in {os.path.realpath(path) for path in installed}:
        theirs = given.get(WORKER_PATH)
        settings[WORKER_PATH] = root if not theirs else f"{theirs}{os.pathsep}{root}"
    return settings


def _check_not_connect(config: SessionConfig) -> None:
    module = sys.modules.get("pyspark.sql.connect.session")
    active = None if module is None else module.SparkSession.getActiveSession()
    reason = None
    if active is not None:
        reason = "the active Spark session is a Spark Connect client"
    elif config.master.startswith("sc://"):
        reason = f'master "{config.master}" names a Spark Connect server'
    elif "spark.remote" in config.conf or config.conf.get("spark.api.mode") == "connect":
        reason = "the settings ask for Spark Connect"
    elif "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        reason = "the environment asks for Spark Connect (SPARK_REMOTE or SPARK_CONNECT_MODE_ENABLED)"
    if reason is not None:
        raise SparkConnectError(
            reason,
            detail="Jobs run on RDDs, which Spark Connect and serverless Spark do not have.",
            hint="Stop that session or unset the variable, and run on a classic session: master local[*], "
            "spark://host:port, yarn or k8s://host:port; or use the local executor, which needs no Spark.",
        )


def _silence(context: SparkContext) -> None:
    """Have the JVM and Spark's Python workers say nothing more.

    Whatever Spark still removes while it stops, and every worker whose connection it closes, is reported as an
    error. What workers print goes through the JVM's standard error too.
    """
    try:
        context.setLogLevel("OFF")
        jvm: Any = context._jvm
        jvm.java.lang.System.err.close()
    except (OSError, Py4JError) as error:
        log.debug("the JVM is gone already: %s", error)


def _stop_context(context: SparkContext) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    stopping = session if session is not None and session.sparkContext is context else context
    try:
        stopping.stop()
    except (OSError, Py4JError) as error:
        log.warning("spark context did not stop cleanly: its JVM is gone: %s", error)
        context.stop()  # what is left of it in Python
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def _restore_interrupt_handler(handler: Any) -> None:
    """Undo what `SparkContext` did to SIGINT; only the main thread can, and could."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _forget_gateway(gateway: Any) -> None:
    """Make PySpark start or accept another JVM the next time: it keeps the gateway for good."""
    if SparkContext._gateway is gateway:
        SparkContext._gateway = None
        SparkContext._jvm = None
