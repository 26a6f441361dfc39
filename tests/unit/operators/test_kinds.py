"""What checkpoints call operators: names that outlive the classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import millstream.operators
from millstream.operators.base import OperatorSpec, connector_name

KINDS = {
    "AsyncWaitSpec",
    "BroadcastProcessSpec",
    "CoProcessSpec",
    "CollectSpec",
    "FilterSpec",
    "FlatMapSpec",
    "IdentitySpec",
    "IntervalJoinSpec",
    "IterationHeadSpec",
    "IterationTailSpec",
    "KeyedBroadcastProcessSpec",
    "KeyedCoProcessSpec",
    "KeyedProcessSpec",
    "MapSpec",
    "OwnedKeysSpec",
    "PrintSpec",
    "ProcessSpec",
    "ReduceSpec",
    "SinkFunctionSpec",
    "SinkSpec",
    "SourceFunctionSpec",
    "SourceSpec",
    "TagSpec",
    "WatermarksSpec",
    "WindowSpec",
}


def specs():
    modules = pkgutil.walk_packages(millstream.operators.__path__, "millstream.operators.")
    for each in modules:
        for found in vars(importlib.import_module(each.name)).values():
            if isinstance(found, type) and issubclass(found, OperatorSpec) and not inspect.isabstract(found):
                yield found


def test_no_kind_is_lost_when_its_class_is_renamed():
    """A class that is renamed keeps its former name as `former_name`; kinds may be added, and none may go."""
    kinds = {found.former_name or found.__name__ for found in specs()}
    assert kinds >= KINDS


class _Ours:
    __module__ = "millstream.connectors.somewhere"


class _Renamed(_Ours):
    former_name = "First"


class _Theirs:
    former_name = "First"


def test_connectors_of_ours_are_known_by_their_first_name_and_those_of_users_by_none():
    assert connector_name(_Ours()) == "_Ours"
    _Renamed.__module__ = _Ours.__module__
    assert connector_name(_Renamed()) == "First"
    assert connector_name(_Theirs()) == ""


def test_a_renamed_class_keeps_its_kind():
    class New(OperatorSpec):
        former_name = "OldSpec"

        def build(self):
            raise NotImplementedError

    assert New().kind == "OldSpec"
    assert New().state_form == ""
