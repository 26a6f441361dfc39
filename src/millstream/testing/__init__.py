"""For tests of programs and connectors: an operator by hand, whole programs, the rules of the contracts.

===================================================  =================================================================
`OperatorHarness`, `harness_of`                      one operator or function, with a clock that the test moves
`MiniCluster`                                        whole programs, on the local executor or a local Spark
`check_source`, `check_source_function`              hold a source against the contract of `millstream.spi.source`
`SourceRun`                                          one run of a source, epoch by epoch
`check_sink`, `check_sink_in_jobs`                   hold a sink against the contract of `millstream.spi.sink`
`check_lookup`                                       holds a look-up against the contract of `millstream.spi.lookup`
===================================================  =================================================================

`millstream.pytest_plugin` gives the fixtures `mini_cluster` and `virtual_cluster`. See docs/testing.md.
"""

from millstream.spi.batch import StreamStatus, Watermark
from millstream.testing.check_lookup import LookupRule, check_lookup
from millstream.testing.check_sink import check_sink, check_sink_in_jobs
from millstream.testing.check_source import check_source, check_source_function
from millstream.testing.clock import TickingClock
from millstream.testing.cluster import MiniCluster
from millstream.testing.failures import FailurePoint, InjectedFailure
from millstream.testing.functions import harness_of
from millstream.testing.harness import OperatorHarness, OperatorSnapshot
from millstream.testing.recorder import Record, SideRecord
from millstream.testing.rules import ContractViolation
from millstream.testing.sink_run import SinkRule, SinkTarget
from millstream.testing.source_run import SourceRule, SourceRun
from millstream.testing.storage import MemoryStores

__all__ = [
    "ContractViolation",
    "FailurePoint",
    "InjectedFailure",
    "LookupRule",
    "MemoryStores",
    "MiniCluster",
    "OperatorHarness",
    "OperatorSnapshot",
    "Record",
    "SideRecord",
    "SinkRule",
    "SinkTarget",
    "SourceRule",
    "SourceRun",
    "StreamStatus",
    "TickingClock",
    "Watermark",
    "check_lookup",
    "check_sink",
    "check_sink_in_jobs",
    "check_source",
    "check_source_function",
    "harness_of",
]
