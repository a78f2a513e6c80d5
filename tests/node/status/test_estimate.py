"""An estimate comes true: within 3% of what federations on a real EVM pay, role by role."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import KINDS
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.status import gas
from fedgrove.node.status.costs import CostReader
from fedgrove.node.status.estimate import ETHER, Fees, estimate
from fedgrove.node.status.report import call_of, gas_table
from fedgrove_lab.bench import chain as bench
from tests.node.federation import Federation

ROOT = Path(__file__).resolve().parents[3]
TOLERANCE = 0.03
FLOOR_BLOCKS = 250
"""Empty blocks after which the embedded chain's base fee has fallen as low as it can, and stays there."""


@pytest.fixture(scope="module")
def terms():
    plan = scenario(clients=6, rounds=3, strategy="fedavg")
    return replace(terms_on(plan, load_dataset("digits"), b""), membership=MembershipSettings())


def test_the_figures_are_those_of_the_contracts_own_snapshot():
    measured = json.loads((ROOT / "tests/contracts/snapshots/transactions.json").read_text())
    named = {"share": gas.SHARE, "commit": gas.COMMIT, "last share": gas.SHARE + gas.LAST}
    named |= {"last commit": gas.COMMIT + gas.LAST, "draw with roots: 2": gas.DRAW}
    named |= {"open": gas.OPEN, "release": gas.RELEASE}
    named |= {f"order of {n}, for each client": gas.seal_gas(n, False) / n for n in (100, 1000)}
    assert {name: pytest.approx(int(measured[name]), rel=0.02) for name in named} == named
    # The number of roots in a proof varies, by 1,130 gas each.
    assert pytest.approx(int(measured["register"]), rel=TOLERANCE) == gas.REGISTER_OPEN


def test_a_demonstration_pays_what_was_estimated(tmp_path):
    plan = scenario(clients=6, rounds=3, strategy="fedavg")
    with embedded() as network:
        network.mine(FLOOR_BLOCKS)
        demo = Demo(plan, DatasetSubject(load_dataset("digits")), network, DiskStore(tmp_path / "store"))
        demo.run()
        fees = network.fees()
        costs = CostReader(network, Ledger(network, demo.founded)).read()
    found = estimate(terms_on(plan, load_dataset("digits"), b""), plan.cast.clients, plan.federation.rounds, 1.0)
    ether = found.to_dict(Fees(fees.base, fees.tip))["ether"]
    assert ether["whole"] * ETHER == pytest.approx(costs.whole(), rel=TOLERANCE)
    coordinator = demo.founded.coordinator
    theirs = (ether["coordinator"] + ether["founder"]) * ETHER
    assert theirs == pytest.approx(costs.whole(coordinator), rel=TOLERANCE)
    rounds = costs.rounds()
    assert list(rounds) == [1, 2, 3] and not costs.unknown
    assert ether["round"] * ETHER == pytest.approx(sum(rounds.values()) / 3, rel=TOLERANCE)


def test_each_call_uses_the_gas_that_was_estimated(terms, tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=6, rounds=2)
        made.register()
        made.run()
        history = made.history()
    used = gas_table(history.records(), history)
    found = estimate(made.config, 6, 2, 1.0)
    for each in found.calls:
        if each.times and each.call != "deploy":
            assert each.times == used[each.call]["count"], each.call
            assert each.gas == pytest.approx(used[each.call]["mean"], rel=TOLERANCE), each.call
    assert found.gas["founder"] == pytest.approx(2 * used["deploy"]["mean"], rel=TOLERANCE)
    assert {each.call for each in found.calls} <= set(map(call_of, KINDS))


def test_an_order_in_chunks_and_a_randao_order_cost_more():
    assert gas.seal_gas(1001, False) > 3 * gas.seal_gas(1000, False)
    assert gas.seal_gas(10, True) - gas.seal_gas(10, False) == gas.SEAL_RANDAO


def test_a_randao_order_uses_the_gas_that_was_estimated(monkeypatch):
    settings = LedgerSettings
    monkeypatch.setattr(bench, "LedgerSettings", lambda **windows: settings(**windows, randao=True))
    with embedded() as network:
        federation = bench._Bench(network, 5, lambda members, what: members)
        federation.register()
        federation.round()
    used = gas.seal_gas(5, True) + gas.SEAL_OF_ALL  # it is a first round of all members
    assert used == pytest.approx(federation.gas["seal"][0], rel=TOLERANCE)


def test_membership_by_approval_costs_the_admin(terms, tmp_path):
    approved = MembershipSettings("approved")
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=6, membership=approved)
        admin = made.ledger(made.coordinator_keys)
        costs = [admin.approve(*(keys.address for keys in made.keys)).gas_used]
        costs += [made.ledger(keys).register(keys).gas_used for keys in made.keys]
    calls = {each.call: each for each in estimate(made.config, 6, 1, 1.0).calls}
    assert calls["approve"].role == "admin"
    assert calls["approve"].whole + calls["register"].whole == pytest.approx(sum(costs), rel=TOLERANCE)
    assert estimate(terms, 6, 1, 1.0).gas["admin"] == 0


def test_a_sample_of_the_members_costs_in_proportion(terms):
    sampled = replace(terms, federation=FederationSettings(rounds=100, sampling_rate=0.1))
    all_of, some = (estimate(each, 200, 100, 1.0) for each in (replace(terms, ledger=LedgerSettings()), sampled))
    assert some.drawn == 6  # as many as a round takes under these terms
    assert estimate(replace(sampled, ledger=LedgerSettings()), 200, 100, 1.0).drawn == 20
    assert some.gas["member"] < all_of.gas["member"] / 10
    assert some.gas["whole"] == pytest.approx(sum(each.times * each.gas for each in some.calls))


def test_a_round_takes_at_least_a_block_a_step_and_at_most_its_windows(terms):
    span, settings = estimate(terms, 6, 1, 12.0).span, terms.ledger
    draw = settings.seed_delay + 1
    seal = draw + settings.order_delay + 1
    ended = Deadlines.of(0, settings, Ends(draw, seal, seal + 1, seal + 2))
    assert span.least == ended.commit_end + 2  # the releases, and the closing
    assert span.most == Deadlines.of(0, settings, Ends()).recover_end
    assert span.to_dict()["least_seconds"] == 12 * span.least
    slots = replace(terms, federation=FederationSettings(commit_slots=4))
    assert estimate(slots, 6, 1, 12.0).span.least == span.least + settings.commit_window // 5  # the first one's end
    sampled = replace(terms, federation=FederationSettings(sampling_rate=0.5))
    assert estimate(sampled, 6, 1, 12.0).span.least == span.least + settings.draw_window - 1
