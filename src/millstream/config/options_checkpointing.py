"""Options of checkpoints, savepoints and restarts, under Flink's keys.

Programs may set all of them now; what reads them is the job master, as far as it makes checkpoints.
"""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = [
    "ALIGNED_TIMEOUT",
    "CHANGELOG_ENABLED",
    "CHECKPOINTING_OPTIONS",
    "CHECKPOINT_DIRECTORY",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_STORAGE",
    "CHECKPOINT_TIMEOUT",
    "CLAIM_MODE",
    "COMPACT_AFTER",
    "COMPACT_FROM_BYTES",
    "CONSISTENCY_MODE",
    "EXCEPTION_HISTORY_SIZE",
    "EXTERNALIZED_RETENTION",
    "FORCE_UNALIGNED",
    "HA_CLUSTER_ID",
    "HA_DIRECTORY",
    "IGNORE_UNCLAIMED_STATE",
    "INCREMENTAL",
    "JOB_RESULT_DELETE_ON_COMMIT",
    "JOB_RESULT_DIRECTORY",
    "MAX_CONCURRENT_CHECKPOINTS",
    "MIN_PAUSE",
    "RECOVER",
    "RECOVERY_PATH",
    "RETAINED_CHECKPOINTS",
    "RESTART_BACKOFF_ATTEMPTS",
    "RESTART_BACKOFF_INITIAL",
    "RESTART_BACKOFF_JITTER",
    "RESTART_BACKOFF_MAX",
    "RESTART_BACKOFF_MULTIPLIER",
    "RESTART_BACKOFF_RESET",
    "RESTART_DELAY",
    "RESTART_FAILURE_RATE_DELAY",
    "RESTART_FAILURE_RATE_INTERVAL",
    "RESTART_FAILURE_RATE_MAXIMUM",
    "RESTART_FIXED_DELAY_ATTEMPTS",
    "RESTART_STRATEGY",
    "SAVEPOINT_DIRECTORY",
    "TOLERABLE_FAILURES",
    "UNALIGNED",
]

