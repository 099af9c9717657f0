"""The JSON face of access: workspaces, keys, login links, sign-ins, the record of changes."""

from typing import Annotated, Any

from soonish.access.actions import audit, keys, sign_ins, workspaces
from soonish.access.actions.handed import access_of, check_person
from soonish.access.model import (
    LINK_MINUTES,
    SLUG,
    ApiKey,
    ApiKeyMade,
    AuditEntry,
    EmailTrust,
    LoginLink,
    LoginLinkMade,
    Me,
    OwnWorkspace,
    RoleName,
    SignIn,
    UnknownPeople,
    Workspace,
    WorkspaceMade,
)
from soonish.web.answers import Created, Listing
from soonish.web.auth import Role
from soonish.web.fields import LOCALE, UNSET, ZONE, Body, Instant, Paged, Unset, changes, line, number
from soonish.web.operation import Caller, Database, IfMatch, Request, Tx, delete, get, patch, post

Name100 = Annotated[str, line(100)]
Name60 = Annotated[str, line(60)]


class NewWorkspace(Body):
    """A workspace to be made."""

    slug: Annotated[str, line(40, least=2, pattern=f"^{SLUG}$")]
    name: Name100
    timezone: ZONE = "UTC"
    locale: LOCALE = "en"


class WorkspaceChange(Body):
    """What to change of a workspace."""

    name: Name100 | Unset = UNSET
    timezone: ZONE | Unset = UNSET
    locale: LOCALE | Unset = UNSET
    email_trust: EmailTrust | Unset = UNSET
    unknown_people: UnknownPeople | Unset = UNSET


class NewKey(Body):
    """A key to be made."""

    name: Name60
    role: RoleName
    expires_at: Instant | None = None


class NewLink(Body):
    """A login link to be made."""

    role: RoleName
    person_id: Annotated[int, number(1, 2**63 - 1)] | None = None
    minutes: Annotated[int, number(1, 1440)] = LINK_MINUTES


class AuditQuery(Paged):
    """Which lines of the record."""

    entity: Annotated[str, line(200)] | None = None
    actor: Annotated[str, line(200)] | None = None
    since: Instant | None = None
    until: Instant | None = None


@post("/v1/workspaces", role=Role.OPERATOR, codes=["slug_taken"])
async def make_workspace(tx: Tx, caller: Caller, body: NewWorkspace) -> Created[WorkspaceMade]:
    """Make a workspace; its first admin key is shown this once."""
    made = await workspaces.make_workspace(tx, caller, body.slug, body.name, body.timezone, body.locale)
    return Created(made, f"/v1/workspaces/{made.id}")


