"""What tells a job among those that share a directory."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.runtime.checkpoint.pointer import LostJob
from millstream.runtime.recovery.high_availability import find_traces
from millstream.runtime.recovery.identity import file_stem_of
from millstream.runtime.recovery.results import EndedJob

NAMES = st.text(max_size=80)


def stem(name, number=1, **given):
    return file_stem_of(Configuration.from_dict(given), name, number=number)


@given(st.tuples(NAMES, st.integers(1, 12)), st.tuples(NAMES, st.integers(1, 12)))
def test_another_name_or_number_has_another_file(one, other):
    assert (stem(*one) == stem(*other)) == (one == other)


@given(NAMES, st.integers(1, 3))
def test_file_names_are_short_and_suit_every_storage(name, number):
    assert re.fullmatch(r"[A-Za-z0-9_-]{0,40}-[0-9a-f]{20}(-\d)?", stem(name, number))


def test_names_that_look_alike_in_ascii_do_not_collide():
    names = ["注文", "支払", "a/b", "a_b", "a b", "A_B", "a-2", "ä", "a" * 300, "a" * 301, ""]
    assert len({stem(name) for name in names}) == len(names)
    assert stem("a", 2) != stem("a-2")


def test_jobs_of_other_names_in_a_cluster_have_files_of_their_own():
    cluster = {"high-availability.cluster-id": "orders"}
    assert len({stem("a", **cluster), stem("b", **cluster), stem(None, **cluster), stem("orders")}) == 4


@pytest.fixture
def program(monkeypatch):
    def of(path, *arguments):
        monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__=path))
        monkeypatch.setattr(sys, "argv", [path, *arguments])

    return of


def test_jobs_without_a_name_are_told_by_program_and_arguments(program):
    found = set()
    for given_ in (["/a/main.py"], ["/b/main.py"], ["/a/main.py", "eu"], ["/a/main.py", "us"]):
        program(*given_)
        found |= {stem(None), stem(None, 2)}
        assert stem(None) == stem(None), "the same from start to start"
    assert len(found) == 8
    assert all(re.fullmatch(r"main\.[0-9a-f]{20}(-2)?", each) for each in found)
    assert stem("main") not in found


def test_a_program_may_be_mended_before_it_goes_on(program, tmp_path):
    path = tmp_path / "main.py"
    program(str(path))
    before = stem(None)
    path.write_text("another plan")
    assert stem(None) == before


def test_a_job_that_nothing_identifies_is_refused_only_where_that_matters(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace())
    directory = {"high-availability.storageDir": str(tmp_path)}
    with pytest.raises(ConfigurationError, match=r"without a name[\s\S]*pipeline\.name"):
        find_traces(Configuration.from_dict(directory), None, number=1)
    assert find_traces(Configuration(), None, number=1).pointer is None
    find_traces(Configuration.from_dict(directory), "named", number=1)
    find_traces(Configuration.from_dict({**directory, "high-availability.cluster-id": "c"}), None, number=1)


def test_a_program_that_was_moved_or_has_other_arguments_does_not_silently_begin_anew(program, tmp_path):
    recovering = Configuration.from_dict(
        {"high-availability.storageDir": str(tmp_path), "millstream.recover": True}
    )
    program("/a/main.py", "eu")
    first, second = (find_traces(recovering, None, number=number) for number in (1, 2))
    first.pointer.write(LostJob("1", "there"))
    assert find_traces(recovering, None, number=1).lost.job_id == "1"
    assert find_traces(recovering, None, number=2).lost is None, "another job of the same program"
    for moved in (["/elsewhere/main.py", "eu"], ["/a/main.py", "us"]):
        program(*moved)
        with pytest.raises(ConfigurationError, match=r'program "main"[\s\S]*pipeline\.name'):
            find_traces(recovering, None, number=1)
    program("/a/other.py")
    assert find_traces(recovering, None, number=1).lost is None
    assert find_traces(recovering, "main", number=1).lost is None
    assert second.lost is None


def test_another_job_has_not_ended_because_one_of_a_like_name_has(tmp_path):
    recovering = Configuration.from_dict(
        {"high-availability.storageDir": str(tmp_path), "millstream.recover": True}
    )
    find_traces(recovering, "注文", number=1).results.begin(EndedJob("1", "注文", "FINISHED", 5, clean=True))
    assert find_traces(recovering, "注文", number=1).ended is not None
    assert find_traces(recovering, "支払", number=1).ended is None
