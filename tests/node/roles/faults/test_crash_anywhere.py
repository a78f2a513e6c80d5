"""kill -9 at every named step: it goes on, nothing is lost that the ledger does not explain, no client tells too much.

In the first two rounds of the campaign every step of an undisturbed round is somebody's last; in round 3 nobody draws,
in round 4 nobody commits, in round 5 the coordinator lies, and in the first round after that which counts one client
does not commit. The plan is drawn from a seed.
"""

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from fedgrove.chain.records import Closed, Failed, FailureReason, Skipped
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.status.participation import fate
from tests.node.roles.faults.world import Liar, World, passed

SEED = 1
CLIENTS, ROUNDS = 4, 7

TRANSACTION = ("before", "sent", "confirmed")
BLOB = ("before", "written", "renamed", "stored")
RECORD = ("before", "written", "renamed", "after")
KEYS = ("before", "written", "after")


def every(kind, names, moments):
    return [f"{kind} {name}: {moment}" for name in names for moment in moments]


REGISTRATION = every("transaction", ["register"], TRANSACTION)
CLIENT_STEPS = [
    *every("record", ["secrets", "order", "summed", "committed"], RECORD),
    *every("record", ["shares", "state", "update", "masked", "released", "begun", "federation"], RECORD),
    *every("record", ["made shares", "made masked", "made released"], RECORD),
    *every("transaction", ["draw", "share", "commit", "release"], TRANSACTION),
    *every("blob", ["shares", "masked update", "release"], BLOB),
    *("destruction: before", "destruction: half", "destruction: after"),
    *every("key of", ["round", "state", "kept"], KEYS),
    *every("destruction", ["of keys"], KEYS),
]
COORDINATOR_STEPS = [
    *every("blob", ["initial model", "config", "recovery", "model", "metrics"], BLOB),
    *every("transaction", ["open", "fixSeed", "seal", "recover", "close"], TRANSACTION),
]
DISPUTE = [*every("blob", ["evidence"], BLOB), *every("transaction", ["disputeRound"], TRANSACTION)]
SKIPPING = every("transaction", ["skip"], TRANSACTION)
REPORTING = every("transaction", ["reportAbsences"], TRANSACTION)
FAILING = [*every("blob", ["evidence"], BLOB), *every("transaction", ["fail"], TRANSACTION)]


