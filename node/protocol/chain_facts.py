"""Checks of a chain in addition to its records: the deployment, and the hashes and randomness of its blocks."""

from collections.abc import Callable
from dataclasses import dataclass

from fedgrove.chain.records.deployment import Deployment, LedgerSettings


@dataclass(frozen=True)
class ChainFacts:
    """Origin of the records, and the terms fixed at deployment.

    ``head_block`` is the last block looked at; ``block_hash`` and ``randomness`` map the number of a block up to it to
    its hash and to the RANDAO mix in its header, 32 bytes each.
    """

    deployment: Deployment
    head_block: int
    block_hash: Callable[[int], bytes]
    randomness: Callable[[int], bytes]

    @property
    def settings(self) -> LedgerSettings:
        return self.deployment.settings

    @property
    def place(self) -> tuple[int, str]:
        """Chain id and address of the ledger."""
        return self.deployment.chain_id, self.deployment.ledger
