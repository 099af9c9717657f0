"""What the doctor looks at on this machine: directory, space, lock, port, workflows, time zones. Changes nothing."""

import asyncio
import os
import shutil
import socket
import stat
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from soonish.client import Soonish
from soonish.clock import utc_now
from soonish.embedded.lock import holder
from soonish.embedded.temporal_server import running_address
from soonish.errors import SoonishError, Unavailable
from soonish.settings import Settings
from soonish.spelling import Bind
from soonish.temporal.engine import Engine

LEAST_FREE: Final = 200 * 2**20  # below it a service begins nothing new
LITTLE_FREE: Final = 2**30
ANSWER: Final = 5.0  # seconds
OLD_ZONES: Final = 2  # years after which governments have surely changed some rule


class Check(NamedTuple):
    """What was found, and what to do about it."""

    state: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


async def directory(settings: Settings) -> Check:
    root = settings.data_dir
    if not root.exists():
        return Check("warn", f"{root} is not there yet", "The first `soonish up` makes it.")
    if not root.is_dir() or not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return Check(
            "fail", f"{root} cannot be written to", "Give it to the user who runs Soonish, or set SOONISH_DATA_DIR."
        )
    if stat.S_IMODE(root.stat().st_mode) & 0o077:
        return Check("warn", f"{root} can be read by others", f"chmod 700 {root}")
    return Check("ok", str(root))


async def space(settings: Settings) -> Check:
    free = shutil.disk_usage(_nearest(settings.data_dir)).free
    text = f"{free / 2**30:.1f} GiB free"
    if free < LEAST_FREE:
        return Check("fail", text, "Free some space: below 200 MiB nothing new is begun.")
    return Check("ok", text) if free >= LITTLE_FREE else Check("warn", text, "Free some space before it runs out.")


async def lock(settings: Settings) -> Check:
    running = holder(settings.data_dir)
    return Check("ok", f"held by process {running.pid}, {running.url}" if running else "nobody runs on the directory")


async def port(settings: Settings) -> Check:
    """Ours answers, or nobody does; anything else is in the way."""
    running = holder(settings.data_dir)
    url = running.url if running and running.url else settings.bind.url
    try:
        async with Soonish(url, timeout=ANSWER) as soonish:
            await soonish.get("/healthz")
        return Check("ok", f"Soonish answers at {url}")
    except Unavailable:
        if running:
            return Check("fail", f"nobody answers at {url}", "Read the log of the process, then start it again.")
        return _free(settings.bind)
    except SoonishError:
        return Check("fail", f"something else answers at {url}", "End it, or choose another SOONISH_BIND.")


async def temporal(settings: Settings) -> Check:
    address = settings.temporal_address or running_address(settings.data_dir)
    if address is None:
        return Check("warn", "does not run", "`soonish up` starts it.")
    engine = Engine(settings, address=address)
    async with engine:
        try:
            await engine.wait_up(ANSWER)
        except TimeoutError:
            remedy = "Start it, or correct SOONISH_TEMPORAL_ADDRESS; what needs it waits until then."
            return Check("fail", f"does not answer at {address}", remedy)
    return Check("ok", f"namespace {settings.temporal_namespace} at {address}")


async def smtp(settings: Settings) -> Check:
    """Whether the mail server lets us in; nothing is sent."""
    from aiosmtplib import SMTP, SMTPException

    if settings.smtp_host is None:
        return Check("ok", "not set: no mail is sent")
    place = f"{settings.smtp_host}:{settings.smtp_port}"
    server = SMTP(
        hostname=settings.smtp_host,
        port=settings.smtp_port,
        username=settings.smtp_user,
        password=settings.smtp_password,
        use_tls=settings.smtp_tls == "tls",
        start_tls=settings.smtp_tls == "starttls",
        timeout=ANSWER,
    )
    try:
        async with server:
            return Check("ok", f"{place} takes mail")
    except (SMTPException, OSError, ValueError) as error:
        return Check("fail", f"{place}: {type(error).__name__}", "Correct SOONISH_SMTP_*; mail waits until then.")


async def apprise(settings: Settings) -> Check:
    """Whether the Apprise API listens, where one is set."""
    if settings.apprise_api_url is None:
        return Check("ok", "in this process")
    parts = urlsplit(settings.apprise_api_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(ANSWER):
            _, writer = await asyncio.open_connection(parts.hostname, port)
        writer.close()
        return Check("ok", f"{parts.hostname}:{port} listens")
    except (OSError, TimeoutError):
        remedy = "Start it, or correct SOONISH_APPRISE_API_URL; messages wait until then."
        return Check("fail", f"nobody answers at {parts.hostname}:{port}", remedy)


async def tzdata(_settings: Settings) -> Check:
    release = version("tzdata")
    if int(release.partition(".")[0]) + OLD_ZONES <= utc_now().year:
        return Check("warn", f"the rules of {release}", "Update the package tzdata: local times may be an hour off.")
    return Check("ok", f"the rules of {release}")


def _nearest(path: Path) -> Path:
    """The folder itself, or the one above it that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _free(bind: Bind) -> Check:
    with socket.socket(socket.AF_INET6 if ":" in bind.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind.host, bind.port))
        except OSError as reason:
            remedy = "End what listens there, or choose another SOONISH_BIND."
            return Check("fail", f"{bind} cannot be taken: {reason.strerror}", remedy)
    return Check("ok", f"{bind} is free")
