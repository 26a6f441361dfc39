"""What `pyproject.toml` says of the package, beside what the documents say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def named_extras() -> set[str]:
    """Return the extras that documents and hints of errors have people install."""
    texts = [path.read_text() for path in [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]]
    return {
        extra
        for text in texts
        for group in re.findall(r"millstream\[([a-z0-9,-]+)\]", text)
        for extra in group.split(",")
    }


def test_extras_that_are_named_exist():
    assert named_extras() - EXTRAS == set()


def test_extras_that_exist_are_named():
    in_tables = {
        name for path in PAGES for name in re.findall(r"\| `([a-z0-9]+)`(?: \(.*?\))? \|", path.read_text())
    }
    assert EXTRAS - named_extras() - in_tables - {"dev"} == set()


def test_classifiers_say_what_the_documents_say():
    install = (ROOT / "docs" / "start" / "install.md").read_text()
    (oldest,) = re.findall(r"Python (3\.\d+) or newer", install)
    assert PROJECT["requires-python"] == f">={oldest}"
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert named == [f"3.{minor}" for minor in range(int(oldest[2:]), int(oldest[2:]) + len(named))]
    systems = {
        each.split(" :: ")[-1].lower()
        for each in PROJECT["classifiers"]
        if each.startswith("Operating System")
    }
    assert systems == {each.lower() for each in re.findall(r"on (Linux) or (macOS)", install)[0]}


def test_the_image_installs_extras_that_exist():
    dockerfile = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    (default,) = re.findall(r"^ARG EXTRAS=(.*)$", dockerfile, re.M)
    compose = yaml.safe_load((ROOT / "deploy" / "docker-compose.yaml").read_text())
    built = compose["services"]["count-orders"]["build"]["args"]["EXTRAS"]
    assert set(default.split(",")) | set(built.split(",")) <= EXTRAS


def test_classifiers_name_the_versions_that_may_be_used():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert named[0] == oldest
    assert named == sorted(named, key=lambda each: int(each.partition(".")[2]))
    assert "License ::" not in str(PROJECT["classifiers"])  # an expression says it; registries refuse both


def test_forms_for_issues_ask_for_something():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        form = yaml.safe_load(path.read_text())
        assert {"name", "description", "body"} <= set(form)
        ids = [each["id"] for each in form["body"]]
        assert len(set(ids)) == len(ids)
        assert all(each["type"] in ("textarea", "dropdown", "checkboxes", "input") for each in form["body"])
