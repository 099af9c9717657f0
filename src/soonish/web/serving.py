"""Carry out one request by the plan of its operation, with its checks in a fixed order.

Size and key were checked by front; then role, forged forms, path, body; then the function, in one transaction that also
keeps the answer. Knows no slice.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from litestar import Response
from litestar.types import ASGIApp, Scope

from soonish.db.again import run_again
from soonish.db.pool import Database
from soonish.errors import Conflict, FieldError, Invalid, NotFound, SoonishError, Stale, Unavailable
from soonish.web import auth
from soonish.web.answers import Reply, render
from soonish.web.auth import Caller, Door
from soonish.web.hub import Hub
from soonish.web.pages import Pages
from soonish.web.plan import Gate, Idempotency, Input, Operation, Request, Stored
from soonish.web.reading import (
    Disconnected,
    Headers,
    IfMatch,
    asks_json,
    idempotency_key,
    need_form,
    need_json,
    read_body,
    read_form,
    read_json,
    read_query,
    sends_json,
    with_slashes,
)
from soonish.web.scalars import BAD

_ID: Final = re.compile(r"[1-9][0-9]{0,18}")
_MOST_ID: Final = 2**63 - 1
_KEPT: Final = (b"content-type", b"location", b"etag")  # of an answer that is stored


@dataclass(frozen=True, slots=True)
class Kit:
    """What serving needs of the process."""

    door: Door
    db: Database | None
    idempotency: Idempotency | None
    refuse: Callable[[Scope, Exception], Reply]
    hub: Hub
    pages: Pages
    document: Callable[[], bytes]  # the OpenAPI document
    gate: Gate | None = None


@dataclass(slots=True)
class Filled:
    """A form that was refused: what was typed, and what is wrong with it."""

    action: str
    values: dict[str, list[str]]
    errors: tuple[FieldError, ...]
    message: str
    status: int

    def typed(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def wrong(self, name: str) -> str:
        return " ".join(error.message for error in self.errors if error.field == name)


@dataclass(slots=True)
class Call:
    """One request under way."""

    operation: Operation
    request: Request
    kit: Kit
    headers: Headers
    caller: Caller | None = None
    body: bytes = b""
    form: dict[str, list[str]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        return self.request.scope


async def serve(operation: Operation, request: Request) -> ASGIApp:
    """Answer the request; no error of ours leaves this."""
    scope = request.scope
    call = Call(operation, request, scope["state"]["kit"], Headers(scope))
    try:
        await _admit(call)
        await _read(call)
        return await _run(call)
    except Disconnected:
        return Reply(400, [])
    except Exception as error:
        return await _refuse(call, error)


async def _refuse(call: Call, error: Exception) -> ASGIApp:
    operation = call.operation
    if isinstance(error, NotFound) and operation.role is None and "token" in operation.path_names:
        call.kit.door.count_wrong_token(call.scope["state"]["address"])
    again = None if asks_json(call.headers) else operation.again
    if again and isinstance(error, Invalid | Conflict | Stale):
        errors = tuple(error.errors) if isinstance(error, Invalid) else ()
        call.scope["state"]["filled"] = Filled(call.scope["path"], call.form, errors, error.message, error.status)
        return await _show_again(call, again)
    return call.kit.refuse(call.scope, error)


async def _show_again(call: Call, operation: Operation) -> ASGIApp:
    """The page that holds the form, with what was typed and what is wrong."""
    again = Call(operation, call.request, call.kit, call.headers, call.caller)
    try:
        _path(again)
        if operation.query:
            again.arguments[operation.query.name] = operation.query.shape({}, "", [])
        return await _run(again)
    except SoonishError as error:
        return call.kit.refuse(call.scope, error)


# --- the checks, in their order


async def _admit(call: Call) -> None:
    operation, door = call.operation, call.kit.door
    if operation.role is None:
        if operation.page:
            _admit_anybody(call, door)
        return
    call.caller = caller = await door.enter(call.scope)
    auth.check_role(caller, operation.role)
    if caller.csrf is not None and operation.method not in auth.SAFE:
        await _check_token(call, caller)


def _admit_anybody(call: Call, door: Door) -> None:
    address = call.scope["state"]["address"]
    if call.operation.rated:
        door.count_public(address)
    if "token" in call.operation.path_names:
        door.check_tokens(address)
    if call.operation.method not in auth.SAFE:
        auth.check_origin(call.scope)


async def _check_token(call: Call, caller: Caller) -> None:
    given = call.headers.get(b"x-csrf-token")
    if given is None and call.operation.page:
        await _take_form(call)
        given = next(iter(call.form.get("csrf", [])), None)
    auth.check_token(caller, given)


async def _take_form(call: Call) -> None:
    if not call.body:
        call.body = await read_body(call.request.receive)
        call.form = read_form(call.body)


def _path(call: Call) -> None:
    """Ids as ids are written: no sign, no leading zero, no more than the database can count."""
    given = call.scope["path_params"]
    for name, kind in call.operation.path_names.items():
        value: str = given[name]
        if kind == "text":  # its function says what is wrong with it
            call.arguments[name] = with_slashes(value)
            continue
        if not value.isprintable() or (kind == "int" and not _is_id(value)):
            raise NotFound("There is nothing here")
        call.arguments[name] = int(value) if kind == "int" else value


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None and int(text) <= _MOST_ID


async def _read(call: Call) -> None:
    """Path, then query and body together, so that all that is wrong with them is named at once."""
    operation, errors = call.operation, list[FieldError]()
    if operation.path_names:
        _path(call)
    if operation.method not in auth.SAFE:
        await _read_body(call, errors)
    if not operation.page or operation.query:
        _read_query(call, errors)
    if errors:
        raise Invalid("", *errors)
    if operation.conditional:
        _want(call, "if_match", IfMatch(call.headers.get(b"if-match")))


async def _read_body(call: Call, errors: list[FieldError]) -> None:
    operation = call.operation
    if operation.form and not (operation.body and sends_json(call.headers)):
        if call.headers.get(b"content-length") != "0":
            need_form(call.headers.get(b"content-type"))
        await _take_form(call)
        values = {name: given for name, given in call.form.items() if name != "csrf"}
        _take(call, operation.form, values, errors)
    elif operation.body:
        await _read_json(call, operation.body, errors)


async def _read_json(call: Call, wanted: Input[Any], errors: list[FieldError]) -> None:
    content_type = call.headers.get(b"content-type")
    if not wanted.optional:
        need_json(content_type)
    call.body = await read_body(call.request.receive)
    if call.body or not wanted.optional or call.operation.form:
        need_json(content_type)
        _take(call, wanted, read_json(call.body), errors)


def _read_query(call: Call, errors: list[FieldError]) -> None:
    given = read_query(call.scope["query_string"])
    if call.operation.query:
        _take(call, call.operation.query, given, errors)
    elif given:
        errors.extend(FieldError(name[:100], "unknown_parameter", "No parameters are known here") for name in given)


def _take(call: Call, wanted: Input[Any], value: Any, errors: list[FieldError]) -> None:
    found = wanted.shape(value, "", errors)
    if found is not BAD and wanted.name:
        call.arguments[wanted.name] = found


# --- the work


async def _run(call: Call) -> ASGIApp:
    _want(call, "caller", call.caller)
    _want(call, "db", call.kit.db)
    _want(call, "request", call.request)
    if call.caller and call.operation.answer is Reply:
        await call.kit.pages.look(call.scope, call.caller)
    if call.operation.changes and call.kit.gate:
        return await _through(call.kit.gate, call)
    return await _do(call)


async def _through(gate: Gate, call: Call) -> ASGIApp:
    """A change, if there is room for it."""
    gate.refuse_writes()
    try:
        return await _do(call)
    except Unavailable as error:
        if error.code == "storage_full":
            gate.storage_full()
        raise


async def _do(call: Call) -> ASGIApp:
    if not call.operation.writes:
        return _answer(call, await call.operation.function(**call.arguments))
    key = None
    if call.operation.method == "POST" and not call.operation.page:
        key = idempotency_key(call.headers.get(b"idempotency-key"))
    return await run_again(partial(_write, call, key))


async def _write(call: Call, key: str | None) -> ASGIApp:
    """The function and its answer in one transaction."""
    caller, kit = call.caller, call.kit
    assert caller is not None and kit.db is not None
    async with kit.db.transaction(caller.workspace_id) as tx:
        _want(call, "tx", tx)
        if key is None or kit.idempotency is None:
            return _answer(call, await call.operation.function(**call.arguments))
        mark = _fingerprint(call)
        if stored := await kit.idempotency.begin(tx, caller, key, mark):
            return _replayed(stored)
        reply = _answer(call, await call.operation.function(**call.arguments))
        if isinstance(reply, Reply) and reply.status < 300:
            await kit.idempotency.store(tx, caller, key, mark, _to_store(reply))
        return reply


def _want(call: Call, word: str, value: Any) -> None:
    for name, wanted in call.operation.wants.items():
        if wanted == word:
            call.arguments[name] = value


def _answer(call: Call, value: Any) -> ASGIApp:
    if isinstance(value, Response):
        return value.to_asgi_response(app=None, request=call.request)
    if callable(value):  # a Reply or a stream
        return value  # type: ignore[no-any-return]
    seen = call.headers.get(b"if-none-match") if call.operation.method == "GET" else None
    return render(value, seen)


def _fingerprint(call: Call) -> bytes:
    scope = call.scope
    head = b"%s %s?%s\n" % (call.operation.method.encode(), scope["path"].encode(), scope["query_string"])
    return hashlib.sha256(head + call.body).digest()


def _to_store(reply: Reply) -> Stored:
    headers = {name.decode(): value.decode() for name, value in reply.headers if name in _KEPT}
    return Stored(reply.status, headers, reply.body)


def _replayed(stored: Stored) -> Reply:
    headers = [(name.encode(), value.encode()) for name, value in stored.headers.items()]
    return Reply(stored.status, [*headers, (b"idempotent-replay", b"true")], stored.body)
