"""COMPILE PLAN: a plan as a file, to be executed later, also by another version.

The file is JSON: the format's version, the tables that are written, a text of every operator for people to read, and
the physical plan itself, so that later planners cannot reshape it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.base.pickling import dump_lasting
from millstream.table.plan.context import PlanContext
from millstream.table.plan.digest import uid_of
from millstream.table.plan.explain import json_plan
from millstream.table.plan.planner import Planned
from millstream.table.session.tableau import print_line

__all__ = ["CompiledPlan", "dump_plan", "load_plan"]

_VERSION = 1


def dump_plan(planned: Sequence[Planned], targets: Sequence[str]) -> str:
    """Return plans as JSON.

    Args:
        planned: Of INSERTs.
        targets: Full names of the tables that are written.
    """
    content = dump_lasting(list(planned))
    shown = {
        "targets": list(targets),
        "uids": [uid_of(each.physical.input) for each in planned],
        **json.loads(json_plan(planned)),
    }
    document = {
        "millstreamPlanVersion": _VERSION,
        **shown,
        "shown": _hash_of(shown),
        "sha256": hashlib.sha256(content).hexdigest(),
        "plan": base64.b64encode(content).decode(),
    }
    return json.dumps(document, indent=2) + "\n"


def load_plan(text: str, context: PlanContext) -> tuple[list[Planned], list[str]]:
    """Read plans.

    Args:
        text: What `dump_plan` gave. It holds Python objects: read files of people you trust only.
        context: The session's surroundings.

    Raises:
        ConfigurationError: If it is no such text, of a later version, or was changed; then with what was changed.
    """
    del context
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"a compiled plan is no JSON: {error}") from error
    version = document.get("millstreamPlanVersion") if isinstance(document, dict) else None
    if version != _VERSION:
        raise ConfigurationError(
            f"a compiled plan has version {version!r}",
            detail=f"This millstream reads version {_VERSION}; Flink's own plans are of Java and cannot run here.",
            hint="Compile the statement again.",
        )
    missing = [name for name in ("targets", "uids", "nodes", "sha256", "plan") if name not in document]
    if missing:
        raise ConfigurationError(
            f"a compiled plan lacks {', '.join(map(repr, missing))}", hint="Compile the statement again."
        )
    try:
        content = base64.b64decode(document["plan"], validate=True)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"a compiled plan has a 'plan' that is not in base64: {error}",
            hint="Compile the statement again.",
        ) from error
    if hashlib.sha256(content).hexdigest() != document["sha256"]:
        raise ConfigurationError(
            "a compiled plan was changed after it was written", hint="Compile the statement again."
        )
    planned: list[Planned] = pickle.loads(content)
    shown = {name: document[name] for name in ("targets", "uids", "nodes")}
    if document.get("shown", _hash_of(shown)) != _hash_of(shown):
        raise ConfigurationError(
            "the text of a compiled plan was changed after it was written, and would change nothing",
            detail=_difference(document, planned),
            hint="Change the statement, and compile it again.",
        )
    return planned, [str(each) for each in document["targets"]]


def _hash_of(shown: Any) -> str:
    """Return a hash of what people read of a plan, however it is laid out."""
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def _difference(document: dict[str, Any], planned: Sequence[Planned]) -> str:
    """Return the first operator whose text in a file is not that of the plan."""
    nodes = json.loads(json_plan(planned))["nodes"]
    given = document["nodes"] if isinstance(document["nodes"], list) else []
    for place, node in enumerate(nodes):
        told = given[place] if place < len(given) else None
        if told != node:
            number, contents = node["id"], node["contents"]
            if not isinstance(told, dict):
                return f"Operator {number}, {contents}, is not in its text."
            if told.get("contents") != contents:
                return f"Operator {number} is {contents}; the text has {told.get('contents')}."
            return f"Operator {number}, {contents}, has other attributes in its text."
    if len(given) > len(nodes):
        return f"Its text has {len(given)} operators, it has {len(nodes)}."
    return "Its tables or uids have other names in its text."


class CompiledPlan:
    """A plan of INSERTs that is kept (PyFlink's `CompiledPlan`).

    Args:
        environment: The table environment.
        planned: The plans.
        targets: Full names of the tables that are written.
    """

    def __init__(self, environment: Any, planned: Sequence[Planned], targets: Sequence[str]) -> None:
        self._environment = environment
        self._planned = list(planned)
        self._targets = list(targets)

    def __str__(self) -> str:
        return self.explain()

    def as_json_string(self) -> str:
        """Return the plan as JSON."""
        return dump_plan(self._planned, self._targets)

    def as_smile_bytes(self) -> bytes:
        """Raise an error: plans are JSON.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            "a compiled plan was asked for as Smile bytes",
            detail="Smile is a binary form of JSON for Java.",
            hint="Use as_json_string().",
        )

    def get_flink_version(self) -> str:
        """Return the version of Flink whose SQL the plan is of."""
        return "2.3"

    def write_to_file(self, file: Any, ignore_if_exists: bool = False) -> None:
        """Write the plan as JSON.

        Args:
            file: Its path.
            ignore_if_exists: Whether a file that is there is left as it is; else that is an error.

        Raises:
            ConfigurationError: If there is a file already.
        """
        path = os.fspath(file)
        if os.path.exists(path):
            if ignore_if_exists:
                return
            raise ConfigurationError(f"file {path!r} of a plan exists already")
        directory = os.path.dirname(path) or "."
        with tempfile.NamedTemporaryFile("w", dir=directory, delete=False, encoding="utf-8") as out:
            out.write(self.as_json_string())
        os.replace(out.name, path)

    def print_json_string(self) -> None:
        """Print the plan as JSON."""
        print_line(self.as_json_string())

    def explain(self, *extra_details: Any) -> str:
        """Return the plan as text."""
        text: str = self._environment.explain_planned(self._planned, extra_details)
        return text

    def print_explain(self, *extra_details: Any) -> CompiledPlan:
        """Print the plan."""
        print_line(self.explain(*extra_details))
        return self

    def execute(self) -> Any:
        """Run the plan as a job; it runs when this returns."""
        return self._environment.run_inserts(self._planned, self._targets)
