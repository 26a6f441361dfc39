"""The committed figures, and the tables of the pages: a stale one is a failing test."""

from __future__ import annotations

import pytest
import summary
from bench import BENCHMARKS
from figures import beside, by_itself


def entry(*figures):
    return summary.Entry(
        "benchmarks/some.py",
        "abc1234",
        "2026-11-22",
        "2 cores",
        0.5,
        12.0,
        {each.name: each for each in figures},
    )


JOIN = beside(
    "join", "interval join", [400.0, 420.0], [100.0, 105.0], unit="ns", peer="loop by hand", floor=0.3
)
START = by_itself("start", "to the first record", [0.2, 0.3], unit="s", limit=1.5)
ENTRIES = {"loops": entry(JOIN), "startup": entry(START)}


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "summary.json"
    summary.write(ENTRIES, path)
    assert summary.read(path) == ENTRIES


def test_without_a_file_nothing_is_committed(tmp_path):
    assert summary.read(tmp_path / "summary.json") == {}


def test_a_marked_table_is_made_anew_and_the_rest_of_the_page_stays():
    page = "before\n<!-- figures: loops -->\nold\n<!-- end of figures -->\nbehind | 0.99 x |\n"
    assert summary.rewrite(page, ENTRIES) == (
        "before\n<!-- figures: loops -->\n"
        "| what | millstream | beside | times as fast |\n|---|---:|---|---:|\n"
        "| interval join | 410 ns | loop by hand: 102 ns | 0.25 x |\n"
        "<!-- end of figures -->\nbehind | 0.99 x |\n"
    )


def test_a_table_has_the_figures_that_its_mark_names_in_that_order():
    page = "<!-- figures: startup/st* loops/join -->\n<!-- end of figures -->\n"
    rows = summary.rewrite(page, ENTRIES).splitlines()[3:5]
    assert [row.split(" | ")[0] for row in rows] == ["| to the first record", "| interval join"]


def test_a_page_may_have_several_tables():
    page = "<!-- figures: loops -->\n<!-- end of figures -->\n" * 2
    assert summary.rewrite(page, ENTRIES).count("| interval join |") == 2


@pytest.mark.parametrize("name", ["flight", "loops/tumbling", "loops/join2"])
def test_a_mark_that_names_no_figure_is_an_error(name):
    with pytest.raises(LookupError, match=name):
        summary.rewrite(f"<!-- figures: {name} -->\n<!-- end of figures -->\n", ENTRIES)


def test_a_benchmark_that_was_never_measured_has_no_rows():
    page = "<!-- figures: loops flights -->\n<!-- end of figures -->\n"
    assert summary.rewrite(page, ENTRIES) == summary.rewrite(page.replace(" flights", ""), ENTRIES).replace(
        "figures: loops ", "figures: loops flights "
    )


def test_the_page_of_all_figures_has_rounds_and_floors():
    page = summary.summary_page(ENTRIES)
    assert "| interval join | 410 ns | loop by hand: 102 ns | 0.25 x | 0.25 x, 0.25 x | 0.30 x |" in page
    assert "| to the first record | 0.25 s |  |  | 0.20 s, 0.30 s | 1.50 s |" in page


def committed():
    return summary.read()


def test_what_is_committed_are_benchmarks_in_the_order_of_the_runner():
    assert list(committed()) == [each.name for each in BENCHMARKS if each.name in committed()]


def test_the_command_of_each_benchmark_is_the_one_that_was_measured():
    assert {name: each.command for name, each in committed().items()} == {
        each.name: each.shown() for each in BENCHMARKS if each.name in committed()
    }


@pytest.mark.parametrize("page", list(summary.pages()), ids=lambda page: page.name)
def test_every_marked_table_equals_the_committed_figures(page):
    text = page.read_text(encoding="utf-8")
    assert text == summary.rewrite(text, committed())
    assert (
        text.count("<!-- figures:")
        == text.count("<!-- end of figures -->")
        == len(summary.BLOCK.findall(text))
    )


def test_the_page_of_all_figures_equals_the_committed_ones():
    assert summary.PAGE.read_text(encoding="utf-8") == summary.summary_page(committed())


def test_readme_has_figures():
    assert "<!-- figures:" in (summary.ROOT / "README.md").read_text(encoding="utf-8")
