"""What a member should know who asks one endpoint only, and not its own."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from chain.endpoints import origin_of
from node.network_settings import NetworkSettings


def lone_endpoint(reach: NetworkSettings) -> str:
    """What the only endpoint could do, in a sentence; empty where several must agree, or it is on this machine."""
    quorum = reach.rpc_quorum or min(2, len(reach.rpc))
    if quorum > 1 or any(map(_is_loopback, reach.rpc)):
        return ""
    return (
        f"only {origin_of(reach.rpc[0])} says which chain is the right one: it could hide the newest records, or show "
        "a federation whose members are its own; run a node, name a second endpoint in network.rpc, or agree on "
        "membership.members"
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
