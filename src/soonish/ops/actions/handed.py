"""What the program hands to this slice, for its routes to find at `app.state.ops`. Knows no rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from litestar import Request

from soonish.due.model import Kind
from soonish.ops.actions.health import Health
from soonish.ops.model.items import Explainer
from soonish.ops.model.pages import FirstStep
from soonish.ops.model.why import Ahead, Teller
from soonish.web.auth import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """The health of this process, all kinds of the program, what explains them, a newcomer's first steps."""

    health: Health
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    explainers: Mapping[str, Explainer] = field(default_factory=dict)
    tellers: Mapping[str, Teller] = field(default_factory=dict)  # by prefix of kind or of cause
    ahead: Sequence[Ahead] = ()  # what slices will tell a person
    first_steps: Callable[[Caller], Sequence[FirstStep]] = lambda _caller: ()
    metrics_token: str | None = None


def ops_of(request: Request[Any, Any, Any]) -> Ops:
    return request.app.state.ops  # type: ignore[no-any-return]
