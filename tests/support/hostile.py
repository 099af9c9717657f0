"""Texts that somebody wrote to do harm, and all the places of an OpenAPI document where a text may stand."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from tests.support.schema import Document

Place: TypeAlias = tuple[str | int, ...]

MARKUP: Final = '</script><script>evil()</script><img src=x onerror="evil()">'
TEXTS: Final[dict[str, str]] = {
    "markup": MARKUP,
    "attribute": "\" autofocus onfocus='evil()' x=\"",
    "template": "{{ 7 * 7 }}{% include 'x' %}${7*7}#{7*7}",
    "header": "a\r\nX-Evil: 1\r\nBcc: evil@example.org\r\n\r\nevil",
    "bare line": "a\rX-Evil: 1\nX-Evil: 2\x0bX-Evil: 3\x85X-Evil: 4\u2028X-Evil: 5",
    "encoded word": "=?utf-8?q?a=0D=0AX-Evil:_1?=",
    "control": "".join(map(chr, range(1, 32))) + "\x7f\x1b[2J",
    "nul": "a\0b",
    "half": "\ud800",
    "turned": "\u202egnp.exe\u2066\u200f\ufeff",
    "stacked": "a" + "\u0301" * 1_000,
    "astral": "𝒳" * 60 + "\U0010ffff\ufffe",
    "quotes": "'; DROP TABLE person; --\\'\"$$",
    "path": "../../../../etc/passwd",
    "format": "%s%n%x{0}{name}{0.__class__}",
    "link": "javascript:evil()//https://a.example",
    "pattern": "(a+)+$" + "a" * 40 + "!",
    "white": " \t\u00a0\u3000 ",
    "empty": "",
    "long": "x" * 100_000,
}
"""By what they try. None of them may be refused by anything but a problem, nor be taken for anything but text."""


def places(document: Document, schema: Any, at: Place = (), depth: int = 0) -> Iterator[Place]:
    """Where a text may stand in a value of this schema: in fields, in lists, under names of one's own, or anywhere."""
    schema = document._resolved(schema)
    if depth > 6:
        return
    for one in schema.get("anyOf", ()):
        yield from places(document, one, at, depth + 1)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "string" in kinds or not ({"type", "anyOf", "enum", "properties"} & schema.keys()):
        yield at
    for name, one in schema.get("properties", {}).items():
        yield from places(document, one, (*at, name), depth + 1)
    if "items" in schema:
        yield from places(document, schema["items"], (*at, 0), depth + 1)
    if isinstance(more := schema.get("additionalProperties"), dict):
        yield from places(document, more, (*at, "X-Own"), depth + 1)
    elif "object" in kinds and "properties" not in schema:
        yield (*at, "own")


def with_text(base: Any, place: Place, text: Any) -> Any:
    """The value with a text in that place; what is missing on the way there is made."""
    if not place:
        return text
    step, *rest = place
    if isinstance(step, int):
        inner = base[0] if isinstance(base, list) and base else None
        return [with_text(inner, tuple(rest), text), *(base[1:] if isinstance(base, list) else ())]
    whole = dict(base) if isinstance(base, dict) else {}
    return whole | {step: with_text(whole.get(step), tuple(rest), text)}


def deep(count: int, form: str) -> bytes:
    """JSON that is so deep."""
    opening, closing = {"lists": (b"[", b"]"), "objects": (b'{"a":', b"}"), "both": (b'[{"a":', b"}]")}[form]
    return opening * count + b"1" + closing * count
