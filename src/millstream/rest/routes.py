"""One table says what there is: it routes, checks parameters and bodies, and becomes the OpenAPI document.

Paths are written as Flink writes them: `/jobs/:jobid/vertices/:vertexid`. All are there with `/v1` before them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from millstream.rest.errors import RestError
from millstream.rest.parameters import Parameter

__all__ = ["Call", "PlainText", "Route", "Router"]

_MOST_FIELDS = 100
"""Of a query."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose parameters have been checked.

    Attributes:
        path: Values of the path's parameters.
        query: Values of the query's, defaults for those that it has not.
        body: The body as the route's type; None for routes without one.
        context: What handlers ask: `rest.context.RestContext`.
    """

    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any
    context: Any


@dataclass(frozen=True, slots=True)
class PlainText:
    """An answer that is no JSON.

    Attributes:
        text: What it says.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """What one method of one path does.

    Attributes:
        method: GET, POST, PATCH, PUT or DELETE.
        path: With `:name` where a parameter stands.
        handler: Answers; runs on a thread that may wait.
        summary: One sentence for a person.
        answer: Type of the document.
        path_parameters: All that stand in the path.
        query: Parameters of the query.
        body: Type of the body; None if it has none.
        status: Of an answer that is no error.
        tag: Group in the OpenAPI document.
        open: Whether it is answered without a token.
        upload: Whether the body is a form with a file: the handler gets its bytes and type.
        of_views: Whether the answer is made of views and of what never changes, so that it holds as long as they do.
    """

    method: str
    path: str
    handler: Callable[[Call], Any]
    summary: str
    answer: Any
    path_parameters: tuple[Parameter, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: Any = None
    status: int = 200
    tag: str = ""
    open: bool = False
    upload: bool = False
    of_views: bool = False

    def read_path(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of the path's parameters.

        Raises:
            RestError: If one does not fit.
        """
        try:
            return {each.name: each.read(values[each.name]) for each in self.path_parameters}
        except ValueError as error:
            raise RestError(400, str(error)) from error

    def read_query(self, query: bytes) -> dict[str, Any]:
        """Return the values of the query's parameters; of several with one name the last; others are passed over.

        Raises:
            RestError: If one does not fit.
        """
        values: dict[str, Any] = {each.name: each.default for each in self.query}
        if not query:
            return values
        known = {each.name: each for each in self.query}
        try:
            for name, value in parse_qsl(
                query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
            ):
                if name in known:
                    values[name] = known[name].read(value)
        except ValueError as error:
            raise RestError(400, str(error)) from error
        return values

    def read_body(self, body: bytes) -> Any:
        """Return the body; an empty one counts as `{}`, as in Flink.

        Raises:
            RestError: If it does not fit.
        """
        if self.body is None:
            return None
        try:
            return msgspec.json.decode(body or b"{}", type=self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RestError(400, f"the body does not fit: {error}") from error


@dataclass(slots=True)
class _Node:
    literal: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    names: list[tuple[int, str]] = field(default_factory=list)
    routes: dict[str, tuple[Route, tuple[tuple[int, str], ...]]] = field(default_factory=dict)


class Router:
    """Finds routes; read only, so any thread may ask.

    Args:
        routes: All there are.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Sequence[Route] = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        named = []
        for index, segment in enumerate(route.path.strip("/").split("/")):
            if segment.startswith(":"):
                named.append((index, segment[1:]))
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.literal.setdefault(segment, _Node())
        assert {name for _, name in named} == {each.name for each in route.path_parameters}, route.path
        assert route.method not in node.routes, f"{route.method} {route.path} stands twice"
        node.routes[route.method] = (route, tuple(named))

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """Return the route of a request and the texts of its path's parameters.

        Raises:
            RestError: 404 if there is no such path, 405 if it has no such method.
        """
        path = raw_path.decode("latin-1")
        segments = [unquote(segment) for segment in path.strip("/").split("/")]
        if segments[0] == "v1":
            del segments[0]
        node = _walk(self._root, segments, 0)
        if node is None:
            raise RestError(
                404, f"there is no path {path[:200]!r} here; /openapi.json describes those that there are"
            )
        wanted = "GET" if method == "HEAD" else method
        if wanted not in node.routes:
            allowed = ", ".join(sorted(node.routes))
            raise RestError(
                405,
                f"{path[:200]} has no method {method[:20]}; it has {allowed}",
                headers=[("allow", allowed)],
            )
        route, named = node.routes[wanted]
        return route, {name: segments[index] for index, name in named}


def _walk(node: _Node, segments: list[str], at: int) -> _Node | None:
    if at == len(segments):
        return node if node.routes else None
    literal = node.literal.get(segments[at])
    found = None if literal is None else _walk(literal, segments, at + 1)
    if found is None and node.parameter is not None and segments[at]:
        found = _walk(node.parameter, segments, at + 1)
    return found