CHECKPOINT_INTERVAL: Final = ConfigOption(
    "execution.checkpointing.interval",
    OptionType.DURATION,
    None,
    "Time between two checkpoints; none are made without it.",
)
CONSISTENCY_MODE: Final = ConfigOption(
    "execution.checkpointing.mode",
    OptionType.STRING,
    "EXACTLY_ONCE",
    "What a restart from a checkpoint guarantees for state. Epochs are aligned, so it is exactly once anyway.",
    choices=("EXACTLY_ONCE", "AT_LEAST_ONCE"),
)
CHECKPOINT_TIMEOUT: Final = ConfigOption(
    "execution.checkpointing.timeout",
    OptionType.DURATION,
    600_000,
    "A checkpoint whose files a slot, or the driver, does not have written after this time is given up: it counts "
    "as failed.",
)
MIN_PAUSE: Final = ConfigOption(
    "execution.checkpointing.min-pause",
    OptionType.DURATION,
    0,
    "Shortest time between the end of a checkpoint and the begin of the next.",
)
MAX_CONCURRENT_CHECKPOINTS: Final = ConfigOption(
    "execution.checkpointing.max-concurrent-checkpoints",
    OptionType.POSITIVE_INTEGER,
    1,
    "How many checkpoints may be under way at once; an epoch ends with one at most.",
)
TOLERABLE_FAILURES: Final = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    OptionType.INTEGER,
    0,
    "How many checkpoints may fail, one after the other, before the job does.",
)
EXTERNALIZED_RETENTION: Final = ConfigOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    OptionType.STRING,
    "NO_EXTERNALIZED_CHECKPOINTS",
    "What becomes of the last checkpoints when the job is cancelled or fails: RETAIN_ON_CANCELLATION keeps them either "
    "way, DELETE_ON_CANCELLATION when it fails.",
    choices=("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
)
UNALIGNED: Final = ConfigOption(
    "execution.checkpointing.unaligned.enabled",
    OptionType.BOOLEAN,
    False,
    "Accepted for compatibility: epochs are aligned without waiting, nothing is in flight between them.",
    fallback_keys=("execution.checkpointing.unaligned",),
)
FORCE_UNALIGNED: Final = ConfigOption(
    "execution.checkpointing.unaligned.forced",
    OptionType.BOOLEAN,
    False,
    "Accepted for compatibility, as execution.checkpointing.unaligned.enabled.",
)
ALIGNED_TIMEOUT: Final = ConfigOption(
    "execution.checkpointing.aligned-checkpoint-timeout",
    OptionType.DURATION,
    0,
    "Accepted for compatibility, as execution.checkpointing.unaligned.enabled.",
    fallback_keys=("execution.checkpointing.alignment-timeout",),
)
CHECKPOINT_STORAGE: Final = ConfigOption(
    "execution.checkpointing.storage",
    OptionType.STRING,
    None,
    "Where checkpoints are kept: filesystem, in the directory that must be named then; jobmanager, in a temporary "
    "directory of the driver's host unless one is named.",
    choices=("jobmanager", "filesystem"),
    fallback_keys=("state.checkpoint-storage",),
)
RETAINED_CHECKPOINTS: Final = ConfigOption(
    "execution.checkpointing.num-retained",
    OptionType.POSITIVE_INTEGER,
    1,
    "How many completed checkpoints are kept.",
    fallback_keys=("state.checkpoints.num-retained",),
)
CHECKPOINT_DIRECTORY: Final = ConfigOption(
    "execution.checkpointing.dir",
    OptionType.STRING,
    None,
    "Directory of checkpoints.",
    fallback_keys=(
        "state.checkpoints.dir",
        "state.backend.fs.checkpointdir",
    ),
)
SAVEPOINT_DIRECTORY: Final = ConfigOption(
    "execution.checkpointing.savepoint-dir",
    OptionType.STRING,
    None,
    "Directory of savepoints that are asked for without one.",
    fallback_keys=(
        "state.savepoints.dir",
        "savepoints.state.backend.fs.dir",
    ),
)
INCREMENTAL: Final = ConfigOption(
    "execution.checkpointing.incremental",
    OptionType.BOOLEAN,
    True,
    "Whether a checkpoint writes only what changed since the last one, as far as operators can tell.",
    fallback_keys=("state.backend.incremental",),
)
COMPACT_FROM_BYTES: Final = ConfigOption(
    "millstream.checkpointing.compact-from-bytes",
    OptionType.POSITIVE_INTEGER,
    1 << 20,
    "Size of a slot's state files from which on they are merged in the background, by a process beside the slot; "
    "smaller ones are now and then written anew.",
)
COMPACT_AFTER: Final = ConfigOption(
    "millstream.checkpointing.compact-after",
    OptionType.POSITIVE_INTEGER,
    10,
    "How many files with changes a slot's state gets before they are merged; sooner if they are more than half as "
    "large as the file with everything.",
)
RECOVERY_PATH: Final = ConfigOption(
    "execution.state-recovery.path",
    OptionType.STRING,
    None,
    "Savepoint or checkpoint to begin from.",
    fallback_keys=("execution.savepoint.path",),
)
HA_DIRECTORY: Final = ConfigOption(
    "high-availability.storageDir",
    OptionType.STRING,
    None,
    "Directory that outlives drivers, where a job notes its newest checkpoint; checkpoints go there too, unless "
    "execution.checkpointing.dir says otherwise.",
    fallback_keys=(
        "high-availability.zookeeper.storageDir",
        "recovery.zookeeper.storageDir",
    ),
)
HA_CLUSTER_ID: Final = ConfigOption(
    "high-availability.cluster-id",
    OptionType.STRING,
    None,
    "Tells the job from others that use the directory, beside its name.",
    fallback_keys=(
        "high-availability.zookeeper.path.namespace",
        "recovery.zookeeper.path.namespace",
    ),
)
RECOVER: Final = ConfigOption(
    "millstream.recover",
    OptionType.BOOLEAN,
    False,
    "Go on from the newest checkpoint of a job whose driver was lost (high-availability.storageDir); begin anew "
    "if none was.",
)
JOB_RESULT_DIRECTORY: Final = ConfigOption(
    "job-result-store.storage-path",
    OptionType.STRING,
    None,
    "Where jobs that have ended leave how; job-result-store in high-availability.storageDir by default.",
)
JOB_RESULT_DELETE_ON_COMMIT: Final = ConfigOption(
    "job-result-store.delete-on-commit",
    OptionType.BOOLEAN,
    False,
    "Whether that goes as soon as what the job leaves behind is removed: a driver that is started again to recover "
    "then runs the job anew. Unlike in Flink not by default.",
)
EXCEPTION_HISTORY_SIZE: Final = ConfigOption(
    "web.exception-history-size",
    OptionType.POSITIVE_INTEGER,
    16,
    "How many of a job's failures are kept, the last ones.",
)
CLAIM_MODE: Final = ConfigOption(
    "execution.state-recovery.claim-mode",
    OptionType.STRING,
    "NO_CLAIM",
    "Who owns the checkpoint or savepoint that a job begins from: with CLAIM the job, which removes it when "
    "checkpoints of its own have taken its place; with NO_CLAIM the user.",
    choices=("NO_CLAIM", "CLAIM"),
    fallback_keys=("execution.savepoint-restore-mode",),
)
IGNORE_UNCLAIMED_STATE: Final = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    OptionType.BOOLEAN,
    False,
    "Whether state may be dropped that no operator of the program takes.",
    fallback_keys=("execution.savepoint.ignore-unclaimed-state",),
)
CHANGELOG_ENABLED: Final = ConfigOption(
    "state.changelog.enabled",
    OptionType.BOOLEAN,
    False,
    "Accepted for compatibility: checkpoints are made of what changed anyway.",
    fallback_keys=("state.backend.changelog.enabled",),
)
RESTART_STRATEGY: Final = ConfigOption(
    "restart-strategy.type",
    OptionType.STRING,
    None,
    "What happens when a job fails.",
    choices=(
        *("none", "off", "disable"),
        *("fixed-delay", "failure-rate", "exponential-delay"),
        *("fixeddelay", "failurerate", "exponentialdelay"),
    ),
    fallback_keys=("restart-strategy",),
)
RESTART_FIXED_DELAY_ATTEMPTS: Final = ConfigOption(
    "restart-strategy.fixed-delay.attempts",
    OptionType.INTEGER,
    1,
    "How often a job is started again.",
)
RESTART_DELAY: Final = ConfigOption(
    "restart-strategy.fixed-delay.delay",
    OptionType.DURATION,
    1_000,
    "Time between a failure and the next start.",
)
RESTART_FAILURE_RATE_MAXIMUM: Final = ConfigOption(
    "restart-strategy.failure-rate.max-failures-per-interval",
    OptionType.POSITIVE_INTEGER,
    1,
    "How many failures within the interval are followed by a new start.",
)
RESTART_FAILURE_RATE_INTERVAL: Final = ConfigOption(
    "restart-strategy.failure-rate.failure-rate-interval",
    OptionType.DURATION,
    60_000,
    "The interval in which failures are counted.",
)
RESTART_FAILURE_RATE_DELAY: Final = ConfigOption(
    "restart-strategy.failure-rate.delay",
    OptionType.DURATION,
    1_000,
    "Time between a failure and the next start.",
)

