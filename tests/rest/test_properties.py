"""Whatever is asked, the answer is JSON of the type that the OpenAPI document names, or an error; never 500."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.rest.routes import PlainText
from rest.fake_jobs import SINK, SOURCE, AnsweringJob, Client

RUNNING, FAILED = "1" * 32, "2" * 32
CLIENT = Client(AnsweringJob(RUNNING), AnsweringJob(FAILED, "FAILED", name="<script>\x00\ud800"))
DOCUMENT = CLIENT.get("/openapi.json")

TEXTS = st.text(max_size=50) | st.sampled_from(
    ["", "..", "/", "%2f", "\x00", "NaN", "-0", "1e9", "9" * 30, "é"]
)
KNOWN = {
    "jobid": st.sampled_from([RUNNING, FAILED, RUNNING.upper()]),
    "vertexid": st.sampled_from([SOURCE, SINK]),
    "subtaskindex": st.integers(-1, 3).map(str),
    "attempt": st.integers(0, 2).map(str),
    "checkpointid": st.integers(0, 9).map(str),
    "taskmanagerid": st.sampled_from(["here:17-1", "there:17-2"]),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def values_of(schema: dict) -> st.SearchStrategy[str]:
    """Return texts, most of which fit a schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "integer":
        return st.integers(-3, 2**64).map(str) | st.integers(0, 20).map(str)
    if schema.get("type") == "boolean":
        return st.sampled_from(["true", "false", "maybe"])
    if schema.get("type") == "array":
        return st.lists(values_of(schema["items"]) | METRICS, max_size=4).map(",".join)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    return TEXTS


METRICS = st.sampled_from(["numRecordsOut", "0.numRecordsOut", "uptime", "count.text", "nosuch"])


BOUNDS = st.fixed_dictionaries(
    {"upperBound": st.integers(-1, 4)}, optional={"lowerBound": st.integers(-1, 3)}
)
requirements = st.dictionaries(
    st.sampled_from([SOURCE, SINK, "c" * 32]),
    st.fixed_dictionaries({"parallelism": BOUNDS | JSON}),
    max_size=3,
)


def bodies(operation: dict) -> st.SearchStrategy[bytes | None]:
    """Return bodies: none, JSON of the right fields, any JSON, any bytes."""
    if "requestBody" not in operation:
        return st.none() | st.binary(max_size=20)
    if "application/json" not in operation["requestBody"]["content"]:
        return st.binary(max_size=50)
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" not in schema:
        return st.none() | (requirements | JSON).map(msgspec.json.encode) | st.binary(max_size=50)
    properties = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
    right = st.fixed_dictionaries(
        {}, optional={name: JSON | st.sampled_from(["CANONICAL", "FULL", "a" * 32]) for name in properties}
    )
    return st.none() | (right | JSON).map(msgspec.json.encode) | st.binary(max_size=50)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, str, bytes | None]:
    """Return method, path, query and body for one operation of the OpenAPI document."""
    path = draw(st.sampled_from(sorted(DOCUMENT["paths"])))
    method = draw(st.sampled_from(sorted(DOCUMENT["paths"][path])))
    operation = DOCUMENT["paths"][path][method]
    query = []
    for parameter in operation["parameters"]:
        name, schema = parameter["name"], parameter["schema"]
        if parameter["in"] == "path":
            known = KNOWN.get(name, values_of(schema))
            any_value = known | known | known | values_of(schema) | TEXTS
            value = draw(any_value.filter(lambda text: text not in (".", "..")))  # which clients resolve
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        elif draw(st.booleans()):
            query.append((name, draw(values_of(schema) | values_of(schema) | TEXTS)))
    if draw(st.booleans()):
        query.append((draw(TEXTS), draw(TEXTS)))
    return method.upper(), path, urlencode(query), draw(bodies(operation))


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(requests())
def test_every_request_has_an_answer_of_its_type(request):
    method, path, query, body = request
    answer = CLIENT.ask(method, f"{path}?{query}", content=body)
    assert answer.status_code not in (500, 501, 503), answer.text
    if answer.status_code >= 400:
        assert list(answer.json()) == ["errors"], request
        return
    route, _ = CLIENT.application._router.find(method, path.encode())
    assert answer.status_code == route.status
    if route.answer is PlainText:
        assert answer.headers["content-type"].startswith("text/plain")
        return
    msgspec.json.decode(answer.content, type=route.answer)


@settings(max_examples=200)
@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"]),
    TEXTS,
    st.binary(max_size=20),
)
def test_any_path_at_all_has_an_answer(method, text, body):
    answer = CLIENT.ask(method, f"/{quote(text, safe='/')}", content=body)
    assert answer.status_code in (200, 202, 400, 404, 405), answer.text
