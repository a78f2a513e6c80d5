"""A verifier that leaves out one of its steps: each time a forgery is verified that the whole one refuses.

The numbers are those of ``node.audit.auditor``. The forgers are strangers, or members and the coordinator with their
own keys, where only that shows what a step is for.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedgrove.chain.network import block_rlp, blocks, history
from fedgrove.chain.network.block_rlp import DecodedReceipt
from fedgrove.chain.records import Closed, Drawn, LedgerFounded, Record, Released, Withdrawn, authors, events
from fedgrove.chain.records.abi import decode_abi
from fedgrove.common.wire import canonical_json
from fedgrove.node.audit import archive, content
from fedgrove.node.audit.archive import LEDGER, REPORT, audit_directory, seal_archive
from fedgrove.node.audit.content import ContentRules
from fedgrove.node.audit.pins import Pins
from fedgrove.node.base.tensors import dump
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol import law, policy
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.spending import Spending
from tests.adversary.forged_facts import break_header
from tests.adversary.forged_transactions import logs_twice, padded_log, without_logs
from tests.adversary.forgery import LIMIT, Draft
from tests.adversary.forging import STRANGER, other_value
from tests.adversary.kept_runs import DELTA, TRAINING, Kept, forged_run, kept

Edit = Callable[[Draft], None]
Mutate = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """A step left out, and what is verified then; ``field`` is what the whole verifier names."""

    step: str
    mutate: Mutate
    forge: Edit
    field: str
    words: str = ""
    spoil: Callable[[Path], None] = lambda directory: None


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Kept:
    """Three clients, one round, whose closing nobody confirms; when it has closed, a member takes points back."""

    def hold(made) -> None:
        coordinator, clients = made.coordinator(), made.clients()
        while len(made.of(Released)) < len(clients):
            made.turn(coordinator, clients)
        while not made.of(Closed):
            made.turn(coordinator, {})
        made.ledger(made.keys[0]).withdraw(1, b"\5" * 32)

    return kept("weights", tmp_path_factory.mktemp("weights"), 3, 1, hold)


# --- forgers ----------------------------------------------------------------------------------------------------------


def closing(signer: Callable[[Kept], object], calldata: bool = True, **changes) -> Edit:
    """The last closing with other metrics; signed by somebody, or in the log alone."""

    def edit(draft: Draft) -> None:
        place = draft.tape.last(Closed)
        metrics = Metrics.from_bytes(draft.kept.store.fetch(place.record.metrics_digest, LIMIT))
        digest = draft.put(metrics.replace(**changes).to_bytes())
        if calldata:
            draft.tape.change(place, signer(draft.kept), metrics_digest=digest)
        else:
            draft.tape.set_record(place, metrics_digest=digest)

    return edit


def coordinator(kept: Kept):
    return kept.coordinator


def member(kept: Kept):
    return kept.members[1]


def stranger(kept: Kept):
    return STRANGER


def signed_elsewhere(**where) -> Edit:
    """The coordinator closes in a transaction to another contract, or for another chain."""

    def edit(draft: Draft) -> None:
        call, chain_id = draft.tape.call(draft.tape.last(Closed)), draft.tape.deployment.chain_id
        if "to" in where:
            call.to = where["to"]
        else:
            call.fields[0], chain_id = b"\7", 7
        call.sign(draft.kept.coordinator, chain_id)

    return edit


def another_model(draft: Draft) -> None:
    """The coordinator closes with a model that is not the sum."""
    place = draft.tape.last(Closed)
    draft.tape.change(place, draft.kept.coordinator, model_digest=draft.put(lie_of(draft.kept)))


def lie_of(kept: Kept) -> bytes:
    place = kept.tape.last(Closed)
    opened = next(record for record in kept.history.records() if hasattr(record, "config_digest"))
    method = fetch_method(kept.store, opened.config_digest)
    model = method.fetch_model(kept.store, place.record.model_digest)
    name = sorted(model)[0]
    return dump({**model, name: np.nextafter(model[name], np.float32(9))})


def of_call(change: Callable) -> Edit:
    """Change the transaction of the withdrawal, which nothing follows."""
    return lambda draft: change(draft.tape.call(draft.tape.last(Withdrawn)), draft)


def failed(call, draft) -> None:
    call.status = b""


def twice(draft: Draft) -> None:
    place = draft.tape.last(Withdrawn)
    draft.tape.insert(place.block, draft.tape.copy().call(place))


def without_release(draft: Draft) -> None:
    draft.tape.drop(draft.tape.last(Released))


def false_release(draft: Draft) -> None:
    """A stranger releases in a member's name, and the history ends there."""
    place = draft.tape.last(Released)
    draft.tape.call(place).sign(STRANGER, draft.tape.deployment.chain_id)
    draft.tape.cut(draft.tape.number(place))


