"""Login links and the sign-ins they make: a browser that used a link once, known by its cookie from then on."""

import secrets
from collections.abc import Sequence

from soonish.access.actions.audit import SQL, record
from soonish.access.model import LINK_MINUTES, SIGN_IN_LIFE, LoginLink, LoginLinkMade, RoleName, SignIn, is_token
from soonish.db.pool import Database, Tx
from soonish.errors import NotFound
from soonish.vault import hash_token, new_token
from soonish.web.auth import Caller, Role

_GONE = "This link is not valid, was used already, or has expired; ask for a new one"


async def make_login_link(
    tx: Tx,
    caller: Caller,
    public_url: str,
    role: RoleName,
    minutes: int = LINK_MINUTES,
    *,
    person_id: int | None = None,
) -> LoginLinkMade:
    """Make a link that signs one browser in, once, as that person if one is named; its token is kept nowhere."""
    token = new_token()
    row = await SQL.make_link.row(
        tx,
        workspace_id=caller.workspace_id,
        hash=hash_token(token),
        role=role,
        person_id=person_id,
        minutes=minutes,
    )
    told = {"role": role, "person_id": person_id, "expires_at": row["expires_at"]}
    await record(tx, caller, "make", f"login_link/{row['id']}", {k: v for k, v in told.items() if v is not None})
    return LoginLinkMade(**row, url=f"{public_url.rstrip('/')}/login/{token}")


async def get_login_link(db: Database, caller: Caller, link_id: int) -> LoginLink:
    """What is kept of a link: whether it was used, and until when it works."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.link.row(tx, id=link_id)
    if row is None:
        raise NotFound(f"There is no login link {link_id}")
    return LoginLink(**row)


async def check_link(db: Database, token: str) -> None:
    """Raise NotFound unless the link could be used now; looking uses nothing up."""
    await _find(db, "login_link", token)


async def sign_in(db: Database, token: str, request_id: str) -> str:
    """Use a link up and answer what the browser's cookie holds. Of two at once, one finds it used."""
    workspace_id, link_id = await _find(db, "login_link", token)
    secret = new_token()
    async with db.transaction(workspace_id) as tx:
        link = await SQL.use_link.row(tx, id=link_id)
        if link is None:
            raise NotFound(_GONE)
        sign_in_id = await SQL.make_sign_in.value(
            tx,
            workspace_id=workspace_id,
            hash=hash_token(secret),
            role=link["role"],
            person_id=link["person_id"],
            csrf=secrets.token_bytes(16),
            life=SIGN_IN_LIFE,
        )
        caller = _caller(workspace_id, sign_in_id, request_id)
        await record(tx, caller, "sign_in", f"sign_in/{sign_in_id}", {"login_link": link_id, "role": link["role"]})
    return secret


async def sign_out(db: Database, secret: str, request_id: str) -> None:
    """End the sign-in of this cookie, if it is one; a second time changes nothing."""
    try:
        workspace_id, sign_in_id = await _find(db, "sign_in", secret)
    except NotFound:
        return
    async with db.transaction(workspace_id) as tx:
        if await SQL.end_sign_in.run(tx, id=sign_in_id):
            await record(tx, _caller(workspace_id, sign_in_id, request_id), "sign_out", f"sign_in/{sign_in_id}")


async def list_sign_ins(
    db: Database, caller: Caller, *, person_id: int | None = None, before: int | None = None, limit: int = 50
) -> list[SignIn]:
    """Those that work, newest first; all of them, or those of a person."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await sign_ins_in(tx, person_id=person_id, before=before, limit=limit)


async def sign_ins_in(
    tx: Tx, *, person_id: int | None = None, before: int | None = None, limit: int = 50
) -> list[SignIn]:
    """The same in a transaction that is open."""
    rows = await SQL.sign_ins.rows(tx, person_id=person_id, before=before, k=limit)
    return [SignIn(**row) for row in rows]


async def end_sign_in(tx: Tx, caller: Caller, sign_in_id: int) -> None:
    """End a sign-in; the browser must use a new link."""
    if not await SQL.end_sign_in.run(tx, id=sign_in_id):
        raise NotFound(f"There is no sign-in {sign_in_id}")
    await record(tx, caller, "end", f"sign_in/{sign_in_id}")


async def end_all_of(tx: Tx, person_ids: Sequence[int]) -> None:
    """Nobody is signed in as these people any more, nor can be by a link that was made before."""
    await SQL.void_links.run(tx, person_ids=list(person_ids))
    await SQL.end_sign_ins.run(tx, person_ids=list(person_ids))


async def _find(db: Database, purpose: str, token: str) -> tuple[int, int]:
    """Workspace and id of what a token stands for. Unknown, used and expired ones look the same."""
    if is_token(token):
        async with db.transaction(0, readonly=True) as tx:
            found = await SQL.find_token.row(tx, purpose=purpose, hash=hash_token(token))
        if found is not None:
            return found["workspace_id"], found["id"]
    raise NotFound(_GONE)


def _caller(workspace_id: int, sign_in_id: int, request_id: str) -> Caller:
    """The browser itself, for the record; what it may do is looked up with each request."""
    return Caller(
        workspace_id=workspace_id,
        role=Role.READ,
        actor=f"sign_in:{sign_in_id}",
        person_id=None,
        request_id=request_id,
    )
