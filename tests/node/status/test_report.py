"""The report: every record has a call, and a member's oversized blob is counted, not an error."""

from fedgrove.chain.records import (
    KINDS,
    DrawEnded,
    LedgerFounded,
    RegistryFounded,
    VrfKeyRotated,
)
from fedgrove.node.status.report import build_report, call_of


def test_every_kind_of_record_belongs_to_a_call():
    founded = {RegistryFounded, LedgerFounded}
    for kind in KINDS:
        assert (call_of(kind) == "deploy") == (kind in founded)
    assert (call_of(VrfKeyRotated), call_of(DrawEnded)) == ("rotate_vrf_key", "draw")


def test_the_report_follows_from_history_and_store(run):
    seconds = {each["round"]: each["seconds"] for each in run.report["rounds"]}
    again = build_report(run.history, run.store, seconds)
    assert all(run.report[key] == value for key, value in again.items())
