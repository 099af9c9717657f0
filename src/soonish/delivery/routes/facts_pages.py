"""The pages of facts: what was told to machines, and one of them as they got it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from soonish.clock import show_instant
from soonish.delivery.actions import facts
from soonish.delivery.actions.handed import delivery_of
from soonish.delivery.routes.facts_api import FactsQuery
from soonish.web.auth import Role
from soonish.web.operation import Caller, Database, Reply, Request, get
from soonish.web.pages import page


@get("/facts", role=Role.READ, page=True)
async def facts_page(request: Request, db: Database, caller: Caller, query: FactsQuery) -> Reply:
    """What happened or is due, as machines are told."""
    rows = await facts.list_facts(db, caller, query.wanted(), before=query.position(int), limit=query.limit + 1)
    listing = query.listing(rows, lambda row: (row.id,))
    return page(
        request,
        "facts.html",
        title="Facts",
        tab="facts",
        listing=listing,
        query=query,
        chosen=_chosen(query),
        types=list(delivery_of(request).types),
        more=f"/facts?{urlencode(_chosen(query) | {'after': listing.next or ''})}",
    )


@get("/facts/{fact_id:int}", role=Role.READ, page=True)
async def fact_page(request: Request, db: Database, caller: Caller, fact_id: int) -> Reply:
    """One fact, with the envelope that its receivers get."""
    one = await facts.get_fact(db, caller, fact_id)
    return page(request, "fact.html", title=one.type, one=one)


def _chosen(query: FactsQuery) -> dict[str, str]:
    given: dict[str, Any] = {name: getattr(query, name) for name in ("type", "subject", "since", "until")}
    return {
        name: show_instant(value) if name in ("since", "until") else value for name, value in given.items() if value
    }


routes: Sequence[Any] = [facts_page, fact_page]
