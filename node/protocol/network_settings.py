"""The ``[network]`` table: how this member reaches ledger and store. No part of what the members agree on."""

from dataclasses import dataclass
from typing import Literal

from fedgrove.node.base.strict_tables import check_value


@dataclass(frozen=True)
class NetworkSettings:
    """How this member reaches the ledger and the store, and how long it waits (never part of the digest).

    Attributes
    ----------
    rpc : list of str
        URLs of EVM JSON-RPC endpoints (or one URL); the next one is used when one fails, lies about its chain or lags.
    websocket : str
        URL that announces new blocks; empty tries the same address as ``rpc``, and looks again every second.
    chain_id : int
        An endpoint that reports another chain is refused; 0 accepts any.
    registry, ledger : str
        Addresses, written by ``fedgrove deploy``.
    block : int
        Block of the deployment.
    store : str
        ``disk:PATH``, or the address of a Kubo API (never a public one): ``http://USER@HOST:PORT/PATH`` or
        ``unix:/PATH``, without a password.
    store_password_file : str
        File with the password of that address's user.
    quota_mib : int
        Limit in MiB of a directory used as store; 0 sets no limit.
    confirmations : int
        Blocks on top of a record before a role acts on it.
    rpc_quorum : int
        How many endpoints must agree on a block before this member acts on what lies in it; 0: two where several are
        given. Endpoints at one host and port count as one.
    proofs : str
        How this member proves records: ``headers``, block by block up to a hash on which ``rpc_quorum`` endpoints
        agree; or ``endpoints``, weaker, by the word of ``rpc_quorum`` endpoints, who can then leave records out: only
        for chains whose block headers nobody can recompute.
    max_fee_gwei : float
        Highest price ever offered per unit of gas.
    max_tip_gwei : float
        Highest part of it offered to the makers of blocks, whatever an endpoint says that others offer.
    check_rounds : float
        Fraction of the closed rounds that this client recomputes before it trains on them, if that is more than the
        terms ask for (``federation.checkers``). In any case it recomputes all rounds that somebody disputes, all in
        which it leads a cluster, and all after which it must show what it sent, judge what others sent, or answer
        others' sets.
    sandbox : str
        How the code of the federation's task is contained: ``strict``, ``contained``, the stronger one that this system
        has with ``auto``, or not at all with ``off``.
    device : str
        Where this member trains: ``cpu``, or ``cuda`` for a GPU. A task reaches one with ``sandbox = "off"`` only.
    task_seconds : float
        Most time that the task's code may take for one job, as a round of training.
    rpc_seconds, store_seconds : float
        Time for a whole request to an endpoint, or to the store, to the last byte of its answer.
    resend_seconds : float
        If no block holds a transaction after this time, it is sent again with a higher fee.
    patience_seconds : float
        A service that reaches no endpoint or no store for this long gives up.
    """

    rpc: tuple[str, ...] = ()
    websocket: str = ""
    chain_id: int = 0
    registry: str = ""
    ledger: str = ""
    block: int = 0
    store: str = ""
    store_password_file: str = ""
    quota_mib: int = 0
    confirmations: int = 0
    rpc_quorum: int = 0
    proofs: str = "headers"
    max_fee_gwei: float = 500.0
    max_tip_gwei: float = 3.0
    check_rounds: float = 0.0
    sandbox: Literal["auto", "strict", "contained", "off"] = "auto"
    device: Literal["cpu", "cuda"] = "cpu"
    task_seconds: float = 3600.0
    rpc_seconds: float = 10.0
    store_seconds: float = 30.0
    resend_seconds: float = 30.0
    patience_seconds: float = 600.0

    def __post_init__(self) -> None:
        check_value(0 <= self.quota_mib <= 1 << 30, "network.quota_mib", "0 (no limit) or at most 1073741824")
        check_value(0 <= self.confirmations <= 1000, "network.confirmations", "a whole number from 0 to 1000")
        allowed = "0 (automatic) or from 1 to the number of endpoints"
        check_value(0 <= self.rpc_quorum <= max(1, len(self.rpc)), "network.rpc_quorum", allowed)
        check_value(self.device in ("cpu", "cuda"), "network.device", "cpu or cuda")
        check_value(self.proofs in ("headers", "endpoints"), "network.proofs", "headers or endpoints")
        check_value(0 < self.max_fee_gwei <= 1e9, "network.max_fee_gwei", "above 0 and at most 1000000000")
        check_value(0 < self.max_tip_gwei <= 1e9, "network.max_tip_gwei", "above 0 and at most 1000000000")
        check_value(0 <= self.check_rounds <= 1, "network.check_rounds", "from 0 to 1")
        for name in ("task_seconds", "rpc_seconds", "store_seconds", "resend_seconds", "patience_seconds"):
            check_value(0.1 <= getattr(self, name) <= 86_400, f"network.{name}", "from 0.1 to 86400 seconds")
