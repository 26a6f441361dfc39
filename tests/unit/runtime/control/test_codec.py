"""Commands and views travel as JSON and come back as they were."""

from __future__ import annotations

import pytest

from millstream.base.errors import JobRequestError
from millstream.runtime.control import codec, views
from millstream.runtime.control.commands import (
    Cancel,
    ListKeys,
    ListStates,
    QueryState,
    Stop,
    TriggerCheckpoint,
    TriggerSavepoint,
)


@pytest.mark.parametrize(
    "command",
    [
        Cancel(),
        Stop("/s", True),
        TriggerSavepoint(),
        TriggerCheckpoint(),
        QueryState("op", "s", "17", (0, 5)),
        ListStates(),
        ListKeys("op", "s", 2, 30, 10),
    ],
)
def test_commands_come_back_as_they_were(command):
    raw = codec.encode(codec.write_command(command))
    assert codec.read_command(codec.decode(raw, dict)) == command


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"command": "reboot"}, '"reboot", which it does not know'),
        ({}, '"None", which it does not know'),
        ({"command": "stop", "drain": "perhaps"}, "do not fit"),
        ({"command": "query", "uid": "op"}, "do not fit"),
    ],
)
def test_what_is_no_command_is_refused_with_the_reason(request_, said):
    with pytest.raises(JobRequestError, match=said):
        codec.read_command(request_)


def test_fields_of_a_later_version_are_left_out():
    assert codec.read_command({"command": "cancel", "softly": True}) == Cancel()


def test_views_come_back_as_they_were():
    fact = views.WatermarkFact(1, "Source", 0, "s", watermark_ms=-(2**63), holds_back=True)
    seen = views.WatermarksView(
        "id", "job", 0, 1, batch=False, epoch=3, watermark_ms=2**63 - 1, facts=(fact,)
    )
    assert codec.decode(codec.encode(seen), views.WatermarksView) == seen


def test_only_views_that_are_listed_can_be_asked_for():
    assert {codec.view_name(kind) for kind in codec.VIEWS.values()} == set(codec.VIEWS)
    with pytest.raises(JobRequestError, match="EpochView"):
        codec.view_name(views.EpochView)


def test_an_answer_of_another_kind_is_refused():
    with pytest.raises(JobRequestError, match="JobView was expected"):
        codec.decode(b"[1]", views.JobView)
