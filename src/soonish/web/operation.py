"""The decorators that make an async function a route, and all the words that routes need beside them.

What a function may ask for is read from its annotations (see plan); how it is called stands in serving.
"""

from collections.abc import Callable
from typing import Any

from litestar.handlers import HTTPRouteHandler

from soonish.db.pool import Database, Tx
from soonish.web.answers import Accepted, Created, Listing, Ok, Reply
from soonish.web.auth import Caller, Role
from soonish.web.fields import Body, Form, Query
from soonish.web.plan import PARAMETER, Function, Idempotency, Operation, Request, Stored, plan
from soonish.web.reading import IfMatch
from soonish.web.serving import serve

__all__ = [
    "Accepted", "Body", "Caller", "Created", "Database", "Form", "Handler", "Idempotency", "IfMatch", "Listing", "Ok",
    "Operation", "Query", "Reply", "Request", "Role", "Stored", "Tx", "delete", "get", "patch", "post", "put",
]  # fmt: skip


class Handler(HTTPRouteHandler):
    """An operation as a Litestar route; its answers come ready to send."""

    async def to_response(self, app: Any, data: Any, request: Any) -> Any:
        """The answer, as it is: nothing is left for the framework to add."""
        del app, request
        return data


def get(path: str, *, role: Role | None, **options: Any) -> Callable[[Function], Handler]:
    return _decorator("GET", path, role, options)


def post(path: str, *, role: Role | None, **options: Any) -> Callable[[Function], Handler]:
    return _decorator("POST", path, role, options)


def put(path: str, *, role: Role | None, **options: Any) -> Callable[[Function], Handler]:
    return _decorator("PUT", path, role, options)


def patch(path: str, *, role: Role | None, **options: Any) -> Callable[[Function], Handler]:
    return _decorator("PATCH", path, role, options)


def delete(path: str, *, role: Role | None, **options: Any) -> Callable[[Function], Handler]:
    return _decorator("DELETE", path, role, options)


def _decorator(method: str, path: str, role: Role | None, options: dict[str, Any]) -> Callable[[Function], Handler]:
    again: Handler | None = options.pop("again", None)

    def decorate(function: Function) -> Handler:
        return _route(plan(method, path, role, function, again=again.opt["operation"] if again else None, **options))

    return decorate


def _route(operation: Operation) -> Handler:
    async def call(request: Request) -> Any:
        return await serve(operation, request)

    opt = {"role": operation.role, "operation": operation}
    # Ids are read by serving, after the role was checked: the framework would say 404 to whoever may not even ask.
    path = PARAMETER.sub(r"{\1:str}", operation.path)
    handler = Handler(path, http_method=operation.method, status_code=200, include_in_schema=False, opt=opt)  # type: ignore[arg-type]
    handler(call)
    return handler
