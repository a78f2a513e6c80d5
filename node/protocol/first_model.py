"""The model that round 1 trains from: whoever has the terms can compute it."""

from dataclasses import replace

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.kmeans.state import State
from fedgrove.node.protocol.terms import FederationConfig, StartSettings


def first_model(config: FederationConfig) -> bytes:
    """The bytes that the first round starts from, a function of the terms.

    Raises
    ------
    InvalidConfig
        The privacy mechanism does not suit the model.
    """
    if config.clustering is not None:
        return State.empty(config.clustering.dimensions).to_bytes()
    from fedgrove.node.methods.training.evaluation import initial_model

    return initial_model(config)


def with_first_model(config: FederationConfig) -> FederationConfig:
    """The terms, with the digest of the model that round 1 trains from.

    Raises
    ------
    InvalidConfig
        They name another first model than follows from them.
    """
    digest = cid_of(first_model(config)).digest.hex()
    if config.start.model not in ("", digest):
        raise InvalidConfig(f"start.model must be {digest}, which follows from the terms; or leave the table out")
    return replace(config, start=StartSettings(digest))
