"""The site is built without a warning: no broken link, no page that is nowhere, no name that is not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOOKED_AT = [
    "index.html",
    "start/first-job.html",
    "tutorials/fraud.html",
    "sql/differences.html",
    "connectors/index.html",
    "comparisons.html",
    "api/millstream.datastream.functions.html",
]
TOO_WIDE = """() => {
    const width = document.documentElement.clientWidth;
    const scrolls = element => ["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX);
    const kept = element => {
        for (let each = element; each && each.tagName !== "ARTICLE"; each = each.parentElement)
            if (scrolls(each)) return true;
        return false;
    };
    return [...document.querySelectorAll("article *")]
        .filter(each => each.getBoundingClientRect().right > width + 1 && !kept(each))
        .map(each => each.outerHTML.slice(0, 80));
}"""
"""What is cut off at the right, and cannot be scrolled to."""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[-4000:]
    return directory


@pytest.mark.timeout(900)
def test_site_is_built_and_asks_no_network(site):
    home = (site / "index.html").read_text()
    assert "Fraud" in home or "fraud" in home
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text and 'rel="stylesheet" href="http' not in text, page


@pytest.mark.timeout(900)
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_and_ask_for_nothing_from_elsewhere(site, width, dark):
    from servers.browser import open_browser, watch

    base = site.as_uri() + "/"
    with open_browser() as browser:
        watched = watch(browser, base, width=width, dark=dark)
        for name in LOOKED_AT:
            watched.page.goto(base + name)
            assert watched.page.evaluate(TOO_WIDE) == [], name
        assert watched.troubles == []


@pytest.mark.timeout(900)
def test_search_finds_in_pages_that_are_read_from_files(site):
    from servers.browser import open_browser, watch

    base = site.as_uri() + "/"
    with open_browser() as browser:
        watched = watch(browser, base)
        page = watched.page
        page.goto(base + "index.html")
        page.locator("input.md-search__input").click()
        page.keyboard.type("session window")
        page.wait_for_selector(".md-search-result__item", timeout=60_000)
        page.locator(".md-search-result__link").first.click()
        page.wait_for_url(lambda url: url.startswith(base) and url != base + "index.html", timeout=60_000)
        assert watched.troubles == []
