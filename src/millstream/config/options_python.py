"""Options of a job's Python dependencies, and those of PyFlink that have nothing left to do, under Flink's keys."""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = [
    "CACHED_FILES",
    "CHAIN_DIFFERENT_MAX_PARALLELISM",
    "CLASSPATHS",
    "JARS",
    "JAR_OPTIONS",
    "PYTHON_ARCHIVES",
    "PYTHON_EXECUTABLE",
    "PYTHON_FILES",
    "PYTHON_OPTIONS",
    "PYTHON_PATH",
    "PYTHON_REQUIREMENTS",
]

PYTHON_FILES: Final = ConfigOption(
    "python.files",
    OptionType.STRING,
    None,
    "Python files, packages, directories and zip files, separated by commas; slots can import them.",
)
PYTHON_REQUIREMENTS: Final = ConfigOption(
    "python.requirements",
    OptionType.STRING,
    None,
    "A requirements.txt that pip installs for the slots; with #directory, from the packages in there only.",
)
PYTHON_ARCHIVES: Final = ConfigOption(
    "python.archives",
    OptionType.STRING,
    None,
    "Archives that are unpacked in the slots' working directory, separated by commas; with #name, as name.",
)
PYTHON_EXECUTABLE: Final = ConfigOption(
    "python.executable",
    OptionType.STRING,
    None,
    "Python interpreter of the slots; a relative path may lead into an archive. It must have millstream.",
)
PYTHON_PATH: Final = ConfigOption(
    "python.pythonpath",
    OptionType.STRING,
    None,
    "Directories, as in PYTHONPATH, where the slots look for modules; they must exist on every host.",
)
CACHED_FILES: Final = ConfigOption(
    "pipeline.cached-files",
    OptionType.STRING,
    None,
    "Files for get_distributed_cache(): name:n,path:p,executable:false, separated by semicolons.",
)
CHAIN_DIFFERENT_MAX_PARALLELISM: Final = ConfigOption(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    OptionType.BOOLEAN,
    True,
    "Accepted for compatibility: operators are chained by their parallelism.",
)
JARS: Final = ConfigOption(
    "pipeline.jars",
    OptionType.STRING,
    None,
    "Accepted for compatibility: no operator here is written in Java.",
)
CLASSPATHS: Final = ConfigOption(
    "pipeline.classpaths", OptionType.STRING, None, "Accepted for compatibility, as pipeline.jars."
)


def _needless(key: str, kind: OptionType, default: object, why: str) -> ConfigOption:
    return ConfigOption(key, kind, default, f"Accepted for compatibility: {why}.")


_NO_BUNDLES = "whole batches go to the functions, in the process that has the state"
_NEEDLESS: Final = (
    _needless("python.client.executable", OptionType.STRING, None, "the program runs in its own interpreter"),
    _needless("python.execution-mode", OptionType.STRING, "process", "functions run in their slot"),
    _needless("python.fn-execution.bundle.size", OptionType.POSITIVE_INTEGER, 1000, _NO_BUNDLES),
    _needless("python.fn-execution.bundle.time", OptionType.DURATION, 1000, _NO_BUNDLES),
    _needless("python.fn-execution.arrow.batch.size", OptionType.POSITIVE_INTEGER, 1000, _NO_BUNDLES),
    _needless("python.fn-execution.buffer.memory.size", OptionType.STRING, None, _NO_BUNDLES),
    _needless("python.fn-execution.framework.memory.size", OptionType.STRING, None, _NO_BUNDLES),
    _needless("python.fn-execution.memory.managed", OptionType.BOOLEAN, True, "there is no managed memory"),
    _needless("python.fn-execution.streaming.enabled", OptionType.BOOLEAN, True, _NO_BUNDLES),
    _needless(
        "python.state.cache-size", OptionType.INTEGER, 1000, "state lies in the slot, not behind a cache"
    ),
    _needless("python.map-state.read-cache-size", OptionType.INTEGER, 1000, "state lies in the slot"),
    _needless("python.map-state.write-cache-size", OptionType.INTEGER, 1000, "state lies in the slot"),
    _needless(
        "python.map-state.iterate-response-batch-size", OptionType.INTEGER, 1000, "state lies in the slot"
    ),
    _needless("python.metric.enabled", OptionType.BOOLEAN, True, "metrics cost next to nothing"),
    _needless("python.profile.enabled", OptionType.BOOLEAN, False, "slots are not profiled"),
    _needless("python.operator-chaining.enabled", OptionType.BOOLEAN, True, "all operators are Python's"),
    _needless("python.systemenv.enabled", OptionType.BOOLEAN, True, "slots have their host's environment"),
)

PYTHON_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_PATH,
    *_NEEDLESS,
)
JAR_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    CACHED_FILES,
    CHAIN_DIFFERENT_MAX_PARALLELISM,
    JARS,
    CLASSPATHS,
)
