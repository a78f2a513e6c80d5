"""Records and errors against the shipped ABIs, and logs that nobody should have written."""

import json
import re
import sys
from dataclasses import fields, replace

import pytest
from eth_abi import encode
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain import records
from fedgrove.chain.errors import _SENTENCES, BadHistory, artifact, decode_revert, error_name
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Log, Phase, Position, events
from fedgrove.chain.records.deployment import Deployment, LedgerSettings
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.wire import canonical_json
from tests.chain.federations import SETTINGS, TERMS

AT = Position(7, b"t" * 32, 2)
REGISTRY, LEDGER = "0x" + "11" * 20, "0x" + "22" * 20
DEPLOYED = Deployment(1, REGISTRY, LEDGER, 5, LEDGER, LEDGER, REGISTRY, "approved", (LEDGER,), 1, SETTINGS, TERMS)
TOPICS = sorted(events.EVENTS)
CONTRACTS = {
    contract: {topic: event for topic, event in events.EVENTS.items() if contract == event.record.CONTRACT}
    for contract in ("ClientRegistry", "TrainingLedger")
}


def abi(contract, kind):
    return [item for item in artifact(contract)["abi"] if item["type"] == kind]


def signature(item):
    return f"{item['name']}({','.join(parameter['type'] for parameter in item['inputs'])})"


def camel(name):
    return re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_event_of_the_abi_has_its_record(contract):
    known = CONTRACTS[contract]
    items = {keccak(text=signature(item)): item for item in abi(contract, "event")}
    assert set(items) == set(known)
    for topic, item in items.items():
        indexed = [parameter["type"] for parameter in item["inputs"] if parameter["indexed"]]
        assert tuple(indexed) == known[topic].indexed
        names = [camel(field.name) for field in fields(known[topic].record) if field.name != "at"]
        assert names == [parameter["name"] for parameter in item["inputs"]]


def test_every_error_of_the_abi_has_a_sentence():
    for contract in CONTRACTS:
        for item in abi(contract, "error"):
            if item["name"] in ("InvalidPoint",):
                continue
            selector = keccak(text=signature(item))[:4]
            samples = {"address": LEDGER, "bytes32": b"quorum".ljust(32, b"\0")}
            types = [parameter["type"] for parameter in item["inputs"]]
            data = selector + encode(types, [samples.get(kind, 3) for kind in types])
            error = decode_revert(data)
            assert error.name == item["name"] == error_name(selector)
            assert str(error).endswith(".")
            assert "{" not in str(error)
            assert list(error.arguments) == [parameter["name"] for parameter in item["inputs"]]


def test_no_sentence_is_of_an_error_that_no_longer_exists():
    names = {item["name"] for contract in CONTRACTS for item in abi(contract, "error")}
    assert set(_SENTENCES) <= names | {"PositionOutOfRange"}


def test_unknown_or_cut_revert_data_has_no_name():
    known = keccak(text="NotDrawn(uint64,address)")[:4]
    for data in (b"", b"\1\2\3", b"\xff" * 40, known, known + b"\0" * 31):
        assert decode_revert(data).name == ""
    assert error_name(b"\xff" * 4) == ""


def closed(**changes):
    topic = keccak(text="Closed(uint64,bytes32,bytes32)")
    log = Log(LEDGER, (topic, (5).to_bytes(32, "big")), b"m" * 32 + b"M" * 32, AT)
    return replace(log, **changes)


def test_a_log_is_decoded():
    assert events.decode(closed()) == records.Closed(AT, 5, b"m" * 32, b"M" * 32)
    assert events.decode_from(closed(), DEPLOYED).round == 5


def test_a_foreign_contract_or_event_is_refused():
    with pytest.raises(BadHistory, match="does not emit the event"):
        events.decode_from(closed(address=REGISTRY), DEPLOYED)
    with pytest.raises(BadHistory, match="does not emit the event"):
        events.decode_from(closed(address="0x" + "33" * 20), DEPLOYED)
    for topics in ((), (b"x" * 32,)):
        with pytest.raises(BadHistory):
            events.decode(closed(topics=topics))


@pytest.mark.parametrize(
    "changes",
    [
        {"data": b""},
        {"data": b"m" * 63},
        {"data": b"m" * 96},
        {"data": b"m" * 2000},
        {"topics": closed().topics[:1]},
        {"topics": (*closed().topics, b"x" * 32)},
        {"topics": (closed().topics[0], b"\xff" * 32)},
        {"topics": (closed().topics[0], b"\5")},
    ],
)
def test_a_malformed_log_is_refused(changes):
    with pytest.raises(BadHistory):
        events.decode(closed(**changes))


def drawn(proof, tail=b""):
    topic = keccak(text="Drawn(uint64,uint32,uint32,bytes32,bytes32,bytes)")
    data = encode(["uint32", "bytes32", "bytes32", "bytes"], [3, b"m" * 32, b"s" * 32, proof]) + tail
    return Log(LEDGER, (topic, (1).to_bytes(32, "big"), (2).to_bytes(32, "big")), data, AT)


