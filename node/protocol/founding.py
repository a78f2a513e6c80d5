"""From a federation's terms to its contracts: what they fix, and whether a ledger is the one that they describe."""

from dataclasses import replace

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.face.founding import deploy
from fedgrove.chain.network.access import Network
from fedgrove.chain.records.deployment import MOST_NAMED, Deployment, Terms
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.protocol.terms import FederationConfig


def terms_of(config: FederationConfig) -> Terms:
    """The part of the terms that the ledger fixes."""
    starts = (1, *config.rate_changes)
    return Terms(
        config=cid_of(config.to_bytes()).digest.hex(),
        model=config.start.model,
        rates=tuple((first, config.rate_ppm(first)) for first in starts),
        rounds=config.rounds_to_close,
        repeats=config.federation.repeats,
    )


def found(
    network: Network, founder: Account, config: FederationConfig, coordinator: str, admin: str | None = None
) -> Deployment:
    """Deploy a federation's contracts; the terms must name the first model (``with_first_model``), and the members.

    Parameters
    ----------
    founder : Account
        Pays; has no rights afterwards unless it is the admin.
    coordinator, admin : str
        Addresses; by default the founder is the admin.

    Raises
    ------
    InvalidConfig
        The terms name fewer members than a round needs, where nobody can add others.
    """
    named, quorum = len(config.membership.members), config.ledger.quorum
    if config.membership.mode == "named" and named < quorum:
        needed = f"the accounts of at least {quorum} members (ledger.quorum), not {named}"
        raise InvalidConfig(f"membership.members must be {needed}: nobody else can ever take part")
    return deploy(
        network,
        founder,
        coordinator,
        config.ledger,
        terms_of(config),
        members=config.membership.members,
        membership=config.membership.mode,
        admin=admin,
        activation_delay=config.membership.activation_delay,
    )


def difference(deployment: Deployment, config: FederationConfig) -> str:
    """In what a deployed federation is not the one that the terms describe, in one clause; empty if in nothing."""
    expected = replace(
        deployment,
        settings=config.ledger,
        terms=terms_of(config),
        membership=config.membership.mode,
        members=config.membership.members[:MOST_NAMED],
        activation_delay=config.membership.activation_delay,
    )
    for name in ("settings", "terms", "membership", "members", "activation_delay"):
        if getattr(deployment, name) != getattr(expected, name):
            return f"its {name.replace('_', ' ')} are not those of the terms"
    return ""
