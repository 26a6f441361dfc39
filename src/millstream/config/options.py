"""Every option: key, type, default and meaning.

A key is Flink's where Flink has one, `millstream.…` otherwise. `ALL_OPTIONS` lists them in the order in which
`millstream config` and the documentation show them. Keys that begin with `spark.` are not here: they go to
Spark as they are.
"""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType, parse_duration_ms
from millstream.config.options_checkpointing import CHECKPOINT_INTERVAL as CHECKPOINT_INTERVAL
from millstream.config.options_checkpointing import CHECKPOINTING_OPTIONS
from millstream.config.options_clouds import CLOUD_OPTIONS
from millstream.config.options_elsewhere import why_without_effect
from millstream.config.options_file_systems import FILE_SYSTEM_OPTIONS
from millstream.config.options_operating import OPERATING_OPTIONS
from millstream.config.options_python import JAR_OPTIONS, PYTHON_OPTIONS
from millstream.config.options_rest import REST_OPTIONS
from millstream.config.options_state import STATE_OPTIONS

__all__ = [
    "ALL_OPTIONS",
    "SPARK_PREFIX",
    "ConfigOption",
    "OptionType",
    "current_key",
    "find_intended_key",
    "find_option",
    "parse_duration_ms",
    "warning_about",
]

SPARK_PREFIX: Final = "spark."
"""Keys that begin so go to Spark."""

