"""What forgers try: a catalogue of changes to a kept run, each made consistent as far as it goes without a key."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from eth_utils import keccak, to_canonical_address
from fedgrove.chain.account import Account
from fedgrove.chain.deployment import Deployment, creation_data
from fedgrove.chain.records import (
    AbsenceRecorded,
    Closed,
    Committed,
    LedgerFounded,
    Record,
    Recovered,
    RegistryFounded,
    Released,
    RoundOpened,
    Shared,
)
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import dump
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.terms import fetch_method, method_of
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.terms import StartSettings

from tests.adversary.forging import ARGUMENTS, STRANGER, Place, Tape, other_value, record_fields
from tests.adversary.kept_runs import Kept

LIMIT = 1 << 26
SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
HEADER_FIELDS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)


@dataclass
class Draft:
    """A run that is being forged: its tape, blobs to publish, and what to make of the report."""

    kept: Kept
    tape: Tape
    blobs: list[bytes] = field(default_factory=list)
    report: Callable[[dict], None] = lambda report: None

    def put(self, blob: bytes) -> bytes:
        """Publish a blob; its digest."""
        self.blobs.append(blob)
        return cid_of(blob).digest


@dataclass(frozen=True)
class Forgery:
    """One thing to try.

    ``hides`` says that it leaves out records, or changes what nobody signs (blocks, gas, times): at the end of a
    history, behind the last block that a closing names, only a published head shows that.
    """

    name: str
    edit: Callable[[Draft], None]
    hides: bool = False


def catalogue(kept: Kept) -> list[Forgery]:
    """Everything, in a fixed order."""
    groups = (of_fields, of_transactions, of_structure, of_headers, of_facts, of_report, of_blobs, of_histories)
    return [forgery for group in groups for forgery in group(kept)]


def samples(tape: Tape) -> list[Place]:
    """The last record of each kind, in the order of the chain."""
    last = {type(place.record): place for place in tape.places()}
    return sorted(last.values(), key=lambda place: (place.block, place.call, place.log))


# --- records ----------------------------------------------------------------------------------------------------------


def of_fields(kept: Kept) -> Iterator[Forgery]:
    """Each field of each kind of record: in the log alone, and in the calldata, too."""
    for place in samples(kept.tape):
        kind = type(place.record)
        for name in record_fields(place.record):
            change = {name: other_value(getattr(place.record, name))}
            yield Forgery(f"{kind.__name__}.{name}", _raw(lambda d, p=place, c=change: d.tape.set_record(p, **c)))
            if name in ARGUMENTS.get(kind, ()):
                yield Forgery(
                    f"{kind.__name__}.{name} and calldata under the old signature",
                    _raw(lambda d, p=place, c=change: d.tape.change(p, **c)),
                )
                yield Forgery(
                    f"{kind.__name__}.{name} and calldata, signed by a stranger",
                    _raw(lambda d, p=place, c=change: d.tape.change(p, STRANGER, **c)),
                )


def _raw(edit: Callable[[Draft], Any]) -> Callable[[Draft], None]:
    """An edit after which nothing in the records is made to fit: it is they that are forged."""

    def edited(draft: Draft) -> None:
        draft.tape.mends = False
        edit(draft)

    return edited


# --- transactions and receipts ----------------------------------------------------------------------------------------


def of_transactions(kept: Kept) -> Iterator[Forgery]:
    """Whom a transaction is to, for which chain, whose it is, and what its receipt says."""
    for place in samples(kept.tape):
        kind = type(place.record).__name__
        for name, change in _TRANSACTION_CHANGES.items():
            if name == "to nobody" and isinstance(place.record, RegistryFounded | LedgerFounded):
                continue  # as it is
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


def _without_logs(call, draft):
    call.logs = []


def _without_last_log(call, draft):
    call.logs = call.logs[:-1]


def _logs_twice(call, draft):
    call.logs = call.logs * 2


def _strange_log(call, draft):
    call.logs = [*call.logs, [call.logs[0][0], [keccak(text="Strange()")], b""]]


def _padded_log(call, draft):
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
    "without logs": _without_logs,
    "without its last log": _without_last_log,
    "with its logs twice": _logs_twice,
    "with a strange log": _strange_log,
    "with a padded log": _padded_log,
    "with the other contract's log": _log_of_the_other,
    "with another gas": _gas,
    "with a receipt of another type": _receipt_kind,
    "with another bloom filter": _bloom,
    "with a status that is none": _other_status,
}
_HIDING = ("that failed, without logs", "with another gas")


# --- whole records ----------------------------------------------------------------------------------------------------


def of_structure(kept: Kept) -> Iterator[Forgery]:
    """Transactions left out, put in twice, moved, exchanged."""
    for place in samples(kept.tape):
        kind, end = type(place.record).__name__, len(kept.tape.sheets) - 1
        yield Forgery(f"{kind} left out", lambda d, p=place: d.tape.drop(p), True)
        yield Forgery(f"{kind} once more", lambda d, p=place: _again(d, p, p.block))
        yield Forgery(f"{kind} once more at the end", lambda d, p=place: _again(d, p, len(d.tape.sheets) - 1))
        if place.block < end:
            yield Forgery(f"{kind} a block later", lambda d, p=place: d.tape.move(p, p.block + 1), True)
        if place.block:
            yield Forgery(f"{kind} a block earlier", lambda d, p=place: d.tape.move(p, p.block - 1), True)
    for kind in (Shared, Committed, Released):
        first, second = kept.tape.places(kind)[-2:]
        yield Forgery(f"two {kind.__name__} exchanged", lambda d, a=first, b=second: _exchange(d, a, b), True)


def _again(draft: Draft, place: Place, block: int) -> None:
    draft.tape.insert(block, copy.deepcopy(draft.tape.call(place)))


def _exchange(draft: Draft, first: Place, second: Place) -> None:
    calls = [draft.tape.call(place) for place in (first, second)]
    draft.tape.sheets[first.block].calls[first.call] = calls[1]
    draft.tape.sheets[second.block].calls[second.call] = calls[0]


# --- headers and facts ------------------------------------------------------------------------------------------------


def of_headers(kept: Kept) -> Iterator[Forgery]:
    """Fields of headers, with all hashes down the chain made anew; and headers that contradict themselves."""
    end = len(kept.tape.sheets) - 1
    for where, block in (("an early block", end // 4), ("a late block", kept.tape.last(Recovered).block - 1)):
        for number in HEADER_FIELDS:
            yield Forgery(f"header field {number} of {where}", lambda d, b=block, n=number: _header(d, b, n), True)
    late = kept.tape.last(Committed).block
    yield Forgery("a header with a false hash", lambda d: setattr(d.tape.sheets[late], "claimed", keccak(b"")))
    yield Forgery("a block whose body is left out", lambda d: _bare(d, late))


def _header(draft: Draft, block: int, number: int) -> None:
    draft.tape.sheets[block].breaks = number


def _bare(draft: Draft, block: int) -> None:
    draft.tape.sheets[block].bare = True


def of_facts(kept: Kept) -> Iterator[Forgery]:
    """The deployment's facts in the first line, alone and in the creation transactions, too."""
    for name, changed in _other_deployments(kept.history.deployment):
        yield Forgery(f"first line: {name}", lambda d, c=changed: _restate(d, c, False))
        yield Forgery(f"first line and creation: {name}", lambda d, c=changed: _restate(d, c, True))


