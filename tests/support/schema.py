"""Hold real answers against the OpenAPI document: the status is declared, and the body is as the schema says.

Stricter than JSON Schema: a field that the schema does not name is wrong, for then the document is not complete.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from tests.support.http import Answer

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),),
    "object": (dict,), "array": (list,),
}  # fmt: skip


class Document:
    """One OpenAPI document."""

    def __init__(self, text: dict[str, Any]) -> None:
        self.text = text

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Method, path and what is said of each."""
        for path, methods in self.text["paths"].items():
            for method, said in methods.items():
                yield method.upper(), path, said

    def complaints(self, said: dict[str, Any], answer: Answer) -> list[str]:
        """What the document did not say of this answer."""
        declared = self._resolved(said["responses"].get(str(answer.status)))
        if declared is None:
            return [f"{answer.status} is not declared: {answer.body[:200]!r}"]
        content = declared.get("content", {})
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if not answer.body:
            return [] if not content or answer.status in (204, 304) else [f"{answer.status} has no body"]
        if kind not in content:
            return [f"{answer.status} is {kind}, not {list(content)}"] if content else []  # none is named: it is free
        return list(self.misfits(content[kind]["schema"], answer.json, "")) if kind.endswith("json") else []

    def misfits(self, schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
        """Where the value is not as the schema says."""
        schema = self._resolved(schema)
        if "anyOf" in schema:
            tries = [list(self.misfits(one, value, path)) for one in schema["anyOf"]]
            yield from [] if [] in tries else min(tries, key=len)
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path}: {value!r} is none of {schema['enum']}"
        if "type" in schema and not _is(value, schema["type"]):
            yield f"{path}: {value!r} is no {schema['type']}"
        elif isinstance(value, str):
            yield from _text(schema, value, path)
        elif isinstance(value, list):
            for n, one in enumerate(value):
                yield from self.misfits(schema.get("items", {}), one, f"{path}.{n}")
        elif isinstance(value, dict) and ("properties" in schema or "additionalProperties" in schema):
            yield from self._fields(schema, value, path)

    def _fields(self, schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
        known = schema.get("properties", {})
        for name in set(schema.get("required", [])) - value.keys():
            yield f"{path}.{name} is missing"
        for name, one in value.items():
            inner = known.get(name, schema.get("additionalProperties"))
            if inner is None or inner is False:
                yield f"{path}.{name} is not in the schema"
            elif isinstance(inner, dict):
                yield from self.misfits(inner, one, f"{path}.{name}")

    def _resolved(self, one: Any) -> Any:
        while isinstance(one, dict) and "$ref" in one:
            found: Any = self.text
            for part in one["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            one = found
        return one


def _is(value: Any, kind: str | list[str]) -> bool:
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[one]) for one in kinds)


def _text(schema: dict[str, Any], value: str, path: str) -> Iterator[str]:
    if schema.get("format") == "date-time" and (not value.endswith("Z") or datetime.fromisoformat(value) is None):
        yield f"{path}: {value!r} is no instant in UTC"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r} does not fit {schema['pattern']}"
