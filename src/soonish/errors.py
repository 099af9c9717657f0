"""What can go wrong, as types: each knows its HTTP status and its stable code.

The message says what is wrong and what to do. How an error is shown (problem+json, a page, a CLI line) is not known
here.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One bad field of a request: where, which rule, and what to do."""

    field: str
    code: str
    message: str


class SoonishError(Exception):
    """The root of all errors that are ours."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    code: str = "internal"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message or self.title
        if code is not None:
            self.code = code


class BadRequest(SoonishError):
    """The request cannot be read at all."""

    status = 400
    title = "Bad request"
    code = "bad_json"


class Unauthorized(SoonishError):
    """Nobody that is known here asks."""

    status = 401
    title = "Unauthorized"
    code = "unauthorized"


class Forbidden(SoonishError):
    """The one who asks may not."""

    status = 403
    title = "Forbidden"
    code = "forbidden"


class NotFound(SoonishError):
    """It does not exist, or is not yours."""

    status = 404
    title = "Not found"
    code = "not_found"


class Conflict(SoonishError):
    """It does not fit the state of things."""

    status = 409
    title = "Conflict"
    code = "conflict"

    def __init__(self, message: str = "", *, code: str | None = None, **ids: int) -> None:
        super().__init__(message, code=code)
        self.ids = ids
        """What stands in the way, by the names that the problem gives it."""


class Stale(SoonishError):
    """Somebody changed it since you looked."""

    status = 412
    title = "Stale"
    code = "stale"

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class TooLarge(SoonishError):
    """More bytes than are taken."""

    status = 413
    title = "Too large"
    code = "too_large"


class UnsupportedMedia(SoonishError):
    """A body of a type that is not read here."""

    status = 415
    title = "Unsupported media type"
    code = "unsupported_media_type"


class Invalid(SoonishError):
    """Fields need a change; all of them are named at once."""

    status = 422
    title = "Not valid"
    code = "invalid"

    def __init__(self, message: str = "", *errors: FieldError, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.errors = errors


class TooMany(SoonishError):
    """Too many of these in this time."""

    status = 429
    title = "Too many requests"
    code = "rate_limited"

    def __init__(self, message: str, retry_after: int, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Unavailable(SoonishError):
    """An engine is away (PostgreSQL, Temporal, a key). Nothing is wrong with what was asked: hold it and ask again."""

    status = 503
    title = "Unavailable"
    code = "unavailable"

    def __init__(self, message: str = "", retry_after: int = 1, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class DeliveryFailed(SoonishError):
    """A target refused; `permanent` decides whether another try makes sense. Never seen by a client."""

    def __init__(self, message: str, *, permanent: bool, code: str) -> None:
        super().__init__(message, code=code)
        self.permanent = permanent


class LeaseLost(SoonishError):
    """The right to work an item went to somebody else. Never seen by a client."""

    code = "lease_lost"