def _other_deployments(deployment: Deployment) -> Iterator[tuple[str, Deployment]]:
    for name in (each.name for each in fields(Deployment)):
        value = getattr(deployment, name)
        if name in ("settings", "terms"):
            for part in (each.name for each in fields(value)):
                other = _other_term(part, getattr(value, part), asdict(value))
                yield f"{name}.{part}", replace(deployment, **{name: replace(value, **{part: other})})
        else:
            yield name, replace(deployment, **{name: other_value(value)})


def _other_term(name: str, value: Any, beside: dict) -> Any:
    if name in ("config", "model"):
        return "ab" * 32
    if name == "rates":
        return ((1, 999_999),)
    if name == "quorum":
        return value - 1
    return other_value(value) if value != beside.get("max_clients") else value - 1


def _restate(draft: Draft, deployment: Deployment, created: bool) -> None:
    tape = draft.tape
    before, tape.deployment = tape.deployment, deployment
    if deployment.block != before.block:
        del tape.sheets[: deployment.block - before.block]
        return
    if created:
        tape.deployment = before
        places = [(tape.first(kind), name) for kind, name in _CREATIONS]
        tape.deployment = deployment
        for place, name in places:
            call = tape.call(place)
            call.data = creation_data(name, deployment)
            call.sign(STRANGER, deployment.chain_id)