DEFAULT_PARALLELISM: Final = ConfigOption(
    "parallelism.default",
    OptionType.POSITIVE_INTEGER,
    None,
    "Parallelism of operators that have none of their own. Without it: the cores of the Spark master, "
    "1 on the local executor.",
)
MAX_PARALLELISM: Final = ConfigOption(
    "pipeline.max-parallelism",
    OptionType.POSITIVE_INTEGER,
    128,
    "Number of key groups, the upper limit of every parallelism; fixed for the life of a job's state.",
)
OPERATOR_CHAINING: Final = ConfigOption(
    "pipeline.operator-chaining.enabled",
    OptionType.BOOLEAN,
    True,
    "Whether operators that could hand records on directly do so.",
    fallback_keys=("pipeline.operator-chaining",),
)
PIPELINE_NAME: Final = ConfigOption(
    "pipeline.name", OptionType.STRING, None, "Name of the job, if execute() gives none."
)
GLOBAL_JOB_PARAMETERS: Final = ConfigOption(
    "pipeline.global-job-parameters",
    OptionType.MAP,
    None,
    "Parameters that functions read with get_job_parameter().",
)
AUTO_WATERMARK_INTERVAL: Final = ConfigOption(
    "pipeline.auto-watermark-interval",
    OptionType.DURATION,
    200,
    "Accepted for compatibility: periodic watermarks come at the end of each source range of an epoch.",
)
RUNTIME_MODE: Final = ConfigOption(
    "execution.runtime-mode",
    OptionType.STRING,
    "STREAMING",
    "Whether results are emitted as they come, or once at the end of a bounded input.",
    choices=("STREAMING", "BATCH", "AUTOMATIC"),
)
TARGET: Final = ConfigOption(
    "execution.target",
    OptionType.STRING,
    "local[*]",
    "Where jobs run: local (this process, no JVM), or a Spark master: local[n], local-cluster[n,cores,MB], "
    "spark://host:port, yarn, k8s://….",
)
BUFFER_TIMEOUT: Final = ConfigOption(
    "execution.buffer-timeout.interval",
    OptionType.DURATION,
    100,
    "Accepted for compatibility: epochs decide how long records wait.",
    fallback_keys=("execution.buffer-timeout",),
)
EPOCH_TARGET_DURATION: Final = ConfigOption(
    "millstream.epoch.target-duration",
    OptionType.DURATION,
    1000,
    "How long an epoch shall take under backlog; budgets adapt to it, and a subtask holds what it has not come to. "
    "For a job with less than a record in a millisecond it is a quarter of that.",
)
EPOCH_MAX_RECORDS: Final = ConfigOption(
    "millstream.epoch.max-records",
    OptionType.POSITIVE_INTEGER,
    500_000,
    "Largest number of records that a source subtask reads in one epoch.",
)
EPOCH_MIN_RECORDS: Final = ConfigOption(
    "millstream.epoch.min-records",
    OptionType.POSITIVE_INTEGER,
    1,
    "Smallest budget of a source subtask in one epoch.",
)
EPOCH_MAX_BYTES: Final = ConfigOption(
    "millstream.epoch.max-bytes",
    OptionType.POSITIVE_INTEGER,
    64 << 20,
    "Bytes that a subtask sends to others in one epoch, estimated, before it holds the rest of its input.",
)
EPOCH_CARRIED_BYTES: Final = ConfigOption(
    "millstream.epoch.carried-bytes",
    OptionType.INTEGER,
    32 << 20,
    "Bytes that a slot sends to others at one exchange of an epoch and that one task of Spark's carries to them all, "
    "64 MiB of all slots at most; more go through Spark's shuffle. 0: all do.",
)
EXCHANGE_COMBINE: Final = ConfigOption(
    "millstream.exchange.combine",
    OptionType.STRING,
    "AUTO",
    "Whether aggregates by expression, and sums, least and largest of windows, begin where records come from, before "
    "these are sent by key: AUTO (where that makes a quarter of them or less), ALWAYS or NEVER. Results do not depend "
    "on it.",
)
EPOCH_CARRIER_HOLD: Final = ConfigOption(
    "millstream.epoch.carrier-hold",
    OptionType.DURATION,
    60_000,
    "How long one task of Spark's may stay, and hold a core, to carry small epochs one after the other. It ends sooner "
    "when no epoch comes for 100 ms, or another job of the Spark session is there. 0: a task for each epoch.",
)
EPOCH_HOLD_AFTER: Final = ConfigOption(
    "millstream.epoch.hold-after",
    OptionType.POSITIVE_INTEGER,
    None,
    "Records that a subtask begins in one epoch at most; the rest waits for the next. For tests.",
)
EPOCH_FIXED_RECORDS: Final = ConfigOption(
    "millstream.epoch.fixed-records",
    OptionType.POSITIVE_INTEGER,
    None,
    "Exact budget of each source subtask in each epoch, in place of one that adapts; for tests.",
)
COLLECT_MAX_BYTES: Final = ConfigOption(
    "millstream.collect.max-bytes",
    OptionType.POSITIVE_INTEGER,
    64 << 20,
    "Bytes of results, estimated, that wait in the program's memory for execute_and_collect() or collect_arrow() to "
    "take them; the job reads nothing more meanwhile.",
)
MAX_EPOCHS: Final = ConfigOption(
    "millstream.execution.max-epochs",
    OptionType.POSITIVE_INTEGER,
    None,
    "End the job well after so many epochs.",
)
STOP_WHEN_IDLE: Final = ConfigOption(
    "millstream.execution.stop-when-idle",
    OptionType.DURATION,
    None,
    "End an unbounded job well when no source delivered anything for so long.",
)
WATERMARK_STALL_WARNING: Final = ConfigOption(
    "millstream.watermark.stall-warning",
    OptionType.DURATION,
    10_000,
    "Warn when records have come for so long while the watermark stood still; 0 never warns.",
)
SLOT_TIMEOUT: Final = ConfigOption(
    "millstream.slot.timeout",
    OptionType.DURATION,
    60_000,
    "A slot that does not answer for so long is taken for lost, unless its process runs.",
)
SLOT_LEASE: Final = ConfigOption(
    "millstream.slot.lease",
    OptionType.DURATION,
    60_000,
    "A slot that nobody has asked for anything for so long ends itself.",
)
COMMIT_WAIT_WHEN_BEHIND: Final = ConfigOption(
    "millstream.commit.wait-when-behind",
    OptionType.DURATION,
    10_000,
    "A job goes on while its sinks commit a checkpoint, and makes the next one when they have. If it has been behind "
    "its sources for so long it makes that as it is due and waits for the commit, so that not ever more is staged.",
)
CACHE_DIR: Final = ConfigOption(
    "millstream.cache.dir",
    OptionType.STRING,
    None,
    "Where cached streams are kept; a directory that the driver and all slots see. Without it: the system's "
    "directory for temporary files.",
)
DEBUG: Final = ConfigOption(
    "millstream.debug",
    OptionType.BOOLEAN,
    False,
    "Run in this process and thread and leave standard output alone, so that breakpoint() works.",
)
VERBOSE: Final = ConfigOption(
    "millstream.verbose",
    OptionType.BOOLEAN,
    False,
    "Show all frames of errors, also those of millstream and of Java.",
)

