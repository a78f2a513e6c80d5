"""The ``[network]`` table: how this member reaches ledger and store. No part of what the members agree on."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from fedgrove.common.settings import Settings, Share

_Seconds = Annotated[float, Meta(ge=0.1, le=86_400, description="from 0.1 to 86400 seconds")]


@dataclass(frozen=True)
class NetworkSettings(Settings):
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
        terms ask for (``federation.checkers``). In any case it recomputes all rounds that somebody judges to be wrong,
        all in which it leads a cluster, and all after which it must show what it sent, judge what others sent, or
        answer others' sets.
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
    quota_mib: Annotated[int, Meta(ge=0, le=1 << 30, description="0 (no limit) or at most 1073741824")] = 0
    confirmations: Annotated[int, Meta(ge=0, le=1000)] = 0
    rpc_quorum: int = 0
    proofs: Literal["headers", "endpoints"] = "headers"
    max_fee_gwei: Annotated[float, Meta(gt=0, le=1e9)] = 500.0
    max_tip_gwei: Annotated[float, Meta(gt=0, le=1e9)] = 3.0
    check_rounds: Share = 0.0
    sandbox: Literal["auto", "strict", "contained", "off"] = "auto"
    device: Literal["cpu", "cuda"] = "cpu"
    task_seconds: _Seconds = 3600.0
    rpc_seconds: _Seconds = 10.0
    store_seconds: _Seconds = 30.0
    resend_seconds: _Seconds = 30.0
    patience_seconds: _Seconds = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = "0 (automatic) or from 1 to the number of endpoints"
        self.require(0 <= self.rpc_quorum <= max(1, len(self.rpc)), "rpc_quorum", allowed)
