"""Settings of a program's execution (PyFlink's `pyflink.common.execution_config`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.config import options
from millstream.config.configuration import Configuration
from millstream.config.options_operating import LATENCY_INTERVAL

__all__ = ["ExecutionConfig"]


class ExecutionConfig:
    """A view of an environment's configuration: what is set here is set there.

    Switches of Flink's JVM (closure cleaner, Kryo, Avro, object reuse, …) are kept and given back, without
    effect: there is nothing here that they could switch.

    Example:
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> config = env.get_config().set_parallelism(4).set_global_job_parameters({"shop": "harbour"})
        >>> env.get_parallelism(), config.get_global_job_parameters()
        (4, {'shop': 'harbour'})
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._kept: dict[str, Any] = {}

    def get_parallelism(self) -> int:
        """Return the default parallelism, -1 if none is set."""
        parallelism: int = self._configuration.get(options.DEFAULT_PARALLELISM, self.PARALLELISM_DEFAULT)
        return parallelism

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the default parallelism; -1 unsets it.

        Raises:
            ConfigurationError: If it is not positive.
        """
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.DEFAULT_PARALLELISM.key)
        else:
            self._configuration.set(options.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups."""
        groups: int = self._configuration.get(options.MAX_PARALLELISM)
        return groups

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._configuration.set(options.MAX_PARALLELISM, max_parallelism)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the interval of periodic watermarks, in milliseconds; epochs decide it in truth."""
        interval_ms: int = self._configuration.get(options.AUTO_WATERMARK_INTERVAL)
        return interval_ms

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval of periodic watermarks, in milliseconds."""
        self._configuration.set(options.AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions read with `get_job_parameter`."""
        return dict(self._configuration.get(options.GLOBAL_JOB_PARAMETERS) or {})

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Set the parameters that functions read with `get_job_parameter`."""
        self._configuration.set(options.GLOBAL_JOB_PARAMETERS, global_job_parameters_dict)
        return self

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set how often sources emit latency markers, in milliseconds; 0 for never."""
        self._configuration.set(LATENCY_INTERVAL, interval)
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return how often sources emit latency markers, in milliseconds; 0 for never."""
        interval_ms: int = self._configuration.get(LATENCY_INTERVAL)
        return interval_ms

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Keep an interval; without effect."""
        return self._keep("task_cancellation_interval", interval)

    def get_task_cancellation_interval(self) -> int:
        """Return the interval that was kept, 30,000 ms at first."""
        return int(self._kept.get("task_cancellation_interval", 30_000))

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Keep a timeout; without effect."""
        return self._keep("task_cancellation_timeout", timeout)

    def get_task_cancellation_timeout(self) -> int:
        """Return the timeout that was kept, 180,000 ms at first."""
        return int(self._kept.get("task_cancellation_timeout", 180_000))

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("closure_cleaner", True)

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("closure_cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._kept.get("closure_cleaner", True))

    def enable_force_kryo(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("force_kryo", True)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("force_kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._kept.get("force_kryo", False))

    def enable_force_avro(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("force_avro", True)

    def disable_force_avro(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("force_avro", False)

    def is_force_avro_enabled(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._kept.get("force_avro", False))

    def enable_generic_types(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("generic_types", True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("generic_types", False)

    def has_generic_types_disabled(self) -> bool:
        """Return the switch that was kept."""
        return not self._kept.get("generic_types", True)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("auto_generated_uids", True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("auto_generated_uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._kept.get("auto_generated_uids", True))

    def enable_object_reuse(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("object_reuse", True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("object_reuse", False)

    def is_object_reuse_enabled(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._kept.get("object_reuse", False))

    def get_registered_kryo_types(self) -> list[str]:
        """Return no Java classes: there is no Kryo here."""
        return []

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return no Java classes: there is no Kryo here."""
        return {}

    def get_registered_pojo_types(self) -> list[str]:
        """Return no Java classes: there are no POJOs here."""
        return []

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Keep a switch; without effect."""
        return self._keep("snapshot_compression", use_snapshot_compression)

    def is_use_snapshot_compression(self) -> bool:
        """Return the switch that was kept."""
        return bool(self._kept.get("snapshot_compression", False))

    def _keep(self, name: str, value: Any) -> ExecutionConfig:
        self._kept[name] = value
        return self

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ExecutionConfig)
            and self._configuration == other._configuration
            and self._kept == other._kept
        )

    def __hash__(self) -> int:
        return hash(self._configuration)
