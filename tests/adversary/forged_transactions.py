"""Forgeries of transactions and receipts: to whom, for which chain, by whom, and with what outcome."""

from collections.abc import Callable, Iterator

from eth_utils import keccak, to_canonical_address

from tests.adversary.forgery import Forgery, samples
from tests.adversary.forging import STRANGER, Place
from tests.adversary.kept_runs import Kept

SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def of_transactions(kept: Kept) -> Iterator[Forgery]:
    """Whom a transaction is to, for which chain, whose it is, and what its receipt says."""
    for place in samples(kept.tape):
        kind = type(place.record).__name__
        for name, change in _TRANSACTION_CHANGES.items():
            if name == "to nobody" and not kept.tape.call(place).to:
                continue  # as it is: a creation
            yield Forgery(f"{kind}: {name}", lambda d, p=place, c=change: c(d.tape.call(p), d), name in _HIDING)
        for number, account in enumerate((*kept.members[:2], kept.coordinator)):
            if account is not None and account.address != _sender(kept, place):
                who = "the coordinator" if account is kept.coordinator else f"member {number + 1}"
                yield Forgery(
                    f"{kind}: signed by {who}",
                    lambda d, p=place, a=account: d.tape.call(p).sign(a, d.tape.deployment.chain_id),
                )


def _sender(kept: Kept, place: Place) -> str:
    hashes = [record for record in kept.history.records() if record.at.block == kept.history.first_block + place.block]
    return kept.history.transactions[hashes[0].at.transaction].sender


def _to(account: bytes) -> Callable:
    def change(call, draft):
        call.to = account

    return change


def _signed_to(call, draft):
    call.to = keccak(text="elsewhere")[:20]
    call.sign(STRANGER, draft.tape.deployment.chain_id)


def _of_chain(chain_id: int, signed: bool) -> Callable:
    def change(call, draft):
        call.fields[0] = chain_id.to_bytes(2, "big")
        if signed:
            call.sign(STRANGER, chain_id)

    return change


def _by_stranger(call, draft):
    call.sign(STRANGER, draft.tape.deployment.chain_id)


def _mirrored(call, draft):
    """The other s with which the same signature holds."""
    parity, s = (int.from_bytes(word, "big") for word in (call.fields[-3], call.fields[-1]))
    call.fields[-3], call.fields[-1] = (b"", b"\1")[1 - parity], (SECP256K1_ORDER - s).to_bytes(32, "big")


def _padded(call, draft):
    call.fields[-3] = b"\0" + call.fields[-3]


def _nonce(call, draft):
    call.fields[1] = b"\x7f"


def _failed(call, draft):
    call.status = b""


def _failed_without_logs(call, draft):
    call.status, call.logs = b"", []


def without_logs(call, draft):
    call.logs = []


def _without_last_log(call, draft):
    call.logs = call.logs[:-1]


def logs_twice(call, draft):
    call.logs = call.logs * 2


def _strange_log(call, draft):
    call.logs = [*call.logs, [call.logs[0][0], [keccak(text="Strange()")], b""]]


def padded_log(call, draft):
    address, topics, data = call.logs[-1]
    call.logs = [*call.logs[:-1], [address, topics, data + bytes(32)]]


def _log_of_the_other(call, draft):
    ledger, registry = (to_canonical_address(getattr(draft.tape.deployment, name)) for name in ("ledger", "registry"))
    address, topics, data = call.logs[-1]
    call.logs = [*call.logs[:-1], [registry if address == ledger else ledger, topics, data]]


def _gas(call, draft):
    call.gas += 1


def _receipt_kind(call, draft):
    call.receipt_kind = 1


def _bloom(call, draft):
    call.bloom = b"\xff" * 256


def _other_status(call, draft):
    call.status = b"\2"


_TRANSACTION_CHANGES = {
    "to another address": _to(b"\7" * 20),
    "to nobody": _to(b""),
    "to another address, signed by a stranger": _signed_to,
    "for another chain": _of_chain(513, False),
    "for another chain, signed by a stranger": _of_chain(513, True),
    "signed by a stranger": _by_stranger,
    "legacy without chain id": lambda call, draft: call.become_unprotected(),
    "legacy without chain id, signed by a stranger": lambda call, draft: call.become_unprotected(STRANGER),
    "with the mirrored signature": _mirrored,
    "with a padded signature": _padded,
    "with another nonce": _nonce,
    "that failed": _failed,
    "that failed, without logs": _failed_without_logs,
    "without logs": without_logs,
    "without its last log": _without_last_log,
    "with its logs twice": logs_twice,
    "with a strange log": _strange_log,
    "with a padded log": padded_log,
    "with the other contract's log": _log_of_the_other,
    "with another gas": _gas,
    "with a receipt of another type": _receipt_kind,
    "with another bloom filter": _bloom,
    "with a status that is none": _other_status,
}
_HIDING = ("that failed, without logs", "with another gas")
