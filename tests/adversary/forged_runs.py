"""Forgeries of a whole history, which take more than one change."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from eth_utils import keccak

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.records import (
    Closed,
    Committed,
    Judged,
    Record,
    RoundOpened,
)
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.terms import fetch_method, method_of
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.terms import StartSettings
from tests.adversary.forged_facts import restate
from tests.adversary.forgery import LIMIT, Draft, Forgery
from tests.adversary.forging import STRANGER, Place
from tests.adversary.kept_runs import Kept


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
    if kept.tape.places(Judged):
        yield Forgery("judgements left out", lambda d: d.tape.drop(d.tape.last(Judged)), True)


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
    forged = metrics.replace(**{name: boasts[name]})
    draft.tape.change(place, signer, metrics_digest=draft.put(forged.to_bytes()))


def _exchanged_update(draft: Draft) -> None:
    """Another client's masked update in one's place, and a model to go with it."""
    commits = draft.tape.places(Committed)[-2:]
    draft.tape.change(commits[0], STRANGER, digest=commits[1].record.digest)
    place = draft.tape.last(Closed)
    draft.tape.change(place, STRANGER, model_digest=_moved_model(draft, place.record.model_digest))


def _moved_model(draft: Draft, digest: bytes) -> bytes:
    """A model, or a state, that is a little different."""
    method = method_of(_config(draft))
    model = method.fetch_model(draft.kept.store, digest)
    if isinstance(model, dict):
        name = sorted(model)[0]
        return draft.put(method.model_bytes({**model, name: np.nextafter(model[name], np.float32(9))}))
    data = method.model_bytes(model)
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
    restate(draft, deployment, True)


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
