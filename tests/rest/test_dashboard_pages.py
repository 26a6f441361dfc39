"""Every page of the dashboard in a browser, with made-up jobs whose texts are all hostile: shown as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from millstream.base.clock import SystemClock
from millstream.config.configuration import Configuration
from millstream.rest.directory import JobDirectory, StartingProgram
from millstream.rest.server import RestServer
from millstream.rest.settings import RestSettings
from millstream.runtime.control.views import JobView, WatermarkFact, WatermarksView
from rest.fake_jobs import NOW_MS, SINK, AnsweringJob
from servers.browser import open_browser, watch

WAIT_MS = 60_000
HOSTILE = '<script>window.harmed=1</script><img src=x onerror="window.harmed=1">'
JOB, ENDED = "1" * 32, "2" * 32
KEPT = {
    "job_id",
    "status",
    "vertex_id",
    "operator_id",
    "kind",
    "bound",
    "scope",
    "origin",
    "job_type",
    "ship",
}


def hostile(value: Any, name: str = "") -> Any:
    """Return a view with markup in every text of a user's."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {
            each.name: hostile(getattr(value, each.name), each.name) for each in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **changes)
    if isinstance(value, tuple):
        return tuple(hostile(each, name) for each in value)
    return (
        f"{value}{HOSTILE}"
        if isinstance(value, str) and name not in KEPT and value not in (JOB, SINK)
        else value
    )


class HostileJob(AnsweringJob):
    """Shows markup wherever a user's text may be; the ids that lead from page to page are left."""

    def view(self, kind: type[Any]) -> Any:
        view = super().view(kind)
        if isinstance(view, JobView):
            vertices = (dataclasses.replace(each, name=f"{each.name} {HOSTILE}") for each in view.vertices)
            return dataclasses.replace(view, name=f"orders {HOSTILE}", vertices=tuple(vertices))
        if isinstance(view, WatermarksView):
            view = dataclasses.replace(
                view, facts=(WatermarkFact(7, "operator", 0, "split", reason="why", hint="do"),)
            )
        return hostile(view)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    jobs = [HostileJob(JOB, name=f"orders {HOSTILE}"), HostileJob(ENDED, "FAILED", name=HOSTILE)]
    starting = StartingProgram("3" * 32, f"slow {HOSTILE}", "RUNNING", NOW_MS, f"imports {HOSTILE}")
    clock = SystemClock()
    directory = JobDirectory(lambda: jobs, None, clock, lambda: [starting])
    made = RestServer(RestSettings.of(Configuration.from_dict({"rest.port": 0})), directory, clock, {})
    made.start()
    yield made.address
    made.close()


PAGES = {
    "": "Starting (1)",
    "executors": "Executors",
    "log": "This server has no logs to show",
    f"jobs/{JOB}/graph?vertex={SINK}": "Subtasks of",
    f"jobs/{JOB}/timeline": "No epoch has ended yet",
    f"jobs/{JOB}/watermarks": "Largest timestamp",
    f"jobs/{JOB}/checkpoints": "Settings",
    f"jobs/{JOB}/exceptions": "ValueError",
    f"jobs/{JOB}/metrics": "Add a metric",
    f"jobs/{JOB}/accumulators": "ccumulat",
    f"jobs/{JOB}/state?operator=count&state=sum": "Keys of sum",
    f"jobs/{JOB}/configuration": "All, defaults too",
    f"jobs/{JOB}/log": "This server has no logs to show",
    f"jobs/{'4' * 32}/graph": "Without a job yet",
}


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_every_page_shows_markup_as_text_and_says_nothing_on_the_console(
    browser: Browser, server: str, width: int, dark: bool
) -> None:
    watched = watch(browser, server, width=width, dark=dark)
    view = watched.page
    for path, said in PAGES.items():
        view.goto(f"{server}/#/{path}")
        expect(view.locator("main")).to_contain_text(said, timeout=WAIT_MS)
        assert view.locator("main script, main img").count() == 0, path
        assert view.evaluate("window.harmed") is None, path
        assert view.evaluate("document.documentElement.scrollWidth") <= width, path
    # What a browser writes by itself about answers that are no success is no error of a page's.
    troubles = [each for each in watched.troubles if "status of 40" not in each]
    view.close()
    assert troubles == []


