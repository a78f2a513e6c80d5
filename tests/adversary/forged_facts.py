"""Forgeries around the records: headers, the deployment's facts, the report, the blobs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from typing import Any

from eth_utils import keccak

from fedgrove.chain.records import (
    Closed,
    Committed,
    Judged,
    LedgerFounded,
    RegistryFounded,
    Released,
    RoundOpened,
    Shared,
)
from fedgrove.chain.records.deployment import MEMBERSHIPS, Deployment, creation_data
from tests.adversary.forgery import LIMIT, Draft, Forgery, samples
from tests.adversary.forging import STRANGER, Place, other_value
from tests.adversary.kept_runs import Kept

HEADER_FIELDS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)


def of_headers(kept: Kept) -> Iterator[Forgery]:
    """Fields of headers, with all hashes down the chain made anew; and headers that contradict themselves."""
    end = len(kept.tape.sheets) - 1
    for where, block in (("an early block", end // 4), ("a late block", kept.tape.last(Closed).block - 1)):
        for number in HEADER_FIELDS:
            yield Forgery(f"header field {number} of {where}", lambda d, b=block, n=number: break_header(d, b, n), True)
    late = kept.tape.last(Committed).block
    yield Forgery("a header with a false hash", lambda d: setattr(d.tape.sheets[late], "claimed", keccak(b"")))
    yield Forgery("a block whose body is left out", lambda d: _bare(d, late))


def break_header(draft: Draft, block: int, number: int) -> None:
    draft.tape.sheets[block].breaks = number


def _bare(draft: Draft, block: int) -> None:
    draft.tape.sheets[block].bare = True


def of_facts(kept: Kept) -> Iterator[Forgery]:
    """The deployment's facts in the first line, alone and in the creation transactions, too."""
    for name, changed in _other_deployments(kept.history.deployment):
        yield Forgery(f"first line: {name}", lambda d, c=changed: restate(d, c, False))
        yield Forgery(f"first line and creation: {name}", lambda d, c=changed: restate(d, c, True))


def _other_deployments(deployment: Deployment) -> Iterator[tuple[str, Deployment]]:
    for name in (each.name for each in fields(Deployment)):
        value = getattr(deployment, name)
        if name in ("settings", "terms"):
            for part in (each.name for each in fields(value)):
                other = _other_term(part, getattr(value, part), asdict(value))
                changed = {**_needed_beside(part, value), part: other}
                yield f"{name}.{part}", replace(deployment, **{name: replace(value, **changed)})
        else:
            modes = [mode for mode in MEMBERSHIPS if mode != value]
            other = modes[0] if name == "membership" else other_value(value)
            yield name, replace(deployment, **{name: other})


def _needed_beside(part: str, settings: Any) -> dict[str, int]:
    """Settings that a changed one needs: none of what bounds need is there without the windows."""
    windows = ("vouch_window", "affirm_window")
    return {name: getattr(settings, name) or 1 for name in windows} if part in (*windows, "stages") else {}


def _other_term(name: str, value: Any, beside: dict) -> Any:
    if name in ("config", "model"):
        return "ab" * 32
    if name == "rates":
        return ((1, 999_999),)
    if name in ("quorum", "releases", "judges", "coordinator_grace"):
        return value - 1
    return other_value(value) if value != beside.get("max_clients") else value - 1


def restate(draft: Draft, deployment: Deployment, created: bool) -> None:
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


_BLOBS = (RoundOpened, Shared, Committed, Released, Closed, Judged)


def _reblob(draft: Draft, place: Place, name: str, signer: Any) -> None:
    data = draft.kept.store.fetch(getattr(place.record, name), LIMIT)
    middle = len(data) // 2
    forged = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    draft.tape.change(place, signer, **{name: draft.put(forged)})
