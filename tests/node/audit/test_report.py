"""The report: every record has a call, and a member's oversized blob is counted, not an error."""

from fedgrove.chain.records.events import LEDGER_EVENTS, REGISTRY_EVENTS
from fedgrove.node.audit.report import CALLS, build_report


def test_every_kind_of_record_belongs_to_a_call():
    kinds = {*LEDGER_EVENTS.values(), *REGISTRY_EVENTS.values()}
    assert {getattr(kind, "record", kind) for kind in kinds} == set(CALLS)


def test_the_report_follows_from_history_and_store(run):
    seconds = {each["round"]: each["seconds"] for each in run.report["rounds"]}
    again = build_report(run.history, run.store, seconds)
    assert all(run.report[key] == value for key, value in again.items())
