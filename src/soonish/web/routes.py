"""What the kit itself serves: its files, the choice between dark and light, the description of all operations."""

from typing import Annotated, Final, Literal

from soonish.errors import NotFound
from soonish.web import assets
from soonish.web.answers import JSON, Headers, Reply
from soonish.web.fields import Form, raw
from soonish.web.operation import Request, get, post
from soonish.web.reading import Headers as Asked

_FOR_EVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")


@get("/openapi.json", role=None)
async def openapi(request: Request) -> Reply:
    """This document."""
    return Reply(200, [(b"content-type", JSON)], request.scope["state"]["kit"].document())


@get("/static/{release:str}/{name:str}", role=None)
async def static(request: Request, release: str, name: str) -> Reply:
    """A file of the console."""
    found = assets.assets().get(name)
    if found is None:
        raise NotFound(f"There is no file {name[:100]!r} here")
    headers: Headers = [(b"content-type", found.type), (b"vary", b"Accept-Encoding")]
    if release == assets.version():  # another one is of a page that another release made
        headers.append(_FOR_EVER)
    if "gzip" in (Asked(request.scope).get(b"accept-encoding") or ""):
        return Reply(200, [*headers, (b"content-encoding", b"gzip")], found.packed)
    return Reply(200, headers, found.body)


class ThemeForm(Form):
    """A choice, and the page to go back to."""

    theme: Literal["light", "dark", "system"]
    back: Annotated[str, raw(2000)] = "/"


@post("/theme", role=None, page=True, rated=False)
async def choose_theme(request: Request, form: ThemeForm) -> Reply:
    """Keep the choice in this browser; the same as the switch does by script."""
    del request
    age = 0 if form.theme == "system" else 31536000
    cookie = f"soonish_theme={form.theme}; Path=/; Max-Age={age}; SameSite=Strict"
    return Reply(303, [(b"location", within(form.back).encode()), (b"set-cookie", cookie.encode())])


def within(location: str) -> str:
    """A path of ours, or else the first page: nobody is sent elsewhere by a link that looks like ours."""
    ours = location.isascii() and location.isprintable() and location.startswith("/")
    return location if ours and not location.startswith(("//", "/\\")) else "/"


routes = [openapi, static, choose_theme]
