"""Histories and files that are odd: lawful ones are verified, hostile ones get a verdict and no exception."""

import json
import shutil
from dataclasses import replace

import pytest

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import Approved, Registered, VrfKeyRotated
from fedgrove.node.audit.archive import MANIFEST, REPORT, audit_directory
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import Rounds

SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.fixture
def kept(run, tmp_path):
    shutil.copytree(run.directory, tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize("files", [["a"], 3])
def test_a_manifest_that_is_no_table_is_a_bad_record(kept, files):
    (kept / MANIFEST).write_text(json.dumps({"files": files}, indent=1, sort_keys=True) + "\n")
    assert audit_directory(kept).first_bad_record.field == MANIFEST


def test_a_manifest_in_another_order_is_a_bad_record(kept):
    listed = json.loads((kept / MANIFEST).read_bytes())["files"]
    (kept / MANIFEST).write_text(json.dumps({"files": dict(reversed(listed.items()))}, indent=1) + "\n")
    assert "canonical" in audit_directory(kept).reason


@pytest.mark.parametrize("seconds", ["soon", [1], 10**400])
def test_a_report_whose_times_are_no_numbers_is_a_bad_record(kept, seconds):
    report = json.loads((kept / REPORT).read_bytes())
    report["rounds"][0]["seconds"] = seconds
    (kept / REPORT).write_text(json.dumps(report))
    assert audit_directory(kept).first_bad_record.field == REPORT


def test_a_rotation_to_the_mirrored_key_is_lawful(run):
    """The registry tells keys apart by both coordinates, so the negated key is another key."""
    first = next(record for record in run.records if isinstance(record, Registered))
    secret = (12345).to_bytes(32, "big")
    mirrored = (SECP256K1_ORDER - 12345).to_bytes(32, "big")
    deployment = run.facts.deployment
    alpha = tree.registration_alpha(deployment.chain_id, deployment.registry, first.account)
    rounds = Rounds()
    rules = Law(run.facts, rounds)
    for founding in run.records[: run.records.index(first)]:
        rules.check(founding)
        rounds.add(founding)
    for key, rotated in ((secret, False), (mirrored, True)):
        x, y = vrf.coordinates(vrf.public_key(key))
        record = replace(first, vrf_x=x, vrf_y=y, proof=vrf.prove(key, alpha))
        if rotated:
            record = VrfKeyRotated(first.at, first.account, first.client, x, y, first.active_from, record.proof)
        rules.check(record)
        rounds.add(record)


def test_a_history_that_ends_before_what_its_last_record_brings_with_it_is_a_bad_record(run):
    approved = [place for place, record in enumerate(run.records) if isinstance(record, Approved)]
    assert len(approved) == 6
    for end in approved:
        found = Auditor(run.facts, run.records[:end], run.store).run()
        assert found.verdict == "bad record" and "ends without the record" in found.reason, end
    assert Auditor(run.facts, run.records[: approved[-1] + 1], run.store).run().holds
