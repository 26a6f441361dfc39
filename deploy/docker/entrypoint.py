"""The first process of a container, behind tini: an executor where Spark asks for one, else the command line.

=======================================  ==========================================================
arguments                                what runs
=======================================  ==========================================================
``executor``                             an executor of Spark on Kubernetes, as its pod's variables say
``driver ...``                           spark-submit, as its cluster mode on Kubernetes asks
anything else                            ``millstream`` with these arguments
=======================================  ==========================================================
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def compose(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command to run.

    Args:
        arguments: Of the container.
        environment: Its variables.

    Raises:
        KeyError: If Spark has not set a variable that an executor needs.
    """
    if arguments[:1] == ["executor"]:
        return executor(environment)
    if arguments[:1] == ["driver"]:
        address = environment["SPARK_DRIVER_BIND_ADDRESS"]
        bind = ["--conf", f"spark.driver.bindAddress={address}", "--deploy-mode", "client"]
        return [os.path.join(spark_home(environment), "bin", "spark-submit"), *bind, *arguments[1:]]
    return [sys.executable, "-m", "millstream.cli", *arguments]


def executor(environment: Mapping[str, str]) -> list[str]:
    """Return the command of an executor."""
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    paths = [environment.get(name, "") for name in ("SPARK_CONF_DIR", "SPARK_EXTRA_CLASSPATH")]
    class_path = os.pathsep.join(filter(None, [*paths, os.path.join(spark_home(environment), "jars", "*")]))
    return [
        java(environment),
        *java_options(environment),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        class_path,
        BACKEND,
        "--driver-url",
        environment["SPARK_DRIVER_URL"],
        "--executor-id",
        environment["SPARK_EXECUTOR_ID"],
        "--cores",
        environment["SPARK_EXECUTOR_CORES"],
        "--app-id",
        environment["SPARK_APPLICATION_ID"],
        "--hostname",
        environment["SPARK_EXECUTOR_POD_IP"],
        "--resourceProfileId",
        environment["SPARK_RESOURCE_PROFILE_ID"],
        "--podName",
        environment["SPARK_EXECUTOR_POD_NAME"],
    ]


def java_options(environment: Mapping[str, str]) -> list[str]:
    """Return options of the JVM, in the order of their numbers.

    >>> java_options({"SPARK_JAVA_OPT_10": "c", "SPARK_JAVA_OPT_2": "b", "SPARK_JAVA_OPT_0": "a", "HOME": "/"})
    ['a', 'b', 'c']
    """
    found = {
        int(match[1]): value
        for name, value in environment.items()
        if (match := re.fullmatch(r"SPARK_JAVA_OPT_(\d+)", name)) is not None
    }
    return [found[number] for number in sorted(found)]


def java(environment: Mapping[str, str]) -> str:
    """Return the Java to run."""
    home = environment.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environment.get("PATH"))
    if found is None:
        sys.exit("entrypoint: there is no Java: set JAVA_HOME, or install one in the image")
    return found


def spark_home(environment: Mapping[str, str]) -> str:
    """Return where Spark is: what SPARK_HOME names, or PySpark's package."""
    named = environment.get("SPARK_HOME")
    if named:
        return named
    import pyspark

    return os.path.dirname(pyspark.__file__)


if __name__ == "__main__":
    try:
        command = compose(sys.argv[1:], os.environ)
    except KeyError as missing:
        sys.exit(f"entrypoint: variable {missing} is not set; Spark sets it in the pods that it makes")
    os.execv(command[0], command)