def begin(world):
    """Members register one after the other, and the coordinator fixes the first seed before anybody can draw."""
    for name in world.clients:
        world.run([name], until=lambda name=name: world.past(name, "transaction register: confirmed"))
    world.kill(*world.clients)
    world.run(["coordinator"], until=lambda: world.past("coordinator", "transaction fixSeed: confirmed"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Two rounds of a federation in which nobody is killed, and the steps that client 1 and the coordinator passed."""
    with World(tmp_path_factory.mktemp("undisturbed"), CLIENTS, ROUNDS) as world:
        begin(world)
        world.run(until=lambda: len(world.models()) == 2)
        yield world.models(), passed(world.steps("client-1")), passed(world.steps("coordinator"))


def test_the_injector_knows_every_step_of_an_undisturbed_federation(undisturbed):
    """A new transaction, blob or record must be added to the campaign."""
    _, client, coordinator = undisturbed
    assert sorted(client) == sorted(REGISTRATION + CLIENT_STEPS)
    assert sorted(coordinator) == sorted(COORDINATOR_STEPS)


@dataclass(frozen=True)
class Campaign:
    """What a federation left behind whose every step was somebody's last."""

    deaths: list[tuple[str, str]]
    models: dict[int, bytes]
    rounds: Rounds
    verdict: Verdict
    violations: list[str]
    unpinned: list[str]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    with World(tmp_path_factory.mktemp("campaign"), CLIENTS, ROUNDS, SEED) as world:
        wage(world)
        deaths = [(role.name, step) for role in world.roles.values() for step in role.deaths]
        rounds, pins = world.rounds(), world.root / "store" / "pins"
        published = [commit.digest.hex() for number in (1, 2) for commit in rounds.rounds[number].commits.values()]
        unpinned = [digest for digest in published if not (pins / digest).exists()]
        yield Campaign(deaths, world.models(), rounds, world.federation.audit(), world.violations(), unpinned)


def plan(clients):
    """Which client is killed where: each step of a round is dealt to one of them."""
    chance = random.Random(SEED)
    kills = {name: Counter(REGISTRATION) for name in clients}
    # Once a commitment is confirmed, nothing of it is done again: a client dies there once in each of two rounds.
    committing = [step for step in CLIENT_STEPS if "commit" in step and not step.endswith("commit: before")]
    hands = chance.sample(clients * 2, 2 * len(clients))
    # What a journal begins with is written once: nobody dies there a second time.
    beginning = dict(zip(["record begun: renamed", "record begun: after"], chance.sample(clients, 2), strict=True))
    for step in CLIENT_STEPS:
        kills[hands.pop() if step in committing else beginning.get(step) or chance.choice(clients)][step] += 1
    kills[chance.choice(clients)].update(DISPUTE)
    return kills


def wage(world):
    """The campaign, to the end of the federation."""
    for name, kills in plan(world.clients).items():
        world.roles[name].kills += kills
    coordinator = world.roles["coordinator"]
    coordinator.kills.update([*COORDINATOR_STEPS, *SKIPPING, *FAILING, *REPORTING])
    begin(world)
    world.run(until=lambda: len(world.models()) == 2 and not coordinator.kills["transaction close: confirmed"])
    world.kill(*world.roles)
    # Nobody draws in round 3.
    world.run(["coordinator"], until=lambda: world.latest.number == 3)
    world.skip_to("draw_end")
    world.run(["coordinator"], until=lambda: world.latest.number == 4)
    # Nobody commits in round 4.
    world.run(until=lambda: len(world.latest.shares) == CLIENTS)
    world.silence(*world.clients)
    world.skip_to("commit_end")
    world.run(["coordinator"], until=lambda: world.latest.number == 5)
    # The coordinator lies in round 5, which voids round 6, too, if it is open by then.
    world.kill("coordinator")
    coordinator.kind = Liar
    world.run(until=lambda: world.latest.recovered is not None)
    world.kill(*world.clients)
    world.run(["coordinator"], until=lambda: isinstance(world.latest.end, Closed))
    world.kill("coordinator")
    coordinator.kind = Coordinator
    # Evidence that is in the store is not written again, so this one finds the lie first.
    finder = next(role for role in world.roles.values() if role.kills["transaction disputeRound: sent"])
    world.run([finder.name], until=lambda: not finder.kills["transaction disputeRound: confirmed"])
    # One client does not commit in the round that follows.
    away, *others = world.clients
    world.run(until=lambda: has_shared_after_a_void(world.rounds(), world.federation.keys[0].address))
    world.silence(away)
    there = ["coordinator", *others]
    world.run(there, until=lambda: len(world.latest.commits) == CLIENTS - 1)
    world.skip_to("commit_end")
    world.run(until=lambda: not coordinator.kills["transaction reportAbsences: confirmed"])
    world.run()


def has_shared_after_a_void(rounds, account):
    voided = [each.voided.at.block for each in rounds.rounds.values() if each.voided]
    fresh = voided and rounds.latest.opened.opened_at > max(voided)
    return fresh and rounds.member(account).client in rounds.latest.shares


def test_every_step_was_the_last_of_somebody(campaign):
    client = Counter(step for name, step in campaign.deaths if name != "coordinator")
    coordinator = Counter(step for name, step in campaign.deaths if name == "coordinator")
    assert client.keys() >= {*REGISTRATION, *CLIENT_STEPS, *DISPUTE}
    assert coordinator.keys() >= {*COORDINATOR_STEPS, *SKIPPING, *FAILING, *REPORTING}
    assert len(campaign.deaths) >= 100


def test_training_went_on_as_if_nothing_had_happened(campaign, undisturbed):
    expected, _, _ = undisturbed
    assert {number: campaign.models[number] for number in (1, 2)} == expected


def test_a_round_that_left_no_model_has_its_reason_on_the_ledger(campaign):
    ends = [type(each.end) for each in campaign.rounds.rounds.values()]
    assert ends[:5] == [Closed, Closed, Skipped, Failed, Closed]
    assert campaign.rounds.rounds[4].end.reason == FailureReason.TOO_FEW_SURVIVORS
    assert not campaign.rounds.rounds[5].stands
    assert all(fate(each) for each in campaign.rounds.rounds.values() if not each.stands)


def test_who_did_not_commit_is_on_the_ledger_where_the_round_closed(campaign):
    (each,) = (each for each in campaign.rounds.rounds.values() if each.absences)
    assert set(each.absences) == set(each.order) - set(each.commits) and len(each.absences) == 1


def test_the_history_is_verified(campaign):
    assert campaign.verdict.verdict == "verified", campaign.verdict


def test_whoever_was_killed_while_publishing_pinned_it_in_another_life(campaign):
    assert campaign.unpinned == []


def test_no_client_told_too_much(campaign):
    assert campaign.violations == []
