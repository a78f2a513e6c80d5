"""Nodes that people run on their own machine to practise: how each is recognised, and asked for blocks and test ether.

They may make a block for each transaction and none by time. Whoever waits for a block there asks for it.
"""

from dataclasses import dataclass
from typing import Any

CONSTANT_BASE_FEE = 7
"""In wei a unit of gas. Empty blocks take an eighth off a base fee, rounded down, so this one stays as it is.

A higher one falls with every block, and the first round of a demonstration costs more than the next forty together.
"""

Call = tuple[str, tuple]
"""A JSON-RPC method with its parameters."""


@dataclass(frozen=True, slots=True)
class PracticeNode:
    """One kind of practice node.

    Attributes
    ----------
    version : str
        How its ``web3_clientVersion`` begins.
    name : str
        For people.
    automine : str
        Method that says whether it makes a block for each transaction; empty for a node that never does.
    mine_several : str
        Method that makes as many blocks as its parameter says; empty where each is asked for with ``evm_mine``.
    set_balance : str
        Method that sets an account's balance; empty where ether comes from the accounts that the node holds.
    by_time : str
        How it is told to make blocks by time.
    """

    version: str
    name: str
    automine: str = ""
    mine_several: str = ""
    set_balance: str = ""
    by_time: str = ""

    def without_blocks(self, automine: bool) -> str:
        """What to do when it makes no blocks, as the end of a sentence."""
        if automine:
            return (
                f"{self.name} makes one for each transaction only, so run `fedgrove coordinator`, which asks it for "
                f"more, or {self.by_time}"
            )
        return f"{self.name} was told to make none by itself, or hangs: {self.by_time}"

    def mining(self, blocks: int) -> list[Call]:
        """The calls that make this number of empty blocks."""
        return [(self.mine_several, (hex(blocks),))] if self.mine_several else [("evm_mine", ())] * blocks


KINDS = (
    PracticeNode(
        "anvil/", "anvil", "anvil_getAutomine", "anvil_mine", "anvil_setBalance", "start it with --block-time 1"
    ),
    # Of the blocks that hardhat_mine makes, all but a few at the ends have no parent: their headers prove nothing.
    PracticeNode(
        "HardhatNetwork/",
        "hardhat",
        "hardhat_getAutomine",
        "",
        "hardhat_setBalance",
        "set networks.hardhat.mining to { auto: true, interval: 1000 } in hardhat.config.js",
    ),
    PracticeNode("fedgrove/", "fedgrove's embedded chain", "", "anvil_mine", "", "start it again"),
)


def practice_node(version: Any) -> PracticeNode | None:
    """The kind of node that states this version; None for all that are not for practice."""
    return next((kind for kind in KINDS if isinstance(version, str) and version.startswith(kind.version)), None)
