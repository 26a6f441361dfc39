"""See into state, and make it (Flink's State Processor API): read any checkpoint or savepoint, write savepoints.

`SavepointReader` and `SavepointWriter` are where to begin; the writer has an example of both.
"""

from millstream.state_processor.bootstrap import BroadcastBootstrap, KeyedBootstrap, ListBootstrap
from millstream.state_processor.diff import StateChange, diff_states
from millstream.state_processor.reader import (
    OperatorInfo,
    OperatorStateContents,
    SavepointReader,
    StateInfo,
    Timer,
)
from millstream.state_processor.standins import StandIn
from millstream.state_processor.windows import WindowStart
from millstream.state_processor.writer import SavepointWriter

__all__ = [
    "BroadcastBootstrap",
    "KeyedBootstrap",
    "ListBootstrap",
    "OperatorInfo",
    "OperatorStateContents",
    "SavepointReader",
    "SavepointWriter",
    "StandIn",
    "StateChange",
    "StateInfo",
    "Timer",
    "WindowStart",
    "diff_states",
]
