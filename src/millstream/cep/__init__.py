"""Complex event processing: patterns over streams, with Java Flink's names in PyFlink's spelling."""

from __future__ import annotations

from millstream.cep.cep import CEP
from millstream.cep.conditions import IterativeCondition, RichIterativeCondition, SimpleCondition
from millstream.cep.errors import GrowingStateWarning, MalformedPatternError
from millstream.cep.explain import explain_pattern
from millstream.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from millstream.cep.pattern import GroupPattern, Pattern, WithinType
from millstream.cep.pattern_stream import PatternStream
from millstream.cep.skip_strategy import AfterMatchSkipStrategy

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "EventComparator",
    "GroupPattern",
    "GrowingStateWarning",
    "IterativeCondition",
    "MalformedPatternError",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "RichIterativeCondition",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
    "explain_pattern",
]
