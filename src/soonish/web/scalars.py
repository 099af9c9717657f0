"""Shapes of single values: texts, numbers, moments, words of a list.

Each maker answers a function that checks a value and tidies it (text is trimmed and normalized). Knows nothing of the
fields around a value.
"""

import math
import re
import unicodedata
import uuid
from collections.abc import Callable
from datetime import date, time
from typing import Any, Final, TypeAlias

from msgspec import inspect as kinds

from soonish import clock
from soonish.errors import FieldError, Invalid

Shape: TypeAlias = Callable[[Any, str, list[FieldError]], Any]

BAD: Final = object()  # what a shape answers after it has named an error
MOST_ERRORS: Final = 200  # a hostile body must not be answered with a greater one
TEXT_LENGTH: Final = 1000  # of a text that states no length
MOMENT_LENGTH: Final = 64  # a longer one is not repeated in an error

_LINE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LINES: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_REFUSED: Final = {"line": _LINE, "lines": _LINES, "raw": re.compile("\0")}  # PostgreSQL stores no NUL
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_WORDS: Final = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
_BIGINT: Final = 2**63


def bad(errors: list[FieldError], path: str, code: str, message: str) -> object:
    """Name an error and answer BAD."""
    if len(errors) < MOST_ERRORS:
        errors.append(FieldError(path, code, message))
    return BAD


def shown(name: str) -> str:
    """A name that a stranger wrote, safe to repeat."""
    return _LINE.sub("\N{REPLACEMENT CHARACTER}", name[:100])


def string(info: kinds.StrType, kind: str) -> Shape:
    least = info.min_length or 0
    most = TEXT_LENGTH if info.max_length is None else info.max_length
    pattern = re.compile(info.pattern) if info.pattern else None
    refused = _REFUSED[kind]

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, str):
            return bad(errors, path, "type", "Write text in quotes")
        value = _tidy(value, kind)
        if refused.search(value):
            return bad(errors, path, "control_character", "Remove the control characters (such as line breaks)")
        if not least <= len(value) <= most:
            return bad(errors, path, "length", how_long(len(value), least, most, "character"))
        if pattern and not pattern.search(value):
            return bad(errors, path, "pattern", f"Write it so that it fits {info.pattern}")
        return value

    return check


def _tidy(value: str, kind: str) -> str:
    if kind == "raw":
        return value
    value = value.strip() if kind == "line" else value.strip(" \t\n")
    return value if value.isascii() else unicodedata.normalize("NFC", value)


def how_long(found: int, least: int, most: int, noun: str) -> str:
    if found > most:
        return f"At most {most} {noun}s fit here; this has {found}"
    return "It must not be empty" if found == 0 else f"At least {least} {noun}s are needed; this has {found}"


def integer(info: kinds.IntType, *, text: bool) -> Shape:
    least = info.ge if info.ge is not None else -_BIGINT if info.gt is None else info.gt + 1
    most = info.le if info.le is not None else _BIGINT - 1 if info.lt is None else info.lt - 1

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if text and isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is not int:
            return bad(errors, path, "type", "Write a whole number")
        if not least <= value <= most:
            return bad(errors, path, "range", f"Write a number from {least} to {most}")
        return value

    return check


def number(info: kinds.FloatType, *, text: bool) -> Shape:
    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if text and isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)
        if type(value) not in (int, float) or not _finite(value):
            return bad(errors, path, "type", "Write a number")
        if not _within(value, info):
            return bad(errors, path, "range", f"Write a number {_bounds(info)}")
        return float(value)

    return check


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _within(value: float, info: kinds.FloatType) -> bool:
    return (
        (info.ge is None or value >= info.ge)
        and (info.gt is None or value > info.gt)
        and (info.le is None or value <= info.le)
        and (info.lt is None or value < info.lt)
    )


def _bounds(info: kinds.FloatType) -> str:
    words = {"at least": info.ge, "above": info.gt, "at most": info.le, "below": info.lt}
    return " and ".join(f"{word} {bound:g}" for word, bound in words.items() if bound is not None)


def boolean(_info: Any, *, text: bool) -> Shape:
    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if text and isinstance(value, str):
            value = _WORDS.get(value, value)
        return value if isinstance(value, bool) else bad(errors, path, "type", "Write true or false")

    return check


def null(_info: Any, *, text: bool) -> Shape:
    empty = "" if text else None

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        return None if value in (None, empty) else bad(errors, path, "type", "Write null")

    return check


def anything(_info: Any, *, text: bool) -> Shape:
    del text
    return lambda value, _path, _errors: value


def parsed(parse: Callable[[str], Any], sample: str) -> Callable[..., Shape]:
    def make(_info: Any, *, text: bool) -> Shape:
        del text

        def check(value: Any, path: str, errors: list[FieldError]) -> Any:
            try:
                if isinstance(value, str) and len(value) <= MOMENT_LENGTH:
                    return parse(value)
            except Invalid as error:
                return bad(errors, path, error.code, error.message)
            except ValueError:
                pass
            return bad(errors, path, "type", f"Write it like {sample}")

        return check

    return make


def _date(value: str) -> date:
    if not _DATE.fullmatch(value):
        raise ValueError(value)
    return date.fromisoformat(value)


def _time(value: str) -> time:
    if not _TIME.fullmatch(value):
        raise ValueError(value)
    return time.fromisoformat(value)


def _uuid(value: str) -> uuid.UUID:
    if len(value) != 36:
        raise ValueError(value)
    return uuid.UUID(value)


def literal(info: kinds.LiteralType, *, text: bool) -> Shape:
    words = ", ".join(str(one) for one in info.values)
    known = {str(one) if text else one: one for one in info.values}

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if isinstance(value, str | int) and not isinstance(value, bool) and value in known:
            return known[value]
        return bad(errors, path, "one_of", f"Write one of: {words}")

    return check


def enumeration(info: kinds.EnumType, *, text: bool) -> Shape:
    literal_shape = literal(kinds.LiteralType(tuple(one.value for one in info.cls)), text=text)

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        value = literal_shape(value, path, errors)
        return value if value is BAD else info.cls(value)

    return check


DATETIME: Final = parsed(clock.parse_instant, "2026-12-01T18:00:00Z")
DATE: Final = parsed(_date, "2026-12-01")
TIME: Final = parsed(_time, "18:00")
UUID: Final = parsed(_uuid, "0b9f0c1e-6f3a-4f0e-9a51-2f7c3f1d2a10")
