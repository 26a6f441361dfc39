"""The dashboard in a browser, before real jobs of other processes: seen, steered, and not harmed by hostile names."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from servers.browser import WatchedPage, open_browser, watch

PROGRAM = Path(__file__).with_name("dashboard_programs.py")
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables with which jobs and dashboard are by themselves: they find each other below TMPDIR."""
    (tmp_path / "tmp").mkdir()
    return {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "MILLSTREAM_CONFIG": '{"execution.target": "local"}',
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def server(environment: dict[str, str]) -> Iterator[str]:
    """The address of a dashboard."""
    process = subprocess.Popen(
        [sys.executable, "-m", "millstream.cli", "dashboard", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found.group()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()


@pytest.fixture
def page(browser: Browser, server: str) -> Iterator[WatchedPage]:
    watched = watch(browser, server)
    try:
        yield watched
    finally:
        watched.page.close()


def start_job(name: str, environment: dict[str, str], directory: Path) -> subprocess.Popen[bytes]:
    with open(directory / f"{len(list(directory.iterdir()))}.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), name, str(directory)], env=environment, stdout=log, stderr=log
        )


@pytest.fixture
def job(environment: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = start_job("orders <i>by</i> customer", environment, tmp_path)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_job_is_seen_steered_and_cancelled(
    page: WatchedPage, server: str, job: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    view = page.page
    view.goto(server)
    link = view.get_by_role("link", name="orders <i>by</i> customer")
    expect(link).to_be_visible(timeout=WAIT_MS)
    link.click()

    # The graph moves: records flow, and the numbers in it grow.
    vertex = view.locator("g.vertex", has_text="count <img")
    expect(vertex).to_contain_text("RUNNING", timeout=WAIT_MS)
    expect(vertex).to_contain_text(re.compile(r"in [1-9]"), timeout=WAIT_MS)
    before = vertex.text_content() or ""
    expect(vertex).not_to_have_text(before, timeout=WAIT_MS)
    vertex.focus()
    view.keyboard.press("Enter")
    expect(view.get_by_role("heading", name="Subtasks of count <img")).to_be_visible(timeout=WAIT_MS)

    # An exception shows what the user's code raised first.
    view.get_by_role("link", name="Exceptions").click()
    expect(view.get_by_text("Nothing has failed.")).to_be_visible(timeout=WAIT_MS)
    (tmp_path / "fail").touch()
    expect(view.get_by_role("heading", name="ValueError: a broken <b>order</b>").first).to_be_visible(
        timeout=WAIT_MS
    )
    expect(view.locator("pre").first).to_contain_text("dashboard_programs.py")
    (tmp_path / "fail").unlink()

    # A savepoint, to where it is asked for.
    view.get_by_role("link", name="Checkpoints").click()
    expect(view.get_by_text("COMPLETED").first).to_be_visible(timeout=WAIT_MS)
    view.get_by_role("button", name="Savepoint", exact=True).click()
    view.get_by_label("Directory").fill(str(tmp_path / "savepoints"))
    view.get_by_role("button", name="Make it").click()
    expect(view.get_by_text(f"Savepoint: {tmp_path}/savepoints/savepoint-")).to_be_visible(timeout=WAIT_MS)
    assert [each.name for each in (tmp_path / "savepoints").iterdir()]

    # State of a key.
    view.get_by_role("link", name="State", exact=True).click()
    view.get_by_label("Operator (uid)").fill("count")
    view.get_by_label("State", exact=True).fill("count")
    view.get_by_label("Key").fill("3")
    view.get_by_role("button", name="Look").click()
    expect(view.locator("pre")).to_have_text(re.compile(r"\d+"), timeout=WAIT_MS)

    view.get_by_role("button", name="Cancel").click()
    view.get_by_role("button", name="Cancel it").click()
    expect(view.locator(".badge").first).to_have_text("CANCELED", timeout=WAIT_MS)
    assert job.wait(30) != 0
    assert page.troubles == []


@pytest.mark.parametrize("tab", ["timeline", "watermarks", "metrics", "configuration"])
def test_each_page_tells_of_the_job(
    browser: Browser, server: str, job: subprocess.Popen[bytes], tab: str
) -> None:
    watched = watch(browser, server, dark=tab == "metrics")
    view = watched.page
    view.goto(server)
    view.get_by_role("link", name="orders <i>by</i> customer").click(timeout=WAIT_MS)
    view.locator(f'nav.tabs a[href$="/{tab}"]').click()
    wanted = {
        "timeline": "Last epochs",
        "watermarks": "The job's watermark",
        "metrics": "numRecordsOutPerSecond",
        "configuration": "execution.checkpointing.interval",
    }[tab]
    expect(view.get_by_text(re.compile(re.escape(wanted))).first).to_be_visible(timeout=WAIT_MS)
    width = view.evaluate("document.documentElement.scrollWidth")
    assert width <= 1280, "nothing is cut off at 1280 pixels"
    view.close()
    assert watched.troubles == []


def test_two_hundred_jobs_and_a_hundred_operators_stay_fluid(browser: Browser, server: str) -> None:
    """Answers made up in the browser: what is measured is how long the page takes to show them."""
    watched = watch(browser, server)
    view = watched.page
    jobs = [_made_up_job(number) for number in range(200)]
    view.route("**/jobs/overview", lambda route: route.fulfill(json={"jobs": jobs}))
    view.goto(server)
    expect(view.locator("tbody tr")).to_have_count(200, timeout=WAIT_MS)
    drawn_ms = view.evaluate(
        """async () => {
            const { render } = await import("/web/pages/overview.js");
            const { patch } = await import("/web/dom.js");
            const overview = await (await fetch("overview")).json();
            const jobs = await (await fetch("jobs/overview")).json();
            const root = document.createElement("main");
            const data = { overview, jobs };
            patch(root, render(data, { query: new URLSearchParams() }));
            const began = performance.now();
            for (let round = 0; round < 5; round += 1) patch(root, render(data, { query: new URLSearchParams() }));
            return (performance.now() - began) / 5;
        }"""
    )
    laid_out_ms = view.evaluate(
        """async () => {
            const { drawGraph } = await import("/web/graph.js");
            const nodes = Array.from({ length: 100 }, (_, index) => ({
                id: `v${index}`, parallelism: 2, description: `operator ${index}`,
                inputs: (index < 10 ? [] : [index - 10, (index * 7) % (index - 9)]).map((from) => ({
                    id: `v${from}`, ship_strategy: "HASH",
                })),
            }));
            const began = performance.now();
            document.body.append(drawGraph(nodes, new Map(), null, () => {}));
            return performance.now() - began;
        }"""
    )
    assert view.locator("g.vertex").count() == 100
    # A page is drawn anew each 2 s: a quarter of that would be felt. Both take some milliseconds on an idle machine.
    assert drawn_ms < 500 and laid_out_ms < 500
    view.close()
    assert watched.troubles == []


def _made_up_job(number: int) -> dict[str, object]:
    return {
        "jid": f"{number:032x}",
        "name": f"job {number}",
        "state": "RUNNING" if number % 2 else "FINISHED",
        "start-time": number,
        "end-time": -1,
        "duration": 1000,
        "tasks": {"running": 1, "total": 2},
    }
