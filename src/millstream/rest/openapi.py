"""The OpenAPI document, made of the table of routes and of the documents' types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from millstream.rest.errors import Errors
from millstream.rest.parameters import Parameter
from millstream.rest.routes import PlainText, Route
from millstream.version import __version__

__all__ = ["build_openapi"]

_REF = "#/components/schemas/{name}"


def build_openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of routes."""
    table = tuple(routes)
    types = [
        *dict.fromkeys(
            [
                Errors,
                *(
                    kind
                    for route in table
                    for kind in (route.answer, route.body)
                    if kind is not None and kind is not PlainText
                ),
            ]
        )
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        path = re.sub(r":(\w+)", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "millstream REST API",
            "version": __version__,
            "description": "Paths and documents of Apache Flink 2.3's REST API, and millstream's own below "
            "/millstream. Every path is there with /v1 before it, too.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [
            *(_parameter(each, "path") for each in route.path_parameters),
            *(_parameter(each, "query") for each in route.query),
        ],
        "responses": {
            str(route.status): {"description": "The answer.", "content": _content(route.answer, schema_of)},
            "default": {"description": "Why there is none.", "content": _json(schema_of[Errors])},
        },
    }
    if route.upload:
        form = {"type": "object", "properties": {"jarfile": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    if route.body is not None:
        operation["requestBody"] = {"required": False, "content": _json(schema_of[route.body])}
    if route.open:
        operation["security"] = [{}]
    return operation


def _content(answer: Any, schema_of: dict[Any, Any]) -> dict[str, Any]:
    if answer is PlainText:
        return {"text/plain": {"schema": {"type": "string"}}}
    return _json(schema_of[answer])


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": place,
        "required": place == "path",
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }
    if parameter.schema.get("type") == "array":
        described |= {"style": "form", "explode": False}
    if parameter.example is not None:
        described["example"] = parameter.example
    return described


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", route.path)
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)
