"""What is known of an operation before any request: its method, path and role, and what its function asks for.

The plan is made once, from the function's annotations, when its module is imported; a mistake in it stops the import.
How a request is carried out by the plan stands in serving.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from litestar import Request as LitestarRequest

from soonish.db.pool import Database, Tx
from soonish.web.answers import Accepted, Created, Ok
from soonish.web.auth import Caller, Role
from soonish.web.fields import Body, Form, Query
from soonish.web.reading import IfMatch
from soonish.web.scalars import Shape
from soonish.web.shapes import json_shape, text_shape

Request: TypeAlias = LitestarRequest[Any, Any, Any]
Function: TypeAlias = Callable[..., Awaitable[Any]]
T = TypeVar("T")

PARAMETER: Final = re.compile(r"\{(\w+):(int|str|text)\}")
"""A part of a path: an id, a word, or a text that may hold a slash, which stands in the path as %2F."""
_STATUS: Final[dict[Any, int]] = {Created: 201, Accepted: 202, type(None): 204}


class Nothing(Body):
    """The body of an operation that takes none: no field is known."""


class Stored(msgspec.Struct):
    """An answer that is kept, to be given again."""

    status: int
    headers: dict[str, str]
    body: bytes


class Idempotency(Protocol):
    """Remembers answers by Idempotency-Key, in the transaction of the request: all of it commits, or nothing."""

    async def begin(self, tx: Tx, caller: Caller, key: str, fingerprint: bytes) -> Stored | None:
        """Hold the key until the end of the transaction; the answer of the first request with it, if it is over.

        Raises Conflict `idempotency_in_flight` while another one holds it, Invalid `idempotency_mismatch` if that was
        another request.
        """

    async def store(self, tx: Tx, caller: Caller, key: str, fingerprint: bytes, stored: Stored) -> None:
        """Keep the answer; called just before the COMMIT."""


class Gate(Protocol):
    """Whether there is room for what a change would write."""

    def refuse_writes(self) -> None:
        """Raise Unavailable `storage_full` while there is none."""

    def storage_full(self) -> None:
        """Hear that the database had none."""


@dataclass(frozen=True, slots=True)
class Input(Generic[T]):
    """A struct that the function asks for, by the name of its parameter."""

    name: str
    of: type[T]
    shape: Shape
    optional: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """All that is known of an operation before any request."""

    method: str
    path: str
    role: Role | None
    function: Function
    page: bool
    rated: bool
    codes: tuple[str, ...]
    again: "Operation | None"
    answer: Any
    statuses: tuple[int, ...]
    refuses: tuple[int, ...]  # further statuses of refusals, beside those that the plan tells
    path_names: dict[str, str]
    wants: dict[str, str] = field(default_factory=dict)  # parameter -> "caller", "tx", "db", "request", "if_match"
    body: Input[Any] | None = None
    form: Input[Any] | None = None
    query: Input[Any] | None = None

    @property
    def writes(self) -> bool:
        return "tx" in self.wants.values()

    @property
    def changes(self) -> bool:
        """Whether it may write rows, in a transaction that it is given or in one of its own."""
        return self.method != "GET" and not {"tx", "db"}.isdisjoint(self.wants.values())

    @property
    def conditional(self) -> bool:
        return "if_match" in self.wants.values()

    @property
    def streams(self) -> bool:
        return getattr(self.answer, "__name__", "") == "Stream"


def plan(
    method: str,
    path: str,
    role: Role | None,
    function: Function,
    *,
    page: bool = False,
    rated: bool = True,
    codes: Sequence[str] = (),
    again: Operation | None = None,
    statuses: Sequence[int] = (),
    refuses: Sequence[int] = (),
) -> Operation:
    """Read the function's annotations; raises TypeError for what cannot be served."""
    hints = get_type_hints(function, include_extras=True)
    answer = hints.pop("return", None)
    hints = {name: _sure(of) for name, of in hints.items()}
    names = dict(PARAMETER.findall(path))
    operation = Operation(
        method, path, role, function, page, rated, tuple(codes), again,
        answer, tuple(statuses) or (_STATUS.get(get_origin(answer) or answer, 200),), tuple(refuses), names,
        wants={name: word for name, of in hints.items() if (word := _word(of))},
        **{kind: _input(name, of, kind, function) for name, of in hints.items() if (kind := _kind(of))},
    )  # fmt: skip
    _check(operation, set(hints))
    return operation if page or method == "GET" or operation.body else replace(operation, body=_NOTHING)


def _sure(of: Any) -> Any:
    """The type of what may be absent, such as a form in whose place JSON was sent."""
    known = [one for one in get_args(of) if one is not NoneType] if isinstance(of, UnionType) else []
    return known[0] if len(known) == 1 else of


def _word(of: Any) -> str | None:
    words = {Caller: "caller", Tx: "tx", Database: "db", IfMatch: "if_match"}
    found = next((word for kind, word in words.items() if of is kind), None)
    return "request" if get_origin(of) is LitestarRequest or of is LitestarRequest else found


def _kind(of: Any) -> Literal["body", "form", "query"] | None:
    kinds: dict[type, Literal["body", "form", "query"]] = {Body: "body", Form: "form", Query: "query"}
    return next((word for kind, word in kinds.items() if isinstance(of, type) and issubclass(of, kind)), None)


def _input(name: str, of: Any, kind: str, function: Function) -> Input[Any]:
    shape = json_shape(of) if kind == "body" else text_shape(of, form=kind == "form")
    return Input(name, of, shape, name in (function.__kwdefaults__ or {}) or _has_default(function, name))


def _has_default(function: Function, name: str) -> bool:
    code, defaults = function.__code__, function.__defaults__ or ()
    return name in code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]


def _check(operation: Operation, names: set[str]) -> None:
    where = f"{operation.method} {operation.path}"
    inputs = {one.name for one in (operation.body, operation.form, operation.query) if one}
    if strange := names - set(operation.wants) - inputs - set(operation.path_names):
        raise TypeError(f"{where}: nothing is known to hand in for {', '.join(sorted(strange))}")
    public, api = operation.role is None, operation.path.startswith("/v1/")
    if public and (api or operation.writes or "caller" in operation.wants.values()):
        raise TypeError(f"{where}: only a caller with a role may use /v1, tx or caller")
    if api and operation.method == "POST" and not operation.writes:
        raise TypeError(f"{where}: take tx, so that the answer for an Idempotency-Key commits with its effect")
    if operation.method == "GET" and (operation.writes or operation.body or operation.form):
        raise TypeError(f"{where}: a GET changes nothing")


_NOTHING: Final = Input("", Nothing, json_shape(Nothing), optional=True)


def answered(answer: Any) -> Any:
    """The type of the value in an answer, such as that in Created[...]."""
    return get_args(answer)[0] if get_origin(answer) in (Created, Accepted, Ok) else answer