_CREATIONS = ((RegistryFounded, "ClientRegistry"), (LedgerFounded, "TrainingLedger"))


# --- report and blobs -------------------------------------------------------------------------------------------------


def of_report(kept: Kept) -> Iterator[Forgery]:
    """Each key of the report, and of its rounds, with a manifest that fits."""
    report = json.loads((kept.directory / "report.json").read_bytes())
    for key in report:
        yield Forgery(f"report: {key}", _reported(lambda table, k=key: table.update({k: _other_json(table[k])})))
    for key in report["rounds"][-1]:
        if key != "seconds":
            yield Forgery(
                f"report: rounds[-1].{key}",
                _reported(lambda table, k=key: table["rounds"][-1].update({k: _other_json(table["rounds"][-1][k])})),
            )
    yield Forgery("report: one key more", _reported(lambda table: table.update(remark="all is well")))


def _reported(edit: Callable[[dict], None]) -> Callable[[Draft], None]:
    def edited(draft: Draft) -> None:
        draft.report = edit

    return edited


def _other_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {**value, "more": 1}
    if isinstance(value, list):
        return value[:-1] if value else [1]
    return 0.123 if value is None else f"{value}1" if isinstance(value, str) else value + 1


def of_blobs(kept: Kept) -> Iterator[Forgery]:
    """Other bytes behind each digest, recorded under a stranger's signature, and under the old one."""
    for place in samples(kept.tape):
        for name in ("digest", "model_digest", "metrics_digest"):
            if getattr(place.record, name, None) and type(place.record) in _BLOBS:
                for signer in (None, STRANGER):
                    who = "a stranger's signature" if signer else "the old signature"
                    yield Forgery(
                        f"blob of {type(place.record).__name__}.{name} under {who}",
                        lambda d, p=place, n=name, s=signer: _reblob(d, p, n, s),
                    )


_BLOBS = (RoundOpened, Shared, Committed, Released, Recovered, Closed)


def _reblob(draft: Draft, place: Place, name: str, signer: Any) -> None:
    data = draft.kept.store.fetch(getattr(place.record, name), LIMIT)
    middle = len(data) // 2
    forged = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    draft.tape.change(place, signer, **{name: draft.put(forged)})


# --- whole histories --------------------------------------------------------------------------------------------------


def of_histories(kept: Kept) -> Iterator[Forgery]:
    """What takes more than one change."""
    yield Forgery("all of it by strangers", _by_strangers)
    for name in ("accuracy", "loss", "samples", "head"):
        for signer in (None, STRANGER):
            who = "a stranger" if signer else "nobody"
            yield Forgery(f"closing {name}, signed by {who}", lambda d, n=name, s=signer: _boast(d, n, s))
    yield Forgery("an update exchanged and the model summed anew", _exchanged_update)
    yield Forgery("another first model all through", _other_first_model)
    yield Forgery("a round more than the terms have", _one_round_more)
    if kept.tape.places(AbsenceRecorded):
        yield Forgery("absences left out", lambda d: d.tape.drop(d.tape.last(AbsenceRecorded)), True)


