"""kill -9 at every named step: it goes on, nothing is lost that the ledger does not explain, no client tells too much.

In the first two rounds of the campaign every step of an undisturbed round is somebody's last; in round 3 nobody draws,
in round 4 nobody commits, in round 5 the coordinator lies, so that a member stands by from then on, and one client
sleeps through round 6. The plan is drawn from a seed.
"""

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from fedgrove.chain.records import Closed, Failed, Skipped
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.participation import fate
from tests.node.roles.faults.world import Liar, World, passed

SEED = 1
CLIENTS, ROUNDS = 4, 6

TRANSACTION = ("before", "sent", "confirmed")
BLOB = ("before", "written", "renamed", "stored")
RECORD = ("before", "written", "renamed", "after")
KEYS = ("before", "written", "after")


def every(kind, names, moments):
    return [f"{kind} {name}: {moment}" for name in names for moment in moments]


REGISTRATION = every("transaction", ["register"], TRANSACTION)
CLIENT_STEPS = [
    *every("record", ["secrets", "order", "summed", "committed"], RECORD),
    *every("record", ["shares", "state", "update", "masked", "released", "begun", "weight", "federation"], RECORD),
    *every("record", ["made shares", "made masked", "made released"], RECORD),
    *every("transaction", ["draw", "share", "commit", "release"], TRANSACTION),
    *every("blob", ["shares", "masked update", "release"], BLOB),
    *("destruction: before", "destruction: half", "destruction: after"),
    *every("key of", ["round", "state", "kept"], KEYS),
    *every("destruction", ["of keys"], KEYS),
    *every("record", ["releases"], RECORD),
]
COORDINATOR_STEPS = [
    *every("blob", ["initial model", "config", "recovery", "model", "metrics"], BLOB),
    *every("transaction", ["open", "fixSeed", "seal", "close"], TRANSACTION),
]
JUDGING = [*every("blob", ["model", "metrics"], BLOB), *every("transaction", ["judge"], TRANSACTION)]
RESUMING = every("transaction", ["resume"], TRANSACTION)
SKIPPING = every("transaction", ["skip"], TRANSACTION)
FAILING = every("transaction", ["fail"], TRANSACTION)


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
    beginning = {
        f"record {name}: {moment}": client
        for name in ("begun", "weight")
        for moment, client in zip(("renamed", "after"), chance.sample(clients, 2), strict=True)
    }
    for step in CLIENT_STEPS:
        kills[hands.pop() if step in committing else beginning.get(step) or chance.choice(clients)][step] += 1
    kills[chance.choice(clients)].update(JUDGING)
    return kills


def wage(world):
    """The campaign, to the end of the federation."""
    for name, kills in plan(world.clients).items():
        world.roles[name].kills += kills
    coordinator = world.roles["coordinator"]
    coordinator.kills.update([*COORDINATOR_STEPS, *SKIPPING, *FAILING])
    begin(world)
    world.run(until=lambda: len(world.models()) == 2 and not coordinator.kills["transaction close: confirmed"])
    world.kill(*world.roles)
    # Nobody draws in round 3, which is skipped as the members of the next one are others.
    world.run(["coordinator"], until=lambda: world.latest.number == 3)
    away, *others = world.clients
    world.let(away, lambda ledger: ledger.resume())
    world.skip_the_draws()
    world.run(["coordinator"], until=lambda: world.latest.number == 4)
    # Nobody commits in round 4.
    world.run(until=lambda: len(world.latest.shares) == CLIENTS)
    world.silence(*world.clients)
    world.skip_to("commit_end")
    world.run(["coordinator"], until=lambda: isinstance(world.latest.end, Failed))
    world.skip_the_pause()
    world.run(["coordinator"], until=lambda: world.latest.number == 5)
    # The coordinator lies in round 5.
    world.kill("coordinator")
    coordinator.kind = Liar
    released = world.federation.store.has  # the record comes before its content
    world.run(
        until=lambda: (
            len(world.latest.releases) == CLIENTS
            and all(released(each.digest) for each in world.latest.releases.values())
        )
    )
    world.kill(*world.clients)
    world.run(["coordinator"], until=lambda: isinstance(world.latest.end, Closed))
    world.kill("coordinator")
    # What is right and in the store is not written again, so this one finds the lie first.
    finder = next(role for role in world.roles.values() if role.kills["transaction judge: sent"])
    world.run([finder.name], until=lambda: not finder.kills["transaction judge: confirmed"])
    # A member stands by for whoever lied, and another one sleeps through the next round.
    world.kill(*world.roles)
    world.roles[others[0]].standby = True
    world.skips = True
    # The liar may have lived long enough to open a round on its lie, which is void.
    world.run(others, until=lambda: len(world.latest.draws) == CLIENTS - 1 and world.latest.number > 5)
    slept = world.latest.number
    world.skip_the_draws()
    world.run(others, until=lambda: world.latest.number > slept)
    world.roles[away].kills.update(RESUMING)
    world.run(world.clients)


def test_every_step_was_the_last_of_somebody(campaign):
    client = Counter(step for name, step in campaign.deaths if name != "coordinator")
    coordinator = Counter(step for name, step in campaign.deaths if name == "coordinator")
    assert not {*REGISTRATION, *CLIENT_STEPS, *JUDGING, *RESUMING} - client.keys()
    assert not {*COORDINATOR_STEPS, *SKIPPING, *FAILING} - coordinator.keys()
    assert len(campaign.deaths) >= 100


def test_training_went_on_as_if_nothing_had_happened(campaign, undisturbed):
    expected, _, _ = undisturbed
    assert {number: campaign.models[number] for number in (1, 2)} == expected


def test_a_round_that_left_no_model_says_so_on_the_ledger(campaign):
    ends = [type(each.end) for each in campaign.rounds.rounds.values()]
    assert ends[:5] == [Closed, Closed, Skipped, Failed, Closed]
    assert campaign.rounds.rounds[5].replaced is not None
    assert all(fate(each, campaign.rounds.quorum) for each in campaign.rounds.rounds.values() if not each.stands)


def test_who_slept_was_waited_for_no_more_and_is_back_by_itself(campaign):
    account = campaign.rounds.members[1].account
    rounds = campaign.rounds.rounds
    (listed,) = [number for number, each in rounds.items() if account in each.opened.barred]
    assert 1 not in rounds[listed - 1].draws and 1 in rounds[listed + 1].draws


def test_the_history_is_verified(campaign):
    assert campaign.verdict.verdict == "verified", campaign.verdict


def test_whoever_was_killed_while_publishing_pinned_it_in_another_life(campaign):
    assert campaign.unpinned == []


def test_no_client_told_too_much(campaign):
    assert campaign.violations == []
