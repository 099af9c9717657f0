"""Check decoded values against a type and name all that is wrong at once, each with a stable code.

A shape is compiled once from a type (through msgspec's own view of it) and then called with a value. Knows nothing of
HTTP: where a value comes from, and what is done about the errors, is not decided here.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect as kinds

from soonish.errors import FieldError, Invalid
from soonish.web import scalars
from soonish.web.scalars import BAD, Shape, bad, how_long, shown

MOST: Final = 2**31  # of items in a list that states no length


@cache
def json_shape(of: Any) -> Shape:
    """The shape of a type whose values come from JSON."""
    return _compile(kinds.type_info(of), text=False)


@cache
def text_shape(of: type[msgspec.Struct], *, form: bool) -> Shape:
    """The shape of a struct whose values come as text: `{name: [text, ...]}`, from a query or a form."""
    info = kinds.type_info(of)
    assert isinstance(info, kinds.StructType)
    struct = _struct(info, text=True)
    many = {field.encode_name for field in info.fields if _bare(field.type, kinds.ListType)}
    boxes = [field.encode_name for field in info.fields if form and _bare(field.type, kinds.BoolType)]
    return lambda values, path, errors: struct(_single(values, many, boxes, errors), path, errors)


def checked_against(shape: Shape, value: Any) -> Any:
    """The value as the type has it, or Invalid with every error."""
    errors: list[FieldError] = []
    result = shape(value, "", errors)
    if errors:
        raise Invalid("", *errors)
    return result


def _single(
    values: dict[str, list[str]], many: set[str], boxes: list[str], errors: list[FieldError]
) -> dict[str, str | list[str]]:
    """Lists where lists are wanted, one text elsewhere; a box that is not ticked is not sent."""
    for name, given in values.items():
        if len(given) > 1 and name not in many:
            errors.append(FieldError(name, "type", "Give it once"))
    found: dict[str, Any] = {name: given if name in many else given[-1] for name, given in values.items()}
    return {**dict.fromkeys(boxes, "false"), **found}


def _compile(info: Any, *, text: bool) -> Shape:
    if isinstance(info, kinds.Metadata):
        return _with_check(_compile_plain(info.type, info.extra or {}, text), (info.extra or {}).get("check"))
    return _compile_plain(info, {}, text)


def _compile_plain(info: Any, extra: dict[str, Any], text: bool) -> Shape:
    maker = _MAKERS.get(type(info))
    if maker is None:
        raise TypeError(f"{info!r} is no type that a request can carry")
    return scalars.string(info, extra.get("text", "line")) if maker is scalars.string else maker(info, text=text)


def _with_check(shape: Shape, function: Callable[[Any], Any] | None) -> Shape:
    if function is None:
        return shape

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        value = shape(value, path, errors)
        if value is BAD:
            return BAD
        try:
            return function(value)
        except Invalid as error:
            return _allbad(errors, path, error)

    return check


def _allbad(errors: list[FieldError], path: str, error: Invalid) -> object:
    found = error.errors or [FieldError("", "pattern" if error.code == "invalid" else error.code, error.message)]
    errors.extend(FieldError(_join(path, one.field), one.code, one.message) for one in found)
    return BAD


def _join(path: str, name: str | int) -> str:
    return f"{path}.{name}" if path and name != "" else path or str(name)


def _bare(info: Any, kind: type) -> bool:
    if isinstance(info, kinds.Metadata):
        return _bare(info.type, kind)
    if isinstance(info, kinds.UnionType):
        return any(_bare(one, kind) for one in info.types)
    return isinstance(info, kind)


def _list(info: Any, *, text: bool) -> Shape:
    item = _compile(info.item_type, text=text)
    least, most = info.min_length or 0, MOST if info.max_length is None else info.max_length

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, list):
            return bad(errors, path, "type", "Write a list: [...]")
        if not least <= len(value) <= most:
            return bad(errors, path, "length", how_long(len(value), least, most, "item"))
        found = [item(one, _join(path, n), errors) for n, one in enumerate(value)]
        return BAD if any(one is BAD for one in found) else found

    return check


def _dict(info: kinds.DictType, *, text: bool) -> Shape:
    key, item = _compile(info.key_type, text=text), _compile(info.value_type, text=text)
    least, most = info.min_length or 0, MOST if info.max_length is None else info.max_length

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, dict):
            return bad(errors, path, "type", "Write an object: {...}")
        if not least <= len(value) <= most:
            return bad(errors, path, "length", how_long(len(value), least, most, "field"))
        paths = {name: _join(path, shown(name)) for name in value}
        found = {key(name, paths[name], errors): item(one, paths[name], errors) for name, one in value.items()}
        return BAD if BAD in found or any(one is BAD for one in found.values()) else found

    return check


def _union(info: kinds.UnionType, *, text: bool) -> Shape:
    options = [one for one in info.types if not isinstance(one, kinds.NoneType)]
    nullable = len(options) < len(info.types)
    inner = _compile(options[0], text=text) if len(options) == 1 else _one_of_many(options, text)

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if nullable and (value is None or (text and value == "")):
            return None
        return inner(value, path, errors)

    return check


def _one_of_many(options: list[Any], text: bool) -> Shape:
    if all(isinstance(one, kinds.StructType) and one.tag_field for one in options):
        return _tagged(options)
    shapes = [_compile(one, text=text) for one in options]

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        """The errors of the option that came nearest to fit: the last one that knew the type at all."""
        refused: list[FieldError] = []
        for shape in shapes:
            tried: list[FieldError] = []
            if (found := shape(value, path, tried)) is not BAD:
                return found
            if not refused or not any(one.field == path and one.code == "type" for one in tried):
                refused = tried
        errors.extend(refused)
        return BAD

    return check


def _tagged(options: list[kinds.StructType]) -> Shape:
    """The struct that the tag field names."""
    tag = str(options[0].tag_field)
    shapes = {one.tag: _struct(one, text=False) for one in options}
    words = ", ".join(str(one) for one in shapes)

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, dict):
            return bad(errors, path, "type", "Write an object: {...}")
        if tag not in value:
            return bad(errors, _join(path, tag), "required", f"Name one of: {words}")
        name = value[tag]
        if not isinstance(name, str | int) or name not in shapes:
            return bad(errors, _join(path, tag), "one_of", f"Write one of: {words}")
        return shapes[name](value, path, errors)

    return check


def _struct(info: kinds.StructType, *, text: bool) -> Shape:
    fields = [(one.encode_name, one.name, _compile(one.type, text=text), one.required) for one in info.fields]
    known = {one.encode_name for one in info.fields} | ({info.tag_field} if info.tag_field else set())
    refused = getattr(info.cls, "unknown", "unknown_field")
    rules: Callable[[Any], Iterable[FieldError]] | None = getattr(info.cls, "rules", None)

    def check(value: Any, path: str, errors: list[FieldError]) -> Any:
        if not isinstance(value, dict):
            return bad(errors, path, "type", "Write an object: {...}")
        before, found = len(errors), {}
        for key, name, shape, required in fields:
            if key in value:
                found[name] = shape(value[key], _join(path, key), errors)
            elif required:
                bad(errors, _join(path, key), "required", "It is needed")
        if not value.keys() <= known:
            _unknown(value.keys() - known, known, refused, path, errors)
        return BAD if len(errors) > before else _made(info.cls(**found), rules, path, errors)

    return check


def _made(made: Any, rules: Callable[[Any], Iterable[FieldError]] | None, path: str, errors: list[FieldError]) -> Any:
    found = list(rules(made)) if rules else []
    errors.extend(FieldError(_join(path, one.field), one.code, one.message) for one in found)
    return BAD if found else made


def _unknown(names: Iterable[str], known: set[str], code: str, path: str, errors: list[FieldError]) -> None:
    allowed = f"there are: {', '.join(sorted(known))}" if known else "there are none"
    for name in sorted(names):
        bad(errors, _join(path, shown(name)), code, f"It is not known here; {allowed}")


_MAKERS: Final[dict[type, Callable[..., Shape]]] = {
    kinds.StrType: scalars.string,
    kinds.IntType: scalars.integer,
    kinds.FloatType: scalars.number,
    kinds.BoolType: scalars.boolean,
    kinds.NoneType: scalars.null,
    kinds.AnyType: scalars.anything,
    kinds.DateTimeType: scalars.DATETIME,
    kinds.DateType: scalars.DATE,
    kinds.TimeType: scalars.TIME,
    kinds.UUIDType: scalars.UUID,
    kinds.LiteralType: scalars.literal,
    kinds.EnumType: scalars.enumeration,
    kinds.ListType: _list,
    kinds.DictType: _dict,
    kinds.UnionType: _union,
    kinds.StructType: _struct,
}