def test_a_page_that_waits_says_what_starts(browser: Browser, server: str) -> None:
    watched = watch(browser, server)
    view = watched.page
    view.goto(server)
    row = view.locator('section[data-key="starting"] tbody tr')
    expect(row).to_contain_text(f"slow {HOSTILE}", timeout=WAIT_MS)
    expect(row).to_contain_text("imports")
    view.goto(f"{server}/#/jobs/{'4' * 32}/graph")
    expect(view.locator("main")).to_contain_text(
        f'Without a job yet, or any more: "slow {HOSTILE}"', timeout=WAIT_MS
    )
    view.close()


def test_a_server_that_takes_longer_than_the_page_waits_is_waited_for(browser: Browser, server: str) -> None:
    """Time runs twenty times as fast in the page: it asks every 100 ms, and each answer takes 300 ms."""
    watched = watch(browser, server)
    view = watched.page
    view.add_init_script(
        """
        const [fetches, every] = [window.fetch, window.setInterval];
        window.setInterval = (action, ms) => every(action, ms / 20);
        window.fetch = (...asked) => new Promise((done) => setTimeout(done, 300)).then(() => fetches(...asked));
        """
    )
    view.goto(f"{server}/#/jobs/{JOB}/exceptions")
    expect(view.locator("main")).to_contain_text("ValueError", timeout=WAIT_MS)
    view.get_by_role("link", name="Watermarks").click()
    chosen = view.locator('nav.tabs a[aria-current="page"]')
    assert chosen.text_content() == "Watermarks", "at once"
    expect(view.locator("main")).to_contain_text("Largest timestamp", timeout=WAIT_MS)
    expect(view.locator("main")).not_to_have_attribute("aria-busy", "true")
    view.close()
    assert watched.troubles == []


def test_the_keyboard_leads_past_the_heading_and_to_a_vertex(browser: Browser, server: str) -> None:
    watched = watch(browser, server)
    view = watched.page
    view.goto(f"{server}/#/jobs/{JOB}/graph")
    expect(view.locator("g.vertex").first).to_be_visible(timeout=WAIT_MS)
    view.keyboard.press("Tab")
    expect(view.get_by_role("link", name="To the content")).to_be_focused()
    view.keyboard.press("Enter")
    expect(view.locator("main")).to_be_focused()
    expect(view).to_have_url(f"{server}/#/jobs/{JOB}/graph")
    for _ in range(40):
        view.keyboard.press("Tab")
        if view.evaluate("document.activeElement.classList.contains('vertex')"):
            break
    view.keyboard.press("Enter")
    expect(view.locator("main")).to_contain_text("Subtasks of", timeout=WAIT_MS)
    view.get_by_role("button", name="Cancel").focus()
    view.keyboard.press("Enter")
    expect(view.get_by_role("dialog")).to_be_visible()
    view.keyboard.press("Escape")
    expect(view.get_by_role("dialog")).to_have_count(0)
    expect(view.get_by_role("button", name="Cancel")).to_be_focused()
    view.close()
    assert watched.troubles == []


def test_the_log_is_followed_found_in_and_cut(browser: Browser, server: str) -> None:
    """Routes as Flink documents them, answered in the browser."""
    watched = watch(browser, server)
    view = watched.page
    lines = [f"line {number} {HOSTILE}" for number in range(3_000)]
    files = [
        {"name": "cluster.log", "size": 5, "mtime": NOW_MS},
        {"name": f"{JOB}.log", "size": 1, "mtime": NOW_MS},
    ]
    view.route("**/jobmanager/logs", lambda route: route.fulfill(json={"logs": files}))
    view.route(
        "**/jobmanager/logs/*",
        lambda route: route.fulfill(body="\n".join(lines) + "\n", content_type="text/plain"),
    )
    view.goto(f"{server}/#/jobs/{JOB}/log")
    log = view.locator("#log")
    expect(log).to_contain_text("line 2999 <script>", timeout=WAIT_MS)
    expect(view.locator("main")).to_contain_text("the last 2000 of 3000 lines")
    expect(view.get_by_label("File")).to_have_value(f"{JOB}.log")
    lines.append("one more")
    files[1]["size"] = 2
    expect(log).to_contain_text("one more", timeout=WAIT_MS)
    view.wait_for_function(
        "(log => log.scrollTop + log.clientHeight >= log.scrollHeight - 2)(document.getElementById('log'))"
    )
    view.get_by_label("Find").fill("line 17 ")
    view.get_by_label("Find").press("Enter")
    expect(view.locator("main")).to_contain_text("1 of 3001 lines", timeout=WAIT_MS)
    view.get_by_role("button", name="Stop following").press("Enter")
    expect(view.get_by_role("button", name="Follow", exact=True)).to_be_visible(timeout=WAIT_MS)
    assert view.evaluate("window.harmed") is None
    view.close()
    assert watched.troubles == []
