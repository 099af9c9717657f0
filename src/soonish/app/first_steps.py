"""What a newcomer is shown on the page Now as long as nothing is planned: what works today, and the role may do."""

from collections.abc import Iterator

from soonish.ops.model.pages import FirstStep
from soonish.web.auth import Caller, Role


def first_steps(caller: Caller) -> list[FirstStep]:
    return list(_of_admins(caller)) if caller.role >= Role.ADMIN else []


def _of_admins(caller: Caller) -> Iterator[FirstStep]:
    if caller.timezone == "UTC":
        yield FirstStep(
            "Say where you are",
            "Every time is shown in UTC until this workspace has a time zone.",
            "/settings#workspace",
            "Choose a time zone",
            "soonish api PATCH /v1/workspace timezone=Europe/Berlin",
        )
    yield FirstStep(
        "Add yourself",
        "Soonish tells people. Begin with one, and a way to reach them: an inbox here, mail, or a service you use.",
        "/people",
        "Add a person",
        "soonish api POST /v1/people name=Ben timezone=Europe/Berlin",
    )
    yield FirstStep(
        "Make your first event",
        "Say what and when. Whoever subscribes hears of changes at once, and is reminded when they want it.",
        "/events/new",
        "Make an event",
        "soonish api POST /v1/events name=Tea start_date=2027-01-01T17:00:00Z",
    )
