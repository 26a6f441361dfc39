"""Options of how jobs are seen: what is kept of them, and for how long."""

from __future__ import annotations

from typing import Final

from millstream.config.option_types import ConfigOption, OptionType

__all__ = [
    "ARCHIVE_DIRECTORY",
    "ARCHIVE_EXPIRATION",
    "ARCHIVE_MAX_CAPACITY",
    "CHECKPOINT_HISTORY_SIZE",
    "EPOCH_HISTORY_SIZE",
    "LATENCY_GRANULARITY",
    "LATENCY_HISTORY_SIZE",
    "LATENCY_INTERVAL",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "METRICS_REPORTERS",
    "OPERATING_OPTIONS",
]

CHECKPOINT_HISTORY_SIZE: Final = ConfigOption(
    "web.checkpoints.history",
    OptionType.INTEGER,
    10,
    "How many ended checkpoints of a job are shown.",
)
EPOCH_HISTORY_SIZE: Final = ConfigOption(
    "millstream.epoch.history",
    OptionType.INTEGER,
    300,
    "How many of the last epochs of a job are shown.",
)
ARCHIVE_DIRECTORY: Final = ConfigOption(
    "jobmanager.archive.fs.dir",
    OptionType.STRING,
    None,
    "Local directory where jobs that have ended leave what was seen of them; by default one of the user's own below "
    "the temporary directory.",
)
ARCHIVE_EXPIRATION: Final = ConfigOption(
    "jobstore.expiration-time",
    OptionType.INTEGER,
    3_600,
    "How many seconds what was seen of a job is kept behind its end; 0 keeps nothing.",
)
ARCHIVE_MAX_CAPACITY: Final = ConfigOption(
    "jobstore.max-capacity",
    OptionType.INTEGER,
    100,
    "Of how many ended jobs it is kept; the oldest go first.",
)

METRICS_REPORTERS: Final = ConfigOption(
    "metrics.reporters",
    OptionType.STRING,
    None,
    "Which reporters take metrics out of jobs, with commas between; each has settings below metrics.reporter.<name>. "
    "By default all that have any.",
)

LATENCY_INTERVAL: Final = ConfigOption(
    "metrics.latency.interval",
    OptionType.DURATION,
    0,
    "How often each subtask of a source emits a marker that operators measure latency by; 0 for never.",
)
LATENCY_GRANULARITY: Final = ConfigOption(
    "metrics.latency.granularity",
    OptionType.STRING,
    "operator",
    "Whether an operator has one histogram of latency, one for each source, or one for each subtask of each source.",
    choices=("single", "operator", "subtask"),
)
LATENCY_HISTORY_SIZE: Final = ConfigOption(
    "metrics.latency.history-size",
    OptionType.POSITIVE_INTEGER,
    128,
    "Of how many markers the quantiles of latency are.",
)

LOG_FORMAT: Final = ConfigOption(
    "millstream.log.format",
    OptionType.STRING,
    "text",
    "How `millstream run` and clusters write their log: as text, or each entry as a JSON object in a line.",
    choices=("text", "json"),
)
LOG_LEVEL: Final = ConfigOption(
    "millstream.log.level",
    OptionType.STRING,
    "INFO",
    "From which level on they do.",
    choices=("DEBUG", "INFO", "WARNING", "ERROR"),
)

OPERATING_OPTIONS: Final = (
    LOG_FORMAT,
    LOG_LEVEL,
    METRICS_REPORTERS,
    LATENCY_INTERVAL,
    LATENCY_GRANULARITY,
    LATENCY_HISTORY_SIZE,
    CHECKPOINT_HISTORY_SIZE,
    EPOCH_HISTORY_SIZE,
    ARCHIVE_DIRECTORY,
    ARCHIVE_EXPIRATION,
    ARCHIVE_MAX_CAPACITY,
)
