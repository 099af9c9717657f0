"""The Apprise library as it is used here: without files, plugins, logs, and nothing it could dial by itself.

Reads URLs and lists services, which is no I/O. It is loaded when it is first needed, for that takes a while.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final, overload

from soonish.delivery.channels import apprise_wire
from soonish.delivery.egress import Guard
from soonish.delivery.model.targets import THREADED, AppriseUrl, check_apprise, is_allowed
from soonish.errors import FieldError, Invalid
from soonish.people.model.address import AddressKind, CheckedTarget, Scheme
from soonish.people.model.address import check_target as check_others

_HOST_NAMES: Final = ("Hostname", "API Hostname")
_HOSTED: Final = ("cloud", "official", "t2bot")  # modes in which a service is that of its makers
_SILENCED: Final = ("apprise", "urllib3")  # their lines tell hosts and paths, and so tokens


@cache
def library() -> ModuleType:
    """The library with all its services, once they can dial through the guard alone."""
    import apprise
    from apprise.manager_plugins import NotificationManager

    NotificationManager().load_modules()  # type: ignore[no-untyped-call]
    for name in _SILENCED:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    apprise_wire.lend([module for name, module in sys.modules.items() if name.partition(".")[0] == "apprise"])
    return apprise


def asset() -> Any:
    """What every service object is told: nothing from the disk, nothing in the background, no redirects."""
    return library().AppriseAsset(
        async_mode=False,
        http_redirects=False,
        service_timeout=0,
        plugin_paths=None,
        storage_path=None,
        secure_logging=True,
        interpret_escapes=False,
        interpret_emojis=False,
        default_service_retry=0,
        app_id="Soonish",
        app_desc="Soonish",
        app_url="",
    )


def make_service(url: str) -> Any:
    """The one service object of a URL, None where the library cannot use it. It never repeats by itself."""
    if url.partition(":")[0].lower() in THREADED:
        return None
    service = library().Apprise.instantiate(url, asset=asset())
    if service is not None:
        service.retry, service.wait, service.optional, service.redirects = 0, 0.0, False, False
    return service


def check_target(url: str, guard: Guard, allowed: frozenset[str] | None = None, *, remote: bool = False) -> AppriseUrl:
    """Judge a URL that is to be stored; raises Invalid. `remote`: another server speaks it, with its own packages."""
    said = check_apprise(url, allowed)
    if not remote and (why := _missing(said.scheme, _service(said.scheme))):
        raise Invalid(why, code="apprise_scheme")
    host, _ = judge_place(said, url, guard)
    return AppriseUrl(said.scheme, host or said.scheme, said.hint)


def judge_place(said: AppriseUrl, url: str, guard: Guard) -> tuple[str | None, int | None]:
    """Host and port in a URL, none where its service has its own; raises Invalid for one that must not be dialled."""
    plugin = _service(said.scheme)
    host, port = (said.host, said.port) if _missing(said.scheme, plugin) else _place(make_service(url))
    if host is None:  # the library cannot use it, and reads as wrong what others read as an address
        if _names_host(plugin) and said.is_address:
            guard.check_host(said.host, said.port)
        raise _unusable(said.scheme)
    if not host:
        return None, None
    guard.check_host(host, port)
    return host.lower(), port


def list_schemes(allowed: frozenset[str] | None = None, *, remote: bool = False) -> list[Scheme]:
    """What may be used here, each with its service and a URL to fill in, as the library tells it."""
    return [
        Scheme(scheme=name, service=str(plugin.service_name), sample=_sample(name, plugin))
        for name, plugin in sorted(_services().items())
        if is_allowed(name, allowed) and (remote or not _missing(name, plugin))
    ]


class Targets:
    """What people are handed: how targets are judged, and which schemes there are."""

    def __init__(self, guard: Guard, allowed: frozenset[str] | None, *, remote: bool = False) -> None:
        self._guard, self._allowed, self._remote = guard, allowed, remote
        self.schemes = _Schemes(allowed, remote=remote)

    def check(self, kind: AddressKind, target: str) -> CheckedTarget:
        """For `check_target` of people: their own judgement of the other kinds, ours of Apprise URLs."""
        if kind != "apprise":
            return check_others(kind, target)
        try:
            found = check_target(target, self._guard, self._allowed, remote=self._remote)
        except Invalid as error:
            raise Invalid("", FieldError("target", error.code, error.message)) from error
        return CheckedTarget(found.scheme, found.host, found.hint)


class _Schemes(Sequence[Scheme]):
    """The list, made when it is first looked at."""

    def __init__(self, allowed: frozenset[str] | None, *, remote: bool) -> None:
        self._allowed, self._remote = allowed, remote
        self._list: list[Scheme] | None = None

    def _made(self) -> list[Scheme]:
        if self._list is None:
            self._list = list_schemes(self._allowed, remote=self._remote)
        return self._list

    def __len__(self) -> int:
        return len(self._made())

    def __iter__(self) -> Iterator[Scheme]:
        return iter(self._made())

    @overload
    def __getitem__(self, index: int) -> Scheme: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Scheme]: ...
    def __getitem__(self, index: int | slice) -> Scheme | Sequence[Scheme]:
        return self._made()[index]


@cache
def _services() -> dict[str, Any]:
    from apprise.manager_plugins import NotificationManager

    library()
    known = NotificationManager()  # type: ignore[no-untyped-call]
    return {scheme: known[scheme] for scheme in known.schemas()}  # type: ignore[no-untyped-call]


def _service(scheme: str) -> Any:
    if scheme not in _services():
        raise Invalid(f"There is no service {scheme!r}; see GET /v1/address-kinds", code="apprise_scheme")
    return _services()[scheme]


def _unusable(scheme: str) -> Invalid:
    plugin = _service(scheme)
    sample = _sample(scheme, plugin)
    return Invalid(f"{plugin.service_name} cannot use this URL; it looks like {sample}", code="apprise_url")


def _place(service: Any) -> tuple[str | None, int | None]:
    """Where a service object leads: "" where its makers have a host for all, None for no object."""
    if service is None:
        return None, None
    if not _names_host(service) or getattr(service, "mode", None) in _HOSTED:
        return "", None
    return str(service.host or ""), service.port if isinstance(service.port, int) else None


def _names_host(plugin: Any) -> bool:
    """Whether what stands in the place of the host is one: with some it is a domain of mail, or a number of theirs."""
    return str(plugin.template_tokens.get("host", {}).get("name")) in _HOST_NAMES


def _missing(scheme: str, plugin: Any) -> str | None:
    """What keeps this process from speaking it."""
    if scheme in THREADED:
        return f"{scheme!r} is only for an Apprise API server: the operator can name one with SOONISH_APPRISE_API_URL"
    return None if plugin.enabled else f"{scheme!r} needs a package that is not installed here"


def _sample(scheme: str, plugin: Any) -> str:
    return str(plugin.templates[0]).replace("{schema}", scheme) if plugin.templates else f"{scheme}://"