def _by_strangers(draft: Draft) -> None:
    """Every account's part is played by somebody without its key."""
    tape, senders = draft.tape, {}
    for call in draft.kept.history.transactions.values():
        senders.setdefault(call.sender, Account(keccak(text=call.sender)))
    accounts = iter(senders.values())
    for sheet in tape.sheets:
        for call in sheet.calls or ():
            call.sign(next(accounts, STRANGER), tape.deployment.chain_id)


def _boast(draft: Draft, name: str, signer: Any) -> None:
    place = draft.tape.last(Closed)
    metrics = Metrics.from_bytes(draft.kept.store.fetch(place.record.metrics_digest, LIMIT))
    boasts = {"accuracy": 0.999, "loss": 0.001, "samples": metrics.samples + 1, "head": None}
    forged = replace(metrics, **{name: boasts[name]})
    draft.tape.change(place, signer, metrics_digest=draft.put(forged.to_bytes()))


def _exchanged_update(draft: Draft) -> None:
    """Another client's masked update in one's place, and a model to go with it."""
    commits = draft.tape.places(Committed)[-2:]
    draft.tape.change(commits[0], STRANGER, digest=commits[1].record.digest)
    place = draft.tape.last(Closed)
    draft.tape.change(place, STRANGER, model_digest=_moved_model(draft, place.record.model_digest))


def _moved_model(draft: Draft, digest: bytes) -> bytes:
    """A model, or a state, that is a little different."""
    config = _config(draft)
    model = method_of(config).fetch_model(draft.kept.store, digest)
    if isinstance(model, dict):
        name = sorted(model)[0]
        model = {**model, name: np.nextafter(model[name], np.float32(9))}
        return draft.put(dump(model))
    data = dump(model)
    return draft.put(data[:-1] + bytes([data[-1] ^ 1]) if isinstance(model, KMeansState) else data + b" ")


def _config(draft: Draft):
    return fetch_method(draft.kept.store, draft.tape.first(RoundOpened).record.config_digest).config


def _other_first_model(draft: Draft) -> None:
    """The terms, the creation of the ledger and the opening name another model to begin with."""
    place, tape = draft.tape.first(RoundOpened), draft.tape
    digest = _moved_model(draft, place.record.model_digest)
    config = replace(_config(draft), start=StartSettings(digest.hex()))
    terms = draft.put(config.to_bytes())
    for each in tape.places(RoundOpened):
        tape.set_record(each, config_digest=terms)
    tape.set_record(tape.first(RoundOpened), model_digest=digest)
    tape.set_calldata(place, model_digest=digest)
    tape.call(place).sign(STRANGER, tape.deployment.chain_id)
    deployment = replace(tape.deployment, terms=replace(tape.deployment.terms, config=terms.hex(), model=digest.hex()))
    _restate(draft, deployment, True)


def _one_round_more(draft: Draft) -> None:
    """After the last round another one is opened, by somebody."""
    tape, inputs = draft.tape, draft.tape.last(RoundOpened)
    closed = tape.last(Closed).record
    call = copy.deepcopy(tape.call(inputs))
    tape.insert(len(tape.sheets) - 1, call)
    added = Place(len(tape.sheets) - 1, len(tape.sheets[-1].calls) - 1, inputs.log, inputs.record)
    here = tape.number(added)
    opened: Record = replace(
        inputs.record,
        round=closed.round + 1,
        model_digest=closed.model_digest,
        opened_at=here,
        seed_block=here + tape.deployment.settings.seed_delay,
    )
    tape.set_record(replace(added, record=opened))
    tape.set_calldata(added, model_digest=closed.model_digest)
    call.sign(STRANGER, tape.deployment.chain_id)