def test_a_proof_of_another_length_is_refused():
    assert events.decode(drawn(b"p" * 81)).proof == b"p" * 81
    for log in (drawn(b"p" * 80), drawn(b"p" * 82), drawn(b""), drawn(b"p" * 81, b"\0" * 32)):
        with pytest.raises(BadHistory):
            events.decode(log)


def test_a_judgement_in_no_known_phase_is_refused():
    topic = keccak(text="Judged(uint64,uint32,uint8,bytes32,bytes32)")
    for asked, fine in ((8, True), (13, True), (14, False)):
        data = encode(["uint8", "bytes32", "bytes32"], [asked, b"m" * 32, b"M" * 32])
        log = Log(LEDGER, (topic, (1).to_bytes(32, "big"), (2).to_bytes(32, "big")), data, AT)
        if fine:
            assert events.decode(log).asked is Phase(asked)
        else:
            with pytest.raises(BadHistory):
                events.decode(log)


@given(
    st.binary(max_size=1100),
    st.lists(st.binary(min_size=32, max_size=32), max_size=4),
    st.sampled_from(range(len(events.EVENTS))),
)
def test_any_bytes_decode_or_are_refused(data, topics, event):
    topic = list(events.EVENTS)[event]
    try:
        events.decode(Log(LEDGER, (topic, *topics), data, AT))
    except BadHistory as fault:
        assert fault.block == 7 and "log 2" in str(fault)


def test_enumerations_are_those_of_the_interface():
    from pathlib import Path

    source = (Path(__file__).parents[3] / "contracts/interfaces/ITrainingLedger.sol").read_text()
    for kind in (Phase,):
        body = source.split(f"enum {kind.__name__} {{")[1].split("}")[0]
        names = [name.strip().lower() for name in body.split(",")]
        assert names == [member.name.lower().replace("_", "") for member in kind]


def test_a_deployment_survives_json():
    assert Deployment.from_json(DEPLOYED.to_json()) == DEPLOYED


@pytest.mark.parametrize(
    "change",
    [
        {"ledger": "0xabc"},
        {"block": -1},
        {"block": "5"},
        {"membership": "closed"},
        {"members": ["0xabc"]},
        {"extra": 1},
        {"settings": {}},
        {"settings": 3},
        {"settings": {"quorum": 0}},
        {"settings": {"randao": 1}},
        {"terms": 3},
        {"terms": {"config": "02" * 32, "model": "01" * 32}},
        {"terms": {"rates": [[1]]}},
        {"terms": {"rates": [[1, 2, 3]]}},
        {"terms": {"rates": 5}},
        {"terms": {"rates": {"1": 2}}},
        {"chain_id": 2**256},
    ],
)
def test_a_deployment_of_another_form_is_refused(change):
    table = json.loads(DEPLOYED.to_json())
    if change == {"settings": {}}:
        table["settings"].pop("quorum")
        table["settings"]["x"] = 1
    elif isinstance(change.get("terms"), dict) and "rates" in change["terms"]:
        table["terms"].update(change["terms"])
    else:
        table.update(change)
    assert Deployment.from_json(canonical_json(json.loads(DEPLOYED.to_json())).decode()) == DEPLOYED
    with pytest.raises(InvalidContent):
        Deployment.from_json(canonical_json(table).decode())


@pytest.mark.parametrize("change", [{"seed_delay": 0}, {"quorum": 9, "max_clients": 8}, {"draw_window": 65536},
                                    {"max_samples": True}, {"seal_window": 1.5}, {"releases": 4},
                                    {"recover_window": 79}])  # fmt: skip
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(InvalidInput, match=next(iter(change)).split("_")[0] + "|max_clients"):
        replace(LedgerSettings(), **change)


@pytest.mark.parametrize(
    "change",
    [
        {"config": "0" * 64},
        {"model": "AB" * 32},
        {"model": b"\1" * 32},
        {"rates": ()},
        {"rates": ((2, 5),)},
        {"rates": ((1, 0),)},
        {"rates": ((1, 1_000_001),)},
        {"rates": ((1, 5), (1, 6))},
        {"rates": ((1, 5), (3, 6), (2, 7))},
        {"rates": ((1, 5), (1 << 40, 6))},
        {"rates": tuple((number, 5) for number in range(1, 1002))},
        {"rates": ((1, 0.5),)},
        {"rates": ((True, 5),)},
        {"rounds": 0},
        {"rounds": 1 << 32},
        {"rounds": "1"},
        {"repeats": -1},
    ],
)
def test_terms_out_of_range_are_refused(change):
    with pytest.raises(InvalidInput, match=r"rate|config|model|rounds|repeats"):
        replace(TERMS, **change)


def test_the_rate_of_a_round_is_that_of_its_phase():
    terms = replace(TERMS, rates=((1, 10), (4, 20), (9, 30)))
    assert [terms.rate_of(number) for number in (1, 3, 4, 8, 9, 100)] == [10, 10, 20, 20, 30, 30]


def test_the_embedded_chain_leaves_the_recursion_limit_alone():
    before = sys.getrecursionlimit()
    embedded().close()
    assert sys.getrecursionlimit() == before
    with pytest.raises(RecursionError):
        json.loads("[" * 100_000)
