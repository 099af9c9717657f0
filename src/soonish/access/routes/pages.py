"""The pages of access: signing in and out, the settings, the record."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

from soonish.access.actions import audit, keys, sign_ins, workspaces
from soonish.access.actions.handed import access_of, check_person
from soonish.access.model import (
    LINK_MINUTES,
    SIGN_IN_LIFE,
    SLUG,
    EmailTrust,
    RoleName,
    SignIn,
    UnknownPeople,
)
from soonish.clock import utc_now
from soonish.web.auth import COOKIE, Role, read_cookie, sign_in_cookie
from soonish.web.fields import LOCALE, ZONE, Form, Paged, line, number
from soonish.web.operation import Caller, Database, IfMatch, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

SHOWN = 10  # lines of the record on the page of settings
MOST = 200  # of anything else there; what is beyond is in the API

Name100 = Annotated[str, line(100)]
Name60 = Annotated[str, line(60)]


class WorkspaceForm(Form):
    """The workspace as the form shows it, and the version that was seen."""

    name: Name100
    timezone: ZONE
    locale: LOCALE
    email_trust: EmailTrust
    unknown_people: UnknownPeople
    version: Annotated[int, number(1)]


class KeyForm(Form):
    """A key to be made."""

    name: Name60
    role: RoleName
    days: Annotated[int, number(1, 3650)] | None = None


class LinkForm(Form):
    """A login link to be made."""

    role: RoleName
    person_id: Annotated[int, number(1, 2**63 - 1)] | None = None
    minutes: Annotated[int, number(1, 1440)] = LINK_MINUTES


class NewWorkspaceForm(Form):
    """A workspace to be made."""

    slug: Annotated[str, line(40, least=2, pattern=f"^{SLUG}$")]
    name: Name100
    timezone: ZONE = "UTC"
    locale: LOCALE = "en"


class RecordQuery(Paged):
    """Which lines of the record."""

    entity: Annotated[str, line(200)] | None = None
    actor: Annotated[str, line(200)] | None = None


@get("/login/{token:str}", role=None, page=True)
async def login_page(request: Request, db: Database, token: str) -> Reply:
    """Ask whether to sign in; looking does not use the link up."""
    await sign_ins.check_link(db, token)
    return page(request, "login.html", title="Sign in")


@post("/login/{token:str}", role=None, page=True)
async def log_in(request: Request, db: Database, token: str) -> Reply:
    """Use the link up and remember this browser."""
    cookie = await sign_ins.sign_in(db, token, request.scope["state"]["request_id"])
    life = int(SIGN_IN_LIFE.total_seconds())
    return see_other(request, "/", headers=[sign_in_cookie(request.scope, cookie, life)])


@post("/logout", role=None, page=True)
async def log_out(request: Request, db: Database) -> Reply:
    """End the sign-in of this browser, if there is one. The cookie never comes along from another site."""
    if cookie := read_cookie(request.headers.get("cookie"), COOKIE):
        await sign_ins.sign_out(db, cookie, request.scope["state"]["request_id"])
    return see_other(request, "/", headers=[sign_in_cookie(request.scope, "", 0)])


@get("/settings", role=Role.READ, page=True)
async def settings_page(request: Request, db: Database, caller: Caller) -> Reply:
    """Show who may ask here, and as much of it as the role may see."""
    context: dict[str, Any] = {"workspace": await workspaces.get_workspace(db, caller)}
    if caller.role >= Role.ADMIN:
        entries = await audit.list_audit(db, caller, limit=SHOWN)
        found = await sign_ins.list_sign_ins(db, caller, limit=MOST)
        context |= {
            "keys": await keys.list_keys(db, caller, limit=MOST),
            "sign_ins": found,
            "people": await _names(request, db, caller, found),
            "lines": await audit.read_aloud(db, caller, entries),
            "request_actor": caller.actor,
            "minutes": LINK_MINUTES,
            "most": MOST,
        }
    if caller.role >= Role.OPERATOR:
        context["workspaces"] = await workspaces.list_workspaces(db, caller, limit=MOST)
    return page(request, "settings.html", title="Settings", **context)


@post("/settings/workspace", role=Role.ADMIN, page=True, again=settings_page)
async def save_workspace(request: Request, tx: Tx, caller: Caller, form: WorkspaceForm) -> Reply:
    """Change the workspace, unless somebody else did so since the form was shown."""
    names = ("name", "timezone", "locale", "email_trust", "unknown_people")
    wanted = {name: getattr(form, name) for name in names}
    saved = await workspaces.change_workspace(tx, caller, wanted, IfMatch(f'"{form.version}"'))
    told = "Saved. It holds from now on." if saved.version > form.version else "Nothing was different."
    return see_other(request, "/settings", toast=told)


@post("/settings/keys", role=Role.ADMIN, page=True, again=settings_page)
async def add_key(request: Request, tx: Tx, caller: Caller, form: KeyForm) -> Reply:
    """Make a key and show it, this once."""
    ends = utc_now() + timedelta(days=form.days) if form.days else None
    made = await keys.make_key(tx, caller, form.name, form.role, ends)
    return _secret(request, f"The key “{made.name}”", made.key, "It works at once.", url="/settings#keys")


@post("/settings/keys/{key_id:int}/revoke", role=Role.ADMIN, page=True, again=settings_page)
async def drop_key(request: Request, tx: Tx, caller: Caller, key_id: int) -> Reply:
    """Revoke a key."""
    await keys.revoke_key(tx, caller, key_id)
    return see_other(request, "/settings#keys", toast="The key is revoked. Within 5 seconds it opens nothing any more.")


@post("/settings/links", role=Role.ADMIN, page=True, again=settings_page)
async def add_link(request: Request, tx: Tx, caller: Caller, form: LinkForm) -> Reply:
    """Make a login link and show it, this once."""
    await check_person(access_of(request), tx, form.person_id)
    public_url = request.app.state.parts.settings.public_url
    made = await sign_ins.make_login_link(tx, caller, public_url, form.role, form.minutes, person_id=form.person_id)
    note = "Whoever opens it first is signed in, with this role, for 30 days at most."
    back = f"/people/{form.person_id}#person-sign-ins" if form.person_id else "/settings#sign-ins"
    return _secret(request, "The login link", made.url, note, url=back, until=made.expires_at)


@post("/settings/sign-ins/{sign_in_id:int}/end", role=Role.ADMIN, page=True, again=settings_page)
async def drop_sign_in(request: Request, tx: Tx, caller: Caller, sign_in_id: int) -> Reply:
    """End a sign-in."""
    await sign_ins.end_sign_in(tx, caller, sign_in_id)
    return see_other(request, "/settings#sign-ins", toast="Signed out. That browser needs a new link.")


@post("/settings/workspaces", role=Role.OPERATOR, page=True, again=settings_page)
async def add_workspace(request: Request, tx: Tx, caller: Caller, form: NewWorkspaceForm) -> Reply:
    """Make a workspace and show its first key, this once."""
    made = await workspaces.make_workspace(tx, caller, form.slug, form.name, form.timezone, form.locale)
    note = f"It is the first admin key of {made.name}, and the only way in until it makes a login link."
    return _secret(request, f"The key of “{made.slug}”", made.api_key, note, url="/settings#workspaces")


@post("/settings/workspaces/{workspace_id:int}/close", role=Role.OPERATOR, page=True, again=settings_page)
async def end_workspace(request: Request, tx: Tx, caller: Caller, workspace_id: int) -> Reply:
    """Close a workspace."""
    closed = await workspaces.close_workspace(tx, caller, workspace_id)
    told = f"{closed.name} is closed. Its keys stop within 5 seconds; what was due there is dropped."
    return see_other(request, "/settings#workspaces", toast=told)


@get("/settings/record", role=Role.ADMIN, page=True)
async def record_page(request: Request, db: Database, caller: Caller, query: RecordQuery) -> Reply:
    """Show who changed what."""
    entries = await audit.list_audit(
        db, caller, entity=query.entity, actor=query.actor, before=query.position(int), limit=query.limit + 1
    )
    shown = query.listing(entries, lambda entry: (entry.id,))
    lines = await audit.read_aloud(db, caller, shown.items)
    chosen = {"entity": query.entity, "actor": query.actor}
    return page(
        request,
        "record.html",
        title="Record",
        lines=lines,
        next=shown.next,
        query=query,
        url=lambda **more: "/settings/record?" + urlencode({k: v for k, v in (chosen | more).items() if v}),
    )


async def _names(request: Request, db: Database, caller: Caller, found: Sequence[SignIn]) -> Mapping[int, str]:
    """Whom browsers are signed in as."""
    ids = {one.person_id for one in found if one.person_id is not None}
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await access_of(request).name_people(tx, list(ids)) if ids else {}


def _secret(request: Request, what: str, secret: str, note: str, **more: Any) -> Reply:
    """A page that shows a secret which no page can show again; so no cache may keep it."""
    base_url = request.app.state.parts.settings.public_url.rstrip("/")
    words = {"title": what, "secret": secret, "note": note, "base_url": base_url, "until": None}
    shown = page(request, "secret.html", status=201, **words | more)
    shown.headers += [(b"cache-control", b"no-store")]
    return shown


routes: Sequence[Any] = [
    login_page,
    log_in,
    log_out,
    settings_page,
    save_workspace,
    add_key,
    drop_key,
    add_link,
    drop_sign_in,
    add_workspace,
    end_workspace,
    record_page,
]