@get("/v1/workspaces", role=Role.OPERATOR)
async def list_workspaces(db: Database, caller: Caller, query: Paged) -> Listing[Workspace]:
    """List all workspaces, closed ones too, newest first."""
    rows = await workspaces.list_workspaces(db, caller, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/workspaces/{workspace_id:int}", role=Role.OPERATOR)
async def show_any_workspace(db: Database, caller: Caller, workspace_id: int) -> Workspace:
    """Show one of all workspaces."""
    return await workspaces.get_any_workspace(db, caller, workspace_id)


@post("/v1/workspaces/{workspace_id:int}/close", role=Role.OPERATOR, codes=["first_workspace"])
async def close_workspace(tx: Tx, caller: Caller, workspace_id: int) -> Workspace:
    """Close a workspace for ever.

    Its keys and sign-ins stop within 5 seconds and what was due there is dropped. The first workspace stays.
    """
    return await workspaces.close_workspace(tx, caller, workspace_id)


@get("/v1/workspace", role=Role.READ)
async def show_workspace(db: Database, caller: Caller) -> Workspace:
    """Show your workspace."""
    return await workspaces.get_workspace(db, caller)


@patch("/v1/workspace", role=Role.ADMIN)
async def change_workspace(tx: Tx, caller: Caller, body: WorkspaceChange, if_match: IfMatch) -> Workspace:
    """Change your workspace."""
    return await workspaces.change_workspace(tx, caller, changes(body), if_match)


@get("/v1/me", role=Role.READ)
async def show_me(db: Database, caller: Caller) -> Me:
    """Show who you are here, and what you may do."""
    own = await workspaces.get_workspace(db, caller)
    role: Any = caller.role.name.lower()
    workspace = OwnWorkspace(id=own.id, slug=own.slug, name=own.name)
    return Me(workspace=workspace, role=role, actor=caller.actor, person_id=caller.person_id)


@post("/v1/api-keys", role=Role.ADMIN)
async def make_key(tx: Tx, caller: Caller, body: NewKey) -> Created[ApiKeyMade]:
    """Make a key; it is shown this once."""
    made = await keys.make_key(tx, caller, body.name, body.role, body.expires_at)
    return Created(made, f"/v1/api-keys/{made.id}")


@get("/v1/api-keys", role=Role.ADMIN)
async def list_keys(db: Database, caller: Caller, query: Paged) -> Listing[ApiKey]:
    """List the keys that are not revoked, newest first."""
    rows = await keys.list_keys(db, caller, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda key: (key.id,))


@get("/v1/api-keys/{key_id:int}", role=Role.ADMIN)
async def show_key(db: Database, caller: Caller, key_id: int) -> ApiKey:
    """Show a key that is not revoked: what is known of it, not the key."""
    return await keys.get_key(db, caller, key_id)


@delete("/v1/api-keys/{key_id:int}", role=Role.ADMIN, codes=["last_admin_key"])
async def revoke_key(tx: Tx, caller: Caller, key_id: int) -> None:
    """Revoke a key, everywhere within 5 seconds. The last one that lets an admin in stays."""
    await keys.revoke_key(tx, caller, key_id)


@post("/v1/login-links", role=Role.ADMIN)
async def make_link(request: Request, tx: Tx, caller: Caller, body: NewLink) -> Created[LoginLinkMade]:
    """Make a link that signs one browser in, once, as that person if one is named; it is shown this once."""
    await check_person(access_of(request), tx, body.person_id)
    public_url = request.app.state.parts.settings.public_url
    made = await sign_ins.make_login_link(tx, caller, public_url, body.role, body.minutes, person_id=body.person_id)
    return Created(made, f"/v1/login-links/{made.id}")  # not the URL: a header is stored as it is, and logged by others


@get("/v1/login-links/{link_id:int}", role=Role.ADMIN)
async def show_link(db: Database, caller: Caller, link_id: int) -> LoginLink:
    """Show whether a login link was used, and until when it works; not the link."""
    return await sign_ins.get_login_link(db, caller, link_id)


@get("/v1/sign-ins", role=Role.ADMIN)
async def list_sign_ins(db: Database, caller: Caller, query: Paged) -> Listing[SignIn]:
    """List the sign-ins that work, newest first."""
    rows = await sign_ins.list_sign_ins(db, caller, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@delete("/v1/sign-ins/{sign_in_id:int}", role=Role.ADMIN)
async def end_sign_in(tx: Tx, caller: Caller, sign_in_id: int) -> None:
    """End a sign-in: that browser must use a new link."""
    await sign_ins.end_sign_in(tx, caller, sign_in_id)


@get("/v1/ops/audit", role=Role.ADMIN)
async def list_audit(db: Database, caller: Caller, query: AuditQuery) -> Listing[AuditEntry]:
    """List who changed what, newest first."""
    rows = await audit.list_audit(
        db,
        caller,
        entity=query.entity,
        actor=query.actor,
        since=query.since,
        until=query.until,
        before=query.position(int),
        limit=query.limit + 1,
    )
    return query.listing(rows, lambda row: (row.id,))


routes = [
    make_workspace,
    list_workspaces,
    show_any_workspace,
    close_workspace,
    show_workspace,
    change_workspace,
    show_me,
    make_key,
    list_keys,
    show_key,
    revoke_key,
    make_link,
    show_link,
    list_sign_ins,
    end_sign_in,
    list_audit,
]
