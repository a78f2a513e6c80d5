"""Warning for a member that relies on a single endpoint of somebody else."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from fedgrove.chain.network.endpoint import origin_of
from fedgrove.node.protocol.network_settings import NetworkSettings


def lone_endpoint(reach: NetworkSettings) -> str:
    """Possible attacks of the only endpoint, in a sentence; empty if several must agree, or it is on this machine.

    Those at one origin are one, and where none must agree with another, each that may be asked is the only one.
    """
    quorum = reach.rpc_quorum or min(2, len(set(map(origin_of, reach.rpc))))
    elsewhere = [url for url in reach.rpc if not _is_loopback(url)]
    if quorum > 1 or not elsewhere:
        return ""
    return (
        f"only {origin_of(elsewhere[0])} says which chain is the right one: it could hide the newest records, or show "
        "a federation whose members are its own; run a node, name a second endpoint in network.rpc, or agree on "
        "membership.members"
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
