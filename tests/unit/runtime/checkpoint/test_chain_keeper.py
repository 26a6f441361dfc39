"""When chains of state files are written anew or compacted, and what manifests then list."""

from __future__ import annotations

import pytest

from millstream.files.stores import FileRef
from millstream.runtime.checkpoint.chain_keeper import ChainKeeper
from millstream.runtime.checkpoint.manifest import Manifest
from millstream.runtime.protocol.orders import Compacted, StateFile, WrittenState


def ref(name, size=100):
    return FileRef(name, size, "0" * 32)


def manifest(*files):
    return Manifest(9, "checkpoint", "job", "Job", 9, 0, (), tuple(files))


def chain(slot, whole, *changes):
    files = [StateFile(ref(f"{slot}-whole", whole), slot)]
    return files + [
        StateFile(ref(f"{slot}-d{index}", size), slot, True) for index, size in enumerate(changes)
    ]


@pytest.fixture
def keeper():
    return ChainKeeper(compact_from_bytes=1_000, compact_after=5)


def plan(keeper, *files):
    return keeper.plan(manifest(*files), "there", "shared", 10)


@pytest.mark.parametrize(
    ("changes", "writes_whole"), [([60, 40], False), ([60, 41], True), ([1] * 19, False), ([1] * 20, True)]
)
def test_a_small_chain_is_written_anew_when_it_is_long_or_mostly_changes(keeper, changes, writes_whole):
    found = plan(keeper, *chain(0, 100, *changes), *chain(1, 100))
    assert found.whole == ({0} if writes_whole else set())
    assert not found.compactions


@pytest.mark.parametrize(
    ("changes", "compacts"), [([500, 500], False), ([500, 501], True), ([1] * 4, False), ([1] * 5, True)]
)
def test_a_large_chain_is_compacted_when_it_is_long_or_a_third_changes(keeper, changes, compacts):
    found = plan(keeper, *chain(0, 100), *chain(1, 2_000, *changes))
    assert not found.whole
    assert set(found.compactions) == ({1} if compacts else set())
    if compacts:
        order = found.compactions[1]
        assert [file.path for file in order.files] == [
            "1-whole",
            *(f"1-d{index}" for index in range(len(changes))),
        ]
        assert order.target in keeper.in_progress


def test_one_compaction_at_a_time_for_each_slot_and_the_whole_if_it_never_ends(keeper):
    files = chain(0, 2_000, *[1] * 5)
    assert plan(keeper, *files).compactions
    assert not plan(keeper, *files).compactions
    assert plan(keeper, *chain(0, 2_000, *[1] * 99)).whole == set()
    assert plan(keeper, *chain(0, 2_000, *[1] * 100)).whole == {0}


def compacted(keeper, *, file=True, error=""):
    """Order a compaction of a chain and have it answered with the next checkpoint; return its manifest's files."""
    files = chain(0, 2_000, *[1] * 5)
    order = plan(keeper, *files).compactions[0]
    merged = ref("merged", 2_005) if file else None
    last = manifest(*files, StateFile(ref("0-d5"), 0, True))
    written = WrittenState(0, ref("0-d6"), {}, True, Compacted(order.through, merged, error))
    keeper.learn([written])
    return last, written


def test_the_merged_file_takes_the_place_of_those_it_was_made_of(keeper):
    last, written = compacted(keeper)
    files = keeper.extend(last, written)
    assert [(each.file.path, each.is_delta) for each in files] == [
        ("merged", False),
        ("0-d5", True),
        ("0-d6", True),
    ]
    assert keeper.in_progress == {"merged"}
    keeper.published(manifest(*files))
    assert keeper.in_progress == set()
    assert plan(keeper, *files).compactions == {}


def test_a_merged_file_waits_while_checkpoints_fail(keeper):
    last, written = compacted(keeper)
    keeper.extend(last, written)  # never published
    later = WrittenState(0, ref("0-d7"), {}, True)
    assert [each.file.path for each in keeper.extend(last, later)] == ["merged", "0-d5", "0-d7"]
    assert keeper.in_progress == {"merged"}


def test_a_merged_file_of_a_chain_that_was_written_anew_is_dropped(keeper):
    last, _ = compacted(keeper)
    anew = WrittenState(0, ref("0-new"), {})
    files = keeper.extend(last, anew)
    assert [each.file.path for each in files] == ["0-new"]
    keeper.published(manifest(*files))
    assert keeper.in_progress == set()


def test_a_compaction_that_failed_is_logged_and_ordered_again(keeper, caplog):
    compacted(keeper, file=False, error='file "x" is missing')
    assert 'slot 0 were not compacted: file "x" is missing' in caplog.text
    assert keeper.in_progress == set()
    assert plan(keeper, *chain(0, 2_000, *[1] * 6)).compactions


def test_an_answer_to_what_an_earlier_attempt_was_told_counts_for_nothing(keeper):
    order = plan(keeper, *chain(0, 2_000, *[1] * 5)).compactions[0]
    keeper.begin_attempt()
    late = WrittenState(0, ref("0-d6"), {}, True, Compacted(order.through, ref("merged")))
    keeper.learn([late])
    assert keeper.in_progress == set()
    last = manifest(*chain(0, 2_000, *[1] * 5))
    assert [each.file.path for each in keeper.extend(last, late)][:2] == ["0-whole", "0-d0"]
