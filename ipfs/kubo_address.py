"""Addresses of a Kubo node's RPC API: ``http://USER@HOST:PORT/PATH``, ``unix:/PATH`` or ``/ip4/…``; no password."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fedgrove.ipfs.store import StoreError

BASE = "api/v0"
DEFAULT_PORT = 5001
FORMS = ("http://", "https://", "unix:", "/ip4/", "/ip6/", "/dns")
"""How addresses begin."""

_EXAMPLES = "http://HOST:PORT, https://USER@HOST:PORT/PATH or unix:/PATH"


@dataclass(frozen=True)
class KuboAddress:
    """Where the API is, as ``ipfshttpclient`` takes it.

    Attributes
    ----------
    shown : str
        For people: without a user's name.
    multiaddr : str
        Host or socket.
    base : str
        Path of the API there.
    user : str
        Name for basic authorisation; empty for none.
    """

    shown: str
    multiaddr: str
    base: str = BASE
    user: str = ""


def read_address(address: str) -> KuboAddress:
    """Parse an address; StoreError for anything else, and for a password, which no configuration may hold."""
    if address.startswith("unix:"):
        path = Path(address.removeprefix("unix:"))
        if not path.is_absolute() or str(path) != str(path).lower():  # the client library turns capitals into others
            raise StoreError(
                f"the address of an IPFS node's socket is unix: and an absolute path in lower case, not {address!r}"
            )
        return KuboAddress(address, f"/unix{path}")
    if address.startswith(("/ip4/", "/ip6/", "/dns")):
        return KuboAddress(address, address)
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _unknown() from None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise _unknown()
    if parts.password is not None:
        raise StoreError(
            "the address of an IPFS node must not hold a password: leave it out, and put it into a file that "
            "network.store_password_file or FEDGROVE_STORE_PASSWORD_FILE names"
        )
    kind = "ip6" if ":" in host else "ip4" if host.replace(".", "").isdigit() else "dns"
    base = "/".join(filter(None, (parts.path.strip("/"), BASE)))
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    where = f"/{kind}/{host}/tcp/{port or DEFAULT_PORT}/{parts.scheme}"
    return KuboAddress(shown, where, base, unquote(parts.username or ""))


def _unknown() -> StoreError:
    return StoreError(f"the address of an IPFS node's RPC API has the form {_EXAMPLES}")