ALL_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    DEFAULT_PARALLELISM,
    MAX_PARALLELISM,
    OPERATOR_CHAINING,
    PIPELINE_NAME,
    GLOBAL_JOB_PARAMETERS,
    AUTO_WATERMARK_INTERVAL,
    RUNTIME_MODE,
    TARGET,
    BUFFER_TIMEOUT,
    EPOCH_TARGET_DURATION,
    EPOCH_MAX_RECORDS,
    EPOCH_MIN_RECORDS,
    EPOCH_FIXED_RECORDS,
    EPOCH_MAX_BYTES,
    COLLECT_MAX_BYTES,
    EPOCH_CARRIED_BYTES,
    EXCHANGE_COMBINE,
    EPOCH_CARRIER_HOLD,
    EPOCH_HOLD_AFTER,
    MAX_EPOCHS,
    STOP_WHEN_IDLE,
    WATERMARK_STALL_WARNING,
    SLOT_TIMEOUT,
    SLOT_LEASE,
    COMMIT_WAIT_WHEN_BEHIND,
    CACHE_DIR,
    DEBUG,
    VERBOSE,
    *CHECKPOINTING_OPTIONS,
    *FILE_SYSTEM_OPTIONS,
    *CLOUD_OPTIONS,
    *STATE_OPTIONS,
    *OPERATING_OPTIONS,
    *PYTHON_OPTIONS,
    *JAR_OPTIONS,
    *REST_OPTIONS,
)

_BY_KEY = {option.key: option for option in ALL_OPTIONS}
_BY_OLDER_KEY = {key: option for option in ALL_OPTIONS for key in option.fallback_keys}


def find_option(key: str) -> ConfigOption | None:
    """Return the option of that key; None if millstream has none (a user's own key, or one of Spark's).

    >>> find_option("state.checkpoints.dir").key
    'execution.checkpointing.dir'
    """
    return _BY_KEY.get(key) or _BY_OLDER_KEY.get(key)


def current_key(key: str) -> str:
    """Return the key under which an option is kept: the option's own for an older one, else `key` itself."""
    option = _BY_OLDER_KEY.get(key)
    return key if option is None else option.key


def find_intended_key(key: str) -> str | None:
    """Return the option's key that one which is no option's looks like; None if it may be a user's own.

    >>> find_intended_key("execution.checkpointing.intervall"), find_intended_key("parallelism")
    ('execution.checkpointing.interval', 'parallelism.default')
    """
    if find_option(key) is not None or key.startswith(SPARK_PREFIX):
        return None
    if any(key.startswith(f"{option.key}.") for option in CLOUD_OPTIONS):
        return None  # of one storage account
    below = [option for option in _BY_KEY if option.startswith(f"{key}.")]
    if len(below) == 1:
        return below[0]
    # Needed for mistakes only.
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, _BY_KEY, n=1, cutoff=0.85)), None)


def warning_about(key: str) -> str | None:
    """Return what to tell who sets a key that is no option: that it looks mistyped, or why it has no effect.

    None for options, for Spark's, and for keys that may be a user's own.

    >>> warning_about("state.backend.local-recovery")
    'option "state.backend.local-recovery" has no effect: state is always read back from the checkpoint storage'
    """
    if find_option(key) is not None or key.startswith(SPARK_PREFIX):
        return None
    intended = find_intended_key(key)
    if intended is not None:
        return f'no option is named "{key}"; did you mean "{intended}"?'
    reason = why_without_effect(key)
    return None if reason is None else f'option "{key}" has no effect: {reason}'
