"""The OpenAPI 3.1 document, made from the operations themselves: each with its role, and with every answer it can give.

Knows operations as plans; nothing is written by hand that a plan can tell.
"""

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from inspect import cleandoc
from typing import Any, Final, get_type_hints

import msgspec

from soonish.web.plan import PARAMETER, Input, Operation, answered
from soonish.web.problems import CODES, Problem

_REF: Final = "#/components/schemas/{name}"
_ID: Final = {"type": "integer", "format": "int64", "minimum": 1, "maximum": 2**63 - 1}
_SECURITY: Final = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key, `sk_...`."},
    "sign_in": {
        "type": "apiKey",
        "in": "cookie",
        "name": "soonish_signin",
        "description": "The cookie of a sign-in; a change also needs its token in `X-CSRF-Token`.",
    },
}
_CONDITIONS: Final = {
    "If-Match": "Change it only if this is still its ETag.",
    "If-None-Match": "Answer 304 if this is still its ETag.",
    "Idempotency-Key": "A repeat with the same key within 24 h gets the answer of the first.",
    "Last-Event-ID": "Go on after this event.",
}
_PUBLIC: Final = (413, 422, 500, 503)  # a body that nobody asked for may be too large, a parameter unknown
_ALWAYS: Final = (*_PUBLIC, 400, 401, 403, 429)

Json = dict[str, Any]


def document(operations: Sequence[Operation], url: str) -> Json:
    """The document of all operations that are no pages."""
    shown = [one for one in operations if not one.page and not one.path.startswith("/static/")]
    schemas, components = _schemas(shown)
    paths: dict[str, Json] = {}
    for operation in shown:
        path = PARAMETER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Soonish", "version": version("soonish"), "description": "Told at the right moment."},
        "servers": [{"url": url}],
        "security": [{name: []} for name in _SECURITY],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY, "responses": _problems()},
    }


def _schemas(operations: Iterable[Operation]) -> tuple[dict[Any, Json], Json]:
    """The schema of each type that stands in a body or an answer."""
    types: list[Any] = [Problem]
    for one in operations:
        types += [one.body.of] if one.body and one.body.name else []
        types += [answered(one.answer)] if _has_schema(one) else []
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    return dict(zip(unique, schemas, strict=True)), components


def _has_schema(operation: Operation) -> bool:
    answer = answered(operation.answer)
    plain = isinstance(answer, type) and answer.__name__ in ("Reply", "Response", "Stream")
    return not plain and answer is not type(None) and answer is not None


def _operation(operation: Operation, schemas: dict[Any, Json]) -> Json:
    summary, _, description = cleandoc(operation.function.__doc__ or "").partition("\n")
    found: Json = {
        "operationId": getattr(operation.function, "__name__", ""),
        "summary": summary.rstrip("."),
        "x-role": operation.role.name.lower() if operation.role else "public",
        "parameters": [*_path(operation), *_query(operation.query), *_headers(operation)],
        "responses": _responses(operation, schemas),
    }
    if description.strip():
        found["description"] = description.strip()
    if operation.role is None:
        found["security"] = []
    if operation.body and operation.body.name:
        content = {"application/json": {"schema": schemas[operation.body.of]}}
        found["requestBody"] = {"required": not operation.body.optional, "content": content}
    return found


def _path(operation: Operation) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _ID if kind == "int" else {"type": "string"}}
        for name, kind in operation.path_names.items()
    ]


def _query(query: Input[Any] | None) -> list[Json]:
    if query is None:
        return []
    (_,), components = msgspec.json.schema_components([query.of], ref_template=_REF)
    schema = components[query.of.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(one)}
        for name, one in schema["properties"].items()
    ]


def _without_null(schema: Json) -> Json:
    """A query has no null: to leave the parameter out says it."""
    schema = {name: value for name, value in schema.items() if name != "default" or value is not None}
    options = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    if not options:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**rest, **options[0]} if len(options) == 1 else {**rest, "anyOf": options}


def _headers(operation: Operation) -> list[Json]:
    names = [
        *(["If-Match"] if operation.conditional else []),
        *(["If-None-Match"] if _versioned(operation) and operation.method == "GET" else []),
        *(["Idempotency-Key"] if operation.method == "POST" and operation.writes else []),
        *(["Last-Event-ID"] if operation.streams else []),
    ]
    return [
        {"name": name, "in": "header", "required": False, "description": _CONDITIONS[name], "schema": _header(name)}
        for name in names
    ]


def _header(name: str) -> Json:
    if name == "Idempotency-Key":
        return {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[\\x21-\\x7e]+$"}
    return {"type": "string"}


def _versioned(operation: Operation) -> bool:
    """Whether its answer has an ETag: a version that counts changes, not one that names a release."""
    answer = answered(operation.answer)
    return hasattr(answer, "__struct_fields__") and get_type_hints(answer).get("version") is int


def _responses(operation: Operation, schemas: dict[Any, Json]) -> Json:
    found: Json = {str(status): _success(operation, status, schemas) for status in operation.statuses}
    if _versioned(operation) and operation.method == "GET":
        found["304"] = {"description": "It has not changed."}
    own = ", ".join(f"`{code}`" for code in operation.codes)
    for status in _refusals(operation):
        found[str(status)] = {"$ref": f"#/components/responses/{status}"}
    if own:
        found["409"] = _problem(409, f"{own}, {_words(409)}")
    return found


def _refusals(operation: Operation) -> list[int]:
    conditions = {
        404: bool(operation.path_names),
        409: operation.writes,
        412: operation.conditional,
        415: operation.body is not None,
    }
    always = _PUBLIC if operation.role is None else _ALWAYS
    return sorted({*always, *operation.refuses, *(status for status, wanted in conditions.items() if wanted)})


def _success(operation: Operation, status: int, schemas: dict[Any, Json]) -> Json:
    found: Json = {"description": _DONE.get(status, "Done.")}
    if status == 201:
        found["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Where it is."}}
    if operation.streams:
        found["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif _has_schema(operation):
        found["content"] = {"application/json": {"schema": schemas[answered(operation.answer)]}}
    return found


_DONE: Final = {200: "Done.", 201: "Made.", 202: "It is due now.", 204: "Done; there is nothing to say."}


def _problems() -> Json:
    return {str(status): _problem(status, _words(status)) for status in CODES}


def _words(status: int) -> str:
    return ", ".join(f"`{code}`" for code in CODES[status])


def _problem(status: int, words: str) -> Json:
    headers = {"Retry-After": {"schema": {"type": "integer"}}} if status in (409, 429, 503) else {}
    content = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}
    return {"description": words, "content": content, **({"headers": headers} if headers else {})}