def false_proof(draft: Draft) -> None:
    place = draft.tape.last(Drawn)
    draft.tape.set_record(place, proof=other_value(place.record.proof))
    draft.tape.cut(draft.tape.number(place))


def another_coordinator(draft: Draft) -> None:
    """Nothing but the founding, with another coordinator in the first line."""
    tape = draft.tape
    tape.cut(tape.number(tape.first(LedgerFounded)))
    tape.deployment = replace(tape.deployment, coordinator=STRANGER.address)


def false_header(draft: Draft) -> None:
    sheet, block = draft.tape.sheets[5], draft.kept.history.blocks[5]
    sheet.breaks, sheet.claimed = 2, block.hash


def last_header(number: int) -> Edit:
    return lambda draft: break_header(draft, len(draft.tape.sheets) - 1, number)


def bare(draft: Draft) -> None:
    draft.tape.sheets[-1].bare = True


def boasting_report(draft: Draft) -> None:
    draft.report = lambda table: table["rounds"][0].update(accuracy=1.0)


def honest(draft: Draft) -> None:
    pass


def with_spaces(directory: Path) -> None:
    path = directory / LEDGER
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(first.replace(",", ", ") + "".join(rest))
    seal_archive(directory)


def with_a_letter(directory: Path) -> None:
    (directory / "letter.txt").write_text("believe this")
    seal_archive(directory)


def after_the_manifest(directory: Path) -> None:
    table = json.loads((directory / REPORT).read_bytes())
    table["rounds"][0]["seconds"] += 1  # what nothing else of the history says
    (directory / REPORT).write_text(json.dumps(table))


# --- steps left out ---------------------------------------------------------------------------------------------------


def patched(target: object, name: str, value: object) -> Mutate:
    return lambda patch: patch.setattr(target, name, value)


def unhashed_header(number, block, parent, addresses) -> None:
    if block.body is not None:
        blocks.check_body(number, block.header, block.body)


def unlinked_header(number, header, parent):
    return blocks.header_fields(number, header)


def any_chain(patch: pytest.MonkeyPatch) -> None:
    decoded = blocks.decoded_transaction
    patch.setattr(blocks, "decoded_transaction", lambda number, raw: replace(decoded(number, raw), chain_id=None))


