"""What may be dialled: the addresses that are not public, the ports, and names that are an address in disguise.

Pure: resolves nothing and dials nothing. What the operator has opened is an argument.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Ours and not the `is_private` of ipaddress: that one changes between releases of Python, and is of another mind about
# relays and anycast.
CLOSED_V4: Final = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
CLOSED_V6: Final = ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
CLOSED: Final[tuple[Network, ...]] = tuple(map(ip_network, CLOSED_V4 + CLOSED_V6))
PUBLIC_V6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")

_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,252}")
# The last label decides, as it does in browsers: no domain ends in a number, but old parsers read one as an address.
_NUMBER: Final = re.compile(r"(.*\.)?(\d+|0x[0-9a-f]*)\.*")


def complaint(host: str, port: int | None, allow: Sequence[Network]) -> str | None:
    """Why a host must not be dialled, as far as its spelling tells; None where nothing speaks against it."""
    address = literal(host)
    if address is None:
        return _of_name(host.lower(), port, allow)
    if opened(address, allow):
        return None
    if closed(address):
        return "its address is not a public one"
    return _of_port(port)


def literal(host: str) -> Address | None:
    """The address that a host spells in the one usual way; an IPv6 form of an IPv4 address is that address."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    return None if address.scope_id else address.ipv4_mapped or address


def closed(address: Address) -> bool:
    """Whether an address lies in a range that is nobody's on the internet."""
    return any(address in network or _inner(address) in network for network in CLOSED) or (
        isinstance(address, IPv6Address) and address not in PUBLIC_V6 and _inner(address) is address
    )


def opened(address: Address, allow: Sequence[Network]) -> bool:
    """Whether the operator has opened its range."""
    return any(address in network or _inner(address) in network for network in allow)


def _inner(address: Address) -> Address:
    """The IPv4 address that a translator or a relay would make of it."""
    if isinstance(address, IPv4Address):
        return address
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.sixtofour or address


def _of_name(name: str, port: int | None, allow: Sequence[Network]) -> str | None:
    if _NUMBER.fullmatch(name):
        return "its host is a number; write an address as 192.0.2.1, in four decimal numbers"
    if not _NAME.fullmatch(name):
        return "its host is no name and no address"
    return None if allow else _of_port(port)  # behind the name may be a range that is opened: seen once it is resolved


def _of_port(port: int | None) -> str | None:
    usual = port is None or port in (80, 443) or 1024 <= port <= 65535
    return None if usual else "its port is none of 80, 443 and 1024 to 65535"