RESTART_BACKOFF_INITIAL: Final = ConfigOption(
    "restart-strategy.exponential-delay.initial-backoff",
    OptionType.DURATION,
    1_000,
    "Time between the first failure and the next start.",
)
RESTART_BACKOFF_MAX: Final = ConfigOption(
    "restart-strategy.exponential-delay.max-backoff",
    OptionType.DURATION,
    60_000,
    "Longest time between a failure and the next start.",
)
RESTART_BACKOFF_MULTIPLIER: Final = ConfigOption(
    "restart-strategy.exponential-delay.backoff-multiplier",
    OptionType.FLOAT,
    1.5,
    "By how much that time grows from failure to failure.",
)
RESTART_BACKOFF_RESET: Final = ConfigOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    OptionType.DURATION,
    3_600_000,
    "How long a job has to run well for that time to begin anew.",
)
RESTART_BACKOFF_JITTER: Final = ConfigOption(
    "restart-strategy.exponential-delay.jitter-factor",
    OptionType.FLOAT,
    0.1,
    "Fraction of that time that is added or taken away at random.",
)
RESTART_BACKOFF_ATTEMPTS: Final = ConfigOption(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    OptionType.POSITIVE_INTEGER,
    None,
    "How often a job is started again without such a pause; any number if it is not set.",
)

CHECKPOINTING_OPTIONS: Final[tuple[ConfigOption, ...]] = (
    CHECKPOINT_INTERVAL,
    CONSISTENCY_MODE,
    CHECKPOINT_TIMEOUT,
    MIN_PAUSE,
    MAX_CONCURRENT_CHECKPOINTS,
    TOLERABLE_FAILURES,
    EXTERNALIZED_RETENTION,
    UNALIGNED,
    FORCE_UNALIGNED,
    ALIGNED_TIMEOUT,
    CHECKPOINT_STORAGE,
    RETAINED_CHECKPOINTS,
    CHECKPOINT_DIRECTORY,
    SAVEPOINT_DIRECTORY,
    INCREMENTAL,
    COMPACT_FROM_BYTES,
    COMPACT_AFTER,
    RECOVERY_PATH,
    CLAIM_MODE,
    HA_DIRECTORY,
    HA_CLUSTER_ID,
    JOB_RESULT_DIRECTORY,
    JOB_RESULT_DELETE_ON_COMMIT,
    EXCEPTION_HISTORY_SIZE,
    RECOVER,
    IGNORE_UNCLAIMED_STATE,
    CHANGELOG_ENABLED,
    RESTART_STRATEGY,
    RESTART_FIXED_DELAY_ATTEMPTS,
    RESTART_DELAY,
    RESTART_FAILURE_RATE_MAXIMUM,
    RESTART_FAILURE_RATE_INTERVAL,
    RESTART_FAILURE_RATE_DELAY,
    RESTART_BACKOFF_INITIAL,
    RESTART_BACKOFF_MAX,
    RESTART_BACKOFF_MULTIPLIER,
    RESTART_BACKOFF_RESET,
    RESTART_BACKOFF_JITTER,
    RESTART_BACKOFF_ATTEMPTS,
)
