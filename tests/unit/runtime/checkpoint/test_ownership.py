"""Terms of ownership: each is given once, the newest counts, and who has lost it is told to whom."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import DriverSupersededError
from millstream.files.store_arrow import ArrowStore
from millstream.files.stores import FileStore
from millstream.runtime.checkpoint import ownership
from millstream.runtime.checkpoint.ownership import Ownership, owned_terms


@pytest.fixture(params=["links", "no links", "bids"])
def place(request, tmp_path, monkeypatch):
    """A directory; by a store that can create exclusively, with and without links, and by one that cannot."""
    if request.param == "bids":
        monkeypatch.setattr(ownership, "open_store", ArrowStore)
        return f"file://{tmp_path / 'ha'}"
    if request.param == "no links":
        monkeypatch.setattr(os, "link", no_links)
    return str(tmp_path / "ha")


def no_links(source, target):
    """Fail as on FAT, which has none."""
    raise PermissionError(errno.EPERM, "Operation not permitted")


def take(place, name="job"):
    return Ownership.take(place, name, job="My job", clock=ManualClock(1_700_000_000_000))


def test_who_takes_over_has_the_next_term_and_who_had_it_before_is_told_by_whom(place):
    first = take(place)
    assert (first.term, first.former) == (1, [])
    first.check()
    second = take(place)
    assert (second.term, second.former) == (2, [1])
    second.check()
    for _ in range(2):
        with pytest.raises(DriverSupersededError, match='of job "My job" is superseded') as error:
            first.check()
        assert f"taken over by process {os.getpid()} on " in error.value.detail
        assert "2023-11-14 22:13:20 UTC" in error.value.detail
        assert error.value.detail.endswith('job.owners/2".')
        second.forget_former()
    assert owned_terms(place, "job") == [2]
    assert take(place).term == 3


def test_jobs_of_other_names_are_others(place):
    first, other = take(place, "one"), take(place, "another")
    assert first.term == other.term == 1
    first.check()
    other.check()


def test_a_term_is_over_when_its_file_is_gone(place, tmp_path):
    owner = take(place)
    (tmp_path / "ha" / "job.owners" / "1").unlink()
    with pytest.raises(DriverSupersededError, match="superseded") as error:
        owner.check()
    assert "was removed" in error.value.detail


def test_many_at_once_have_terms_of_their_own_and_one_of_them_goes_on(place):
    barrier, taken, faster = threading.Barrier(8), [], []

    def run():
        barrier.wait()
        try:
            taken.append(take(place))
        except DriverSupersededError as error:
            faster.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) + len(faster) == 8
    assert len({each.term for each in taken}) == len(taken) > 0
    assert all("taken over by " in error.detail for error in faster)
    *others, newest = sorted(taken, key=lambda each: each.term)
    newest.check()
    for each in others:
        with pytest.raises(DriverSupersededError):
            each.check()
    files = [path.name for path in (Path(place.removeprefix("file://")) / "job.owners").iterdir()]
    assert all(name.isdigit() for name in files), files


def test_who_made_its_choice_from_an_old_list_comes_too_late(place, monkeypatch):
    take(place)
    create, late = FileStore.create, []

    def slow(self, path, data):
        if not late:  # two others take over, and forget the term that this one is about to take
            late.append(path)
            take(place)
            take(place).forget_former()
        return create(self, path, data)

    monkeypatch.setattr(FileStore, "create", slow)
    with pytest.raises(DriverSupersededError, match="superseded"):
        take(place)
    assert late == ["job.owners/2"]
    assert owned_terms(place, "job") == [3]


def test_who_made_way_for_another_is_told_by_whom_though_that_one_has_a_lower_term(place, monkeypatch):
    create, refused = FileStore.create, []

    def bid_in_vain(self, path, data):
        refused.append(path)
        if len(refused) == 2:  # the other one was faster at the term that this one has left
            monkeypatch.setattr(FileStore, "create", create)
            take(place)
        return False

    monkeypatch.setattr(FileStore, "create", bid_in_vain)
    with pytest.raises(DriverSupersededError) as error:
        take(place)
    assert refused == ["job.owners/1", "job.owners/2"]
    assert f"taken over by process {os.getpid()} on " in error.value.detail
    assert error.value.detail.endswith('job.owners/1".')


def test_a_file_that_cannot_be_understood_takes_the_term_all_the_same(place, tmp_path):
    owner = take(place)
    (tmp_path / "ha" / "job.owners" / "2").write_text("{")
    with pytest.raises(DriverSupersededError) as error:
        owner.check()
    assert "of term 2" in error.value.detail


def test_the_file_says_who_it_is(place, tmp_path):
    take(place)
    told = json.loads((tmp_path / "ha" / "job.owners" / "1").read_text())
    assert told == {
        "term": 1,
        "job": "My job",
        "since_ms": 1_700_000_000_000,
        "host": os.uname().nodename,
        "pid": os.getpid(),
    }


def test_a_bid_that_nobody_made_good_keeps_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(ownership, "open_store", ArrowStore)
    claims = tmp_path / "ha" / "job.owners"
    claims.mkdir(parents=True)
    (claims / "1.0123456789ab.bid").write_text("killed in between")
    taken = take(f"file://{tmp_path / 'ha'}")
    assert taken.term == 2
    taken.check()