def any_contract(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(blocks, "author_of", lambda record, signed, deployment, item: signed.sender)
    patch.setattr(blocks, "incomplete", lambda *call: "")


def any_status(patch: pytest.MonkeyPatch) -> None:
    decoded = block_rlp.decode_receipt

    def succeeded(encoded: bytes) -> DecodedReceipt:
        return replace(decoded(encoded), succeeded=True)

    patch.setattr(blocks, "decode_receipt", succeeded)


def sum_is_what_is_said(patch: pytest.MonkeyPatch) -> None:
    outcome = content.outcome

    def said(method, number, record):
        right = outcome(method, number, record)
        name = sorted(right.model)[0]
        return replace(right, model={**right.model, name: np.nextafter(right.model[name], np.float32(9))})

    patch.setattr(content, "outcome", said)


def any_file(patch: pytest.MonkeyPatch) -> None:
    def found(directory: Path) -> dict[str, int]:
        names = (path for path in directory.rglob("*") if path.is_file())
        return {str(path.relative_to(directory)): path.stat().st_size for path in names}

    patch.setattr(archive, "run_files", found)
    patch.setattr(archive, "files_to_seal", lambda directory: sorted(set(found(directory)) - {archive.MANIFEST}))


def nothing(*arguments) -> None:
    return None


def whoever_signed(rules: Law, record):
    return rules.rounds.members.get(record.client)


BOAST = {"accuracy": 0.999, "loss": 0.001}
LEAVES = patched(blocks, "incomplete", lambda *call: "")


def any_form(kind, file, number):
    """Read a line of a history however it is written."""
    return kind.from_bytes(canonical_json(json.loads(file.readline())))


COORDINATOR = patched(Law, "_check_coordinator", lambda *record: True)
MUTANTS = [
    Mutant(
        "(0) canonical lines",
        patched(history, "_read", any_form),
        honest,
        "ledger",
        "cannot be read",
        with_spaces,
    ),
    Mutant("(1) hashes", patched(history, "check_block", unhashed_header), false_header, "ledger", "hash it claims"),
    Mutant("(1) links", patched(blocks, "check_header", unlinked_header), last_header(0), "ledger", "its parent hash"),
    Mutant("(2) roots", patched(blocks, "check_body", nothing), last_header(5), "ledger", "receipts do not hash"),
    Mutant("(2) bodies", patched(blocks, "may_hold_records", lambda *block: False), bare, "ledger", "are missing"),
    Mutant("(3) form", patched(events, "_decode_exactly", decode_abi), of_call(padded_log), "ledger", "canonical"),
    Mutant("(4) effect", any_status, of_call(failed), "ledger", "transaction that failed"),
    Mutant("(4) chain", any_chain, signed_elsewhere(), "ledger", "signed for another chain"),
    Mutant(
        "(4) contract",
        any_contract,
        signed_elsewhere(to=b"\7" * 20),
        "ledger",
        "calls another contract",
    ),
    Mutant(
        "(4) calldata",
        patched(Record, "is_argument_of", lambda *said: True),
        closing(coordinator, calldata=False, **BOAST),
        "ledger",
        "calldata differs from the record",
    ),
    Mutant(
        "(4) creation",
        patched(authors, "_founder", lambda record, signed, deployment: signed.sender),
        another_coordinator,
        "ledger",
        "does not create the",
    ),
    Mutant("(4) once", patched(history, "_check_nonce", nothing), twice, "ledger", "appears twice"),
    Mutant(
        "(4) records left out",
        LEAVES,
        of_call(without_logs),
        "ledger",
        "did not leave",
    ),
    Mutant(
        "(4) records made up",
        LEAVES,
        of_call(logs_twice),
        "ledger",
        "not leave",
    ),
    Mutant("(5) member", patched(Law, "_check_author", whoever_signed), false_release, "release.author"),
    Mutant(
        "(5) coordinator",
        COORDINATOR,
        closing(stranger, **BOAST),
        "closed.author",
    ),
    Mutant(
        "(5) grace",
        COORDINATOR,
        closing(member, **BOAST),
        "closed.author",
        "grace",
    ),
    Mutant("(5) proof", patched(law, "_check_proof", lambda *proof: bytes(32)), false_proof, "draw.proof"),
    Mutant("(6) blobs", patched(ContentRules, "_closed", nothing), closing(coordinator, round=2), "closed.metrics"),
    Mutant(
        "(6) the block that a closing names",
        patched(policy, "head_fault", lambda *closing: ""),
        without_release,
        "closed.metrics",
        "a hash that block",
    ),
    Mutant("(7) the sum", sum_is_what_is_said, another_model, "closed.model", "bit for bit"),
    Mutant("(9) report", patched(archive, "_check_report", nothing), boasting_report, "report.json: rounds"),
    Mutant("(9) files", any_file, honest, "file letter.txt", "a run does not write this file", with_a_letter),
    Mutant(
        "(9) manifest", patched(archive, "_check_manifest", nothing), honest, "file report.json", "", after_the_manifest
    ),
]


def delivered(run: Kept, mutant: Mutant, target: Path) -> Path:
    draft = Draft(run, run.tape)
    mutant.forge(draft)
    forged_run(run, target, draft.tape.encode(), draft.blobs, draft.report)
    mutant.spoil(target)
    return target


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.step)
def test_without_a_step_a_forgery_is_verified_that_the_whole_verifier_refuses(run, tmp_path, monkeypatch, mutant):
    verdict = audit_directory(delivered(run, mutant, tmp_path / "refused"))
    assert verdict.verdict == "bad record"
    assert verdict.first_bad_record.field == mutant.field and mutant.words in verdict.reason, verdict.reason
    mutant.mutate(monkeypatch)
    # The forger's report is made by the same library, so that it fits what the mutant reads.
    verdict = audit_directory(delivered(run, mutant, tmp_path / "verified"))
    assert verdict.verdict in ("verified", "consistent, no round closed"), verdict.reason


def one_drops_out(made) -> None:
    """The noise of the last client is missing, and everybody goes on."""
    coordinator, clients = made.coordinator(), made.clients()
    while made.turn(coordinator, clients):
        if made.said("client 5")[-1:] == ["shared"]:
            clients.pop(5, None)


@pytest.mark.mutants
def test_without_step_8_a_history_is_verified_that_exceeds_a_budget(tmp_path, monkeypatch):
    """The coordinator and the members go on where the noise that is left costs more than the budget."""
    terms = {"masking": DELTA, "privacy": ClientLevelSettings(epsilon=3.3, delta=1e-3, clip=0.5)}
    monkeypatch.setitem(TRAINING, "overspent", terms)
    with monkeypatch.context() as patch:
        patch.setattr(Spending, "overspent", lambda *spending: "")
        run = kept("overspent", tmp_path, 5, 1, one_drops_out)
        assert audit_directory(run.directory).verdict == "verified"
    verdict = audit_directory(run.directory)
    assert verdict.verdict == "bad record" and verdict.first_bad_record.field == "closed.privacy", verdict.reason


@pytest.mark.mutants
def test_without_step_10_a_history_is_verified_that_lacks_its_end(run, tmp_path, monkeypatch):
    pins = Pins(heads=((run.history.head_block, run.history.block_hash(run.history.head_block)),))
    tape = run.tape
    tape.cut(run.history.head_block - 1)
    cut = forged_run(run, tmp_path / "cut", tape.encode())
    assert audit_directory(cut, pins=pins).first_bad_record.field == "pinned head"
    monkeypatch.setattr(Pins, "check", lambda *pins: ())
    assert audit_directory(cut, pins=pins).verdict == "verified"
