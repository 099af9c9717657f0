"""What machines ask of one process, without a key: does it live, is it ready, its metrics. Workers serve them too."""

import hmac
from ipaddress import ip_address
from typing import Final, Literal

from msgspec import Struct

from soonish import telemetry
from soonish.errors import NotFound, Unauthorized
from soonish.ops.actions.handed import Ops, ops_of
from soonish.ops.model.health import Readiness
from soonish.web.operation import Ok, Reply, Request, get

PROMETHEUS: Final = b"text/plain; version=1.0.0; charset=utf-8"


class Alive(Struct, frozen=True):
    """It serves."""

    status: Literal["ok"] = "ok"


@get("/healthz", role=None)
async def healthz(request: Request) -> Alive:
    """Say that this process serves."""
    del request
    return Alive()


@get("/readyz", role=None, statuses=(200, 503))
async def readyz(request: Request) -> Ok[Readiness]:
    """Say whether this process can do its work, and what is wrong where it cannot.

    503 where it is down: the database away or of another schema, a loop silent, no space. Degraded is still 200.
    """
    ready = await ops_of(request).health.check()
    return Ok(ready, 503 if ready.status == "down" else 200, {"Cache-Control": "no-store"})


@get("/metrics", role=None, refuses=(401, 404))
async def metrics(request: Request) -> Reply:
    """Show the metrics of this process, as Prometheus reads them.

    For the bearer of SOONISH_METRICS_TOKEN; without that setting for this machine alone.
    """
    ops = ops_of(request)
    _check_reader(ops, request)
    await ops.health.measure()
    return Reply(200, [(b"content-type", PROMETHEUS), (b"cache-control", b"no-store")], telemetry.expose())


def _check_reader(ops: Ops, request: Request) -> None:
    if ops.metrics_token:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {ops.metrics_token}".encode()):
            raise Unauthorized("Send the SOONISH_METRICS_TOKEN as `Authorization: Bearer ...`")
    elif not _is_near(request):
        raise NotFound("There is nothing here; the paths are in /openapi.json")


def _is_near(request: Request) -> bool:
    """Whether a program on this machine asks for itself: one that forwards for others says so."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    peer = request.client.host if request.client else ""
    try:
        return ip_address(peer).is_loopback
    except ValueError:
        return False


routes = [healthz, readyz, metrics]
