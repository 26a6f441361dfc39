"""The dashboard in a browser, before real jobs of other processes: seen, steered, and not harmed by hostile names."""

from __future__ import annotations

import json
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


def start_job(
    name: str, environment: dict[str, str], directory: Path, savepoint: str | None = None
) -> subprocess.Popen[bytes]:
    if savepoint is not None:
        options = {"execution.target": "local", "execution.state-recovery.path": savepoint}
        environment = {**environment, "MILLSTREAM_CONFIG": json.dumps(options)}
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


@pytest.mark.long
def test_a_job_is_seen_steered_cancelled_and_restored(
    page: WatchedPage, server: str, job: subprocess.Popen[bytes], environment: dict[str, str], tmp_path: Path
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
    (savepoint,) = (tmp_path / "savepoints").iterdir()

    # Accumulators, and states: which there are, their keys in both subtasks, and one key by itself.
    view.get_by_role("link", name="Accumulators").click()
    row = view.locator("tbody tr", has_text="orders <b>seen</b>")
    expect(row.locator("td").last).to_have_text(re.compile(r"^[1-9]\d*$"), timeout=WAIT_MS)
    view.get_by_role("link", name="State", exact=True).click()
    view.get_by_role("link", name="count", exact=True).click(timeout=WAIT_MS)
    keys = view.locator('section[data-key^="keys"] tbody tr td:first-child')
    expect(keys.first).to_be_visible(timeout=WAIT_MS)
    found = set(keys.all_text_contents())
    view.get_by_label("Subtask").select_option("1")
    expect(view.get_by_text("This subtask has no keys here.").or_(keys.first)).to_be_visible(timeout=WAIT_MS)
    expect(view).to_have_url(re.compile("subtask=1"))
    expect(view.locator('section[data-key^="keys"]')).not_to_contain_text(
        f"1 to {len(found)} ", timeout=WAIT_MS
    )
    expect(keys).to_have_count(5 - len(found), timeout=WAIT_MS)
    assert found | set(keys.all_text_contents()) == {"0", "1", "2", "3", "4"}
    view.get_by_label("Key", exact=True).fill("3")
    view.get_by_role("button", name="Look").click()
    expect(view.locator("pre")).to_have_text(re.compile(r"\d+"), timeout=WAIT_MS)
    before_cancel = int(view.locator("pre").inner_text())

    view.get_by_role("link", name="Graph").click()  # states of a job that has ended cannot be asked for
    expect(view.locator("g.vertex").first).to_be_visible(timeout=WAIT_MS)
    view.get_by_role("button", name="Cancel").click()
    view.get_by_role("button", name="Cancel it").click()
    expect(view.locator(".badge").first).to_have_text("CANCELED", timeout=WAIT_MS)
    assert job.wait(60) != 0

    # From the savepoint it goes on with what the key had.
    restored = start_job("orders, restored", environment, tmp_path, str(savepoint))
    try:
        view.get_by_role("link", name="Jobs").click()
        view.get_by_role("link", name="orders, restored").click(timeout=WAIT_MS)
        view.get_by_role("link", name="Checkpoints").click()
        figure = view.locator(".figure", has_text="restored").locator("b")
        expect(figure).to_have_text("1", timeout=WAIT_MS)
        expect(view.get_by_text(str(savepoint)).first).to_be_visible(timeout=WAIT_MS)
        view.get_by_role("link", name="State", exact=True).click()
        view.get_by_label("Operator (uid)").fill("count")
        view.get_by_label("State", exact=True).fill("count")
        view.get_by_label("Key", exact=True).fill("3")
        view.get_by_role("button", name="Look").click()
        expect(view.locator("pre")).to_have_text(re.compile(r"\d+"), timeout=WAIT_MS)
        assert int(view.locator("pre").inner_text()) > before_cancel // 2
    finally:
        restored.kill()
        restored.wait()
    assert page.troubles == []


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_a_job_is_rescaled(page: WatchedPage, server: str, job: subprocess.Popen[bytes]) -> None:
    view = page.page
    view.goto(server)
    view.get_by_role("link", name="orders <i>by</i> customer").click(timeout=WAIT_MS)
    vertex = view.locator("g.vertex", has_text="count <img")
    expect(vertex).to_contain_text("parallelism 2 · RUNNING", timeout=WAIT_MS)
    view.get_by_role("button", name="Rescale", exact=True).click(timeout=WAIT_MS)
    view.get_by_role("spinbutton", name="Parallelism").fill("3")
    view.get_by_role("button", name="Rescale it").click()
    expect(view.get_by_text("The job runs with parallelism 3.")).to_be_visible(timeout=WAIT_MS)
    expect(vertex).to_contain_text("parallelism 3 · RUNNING", timeout=WAIT_MS)
    expect(vertex).to_contain_text(re.compile(r"in [1-9]"), timeout=WAIT_MS)
    assert page.troubles == []
