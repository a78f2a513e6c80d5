"""kill -9 at every step of a stand-by that does the work of a coordinator that is gone for good."""

from collections import Counter

from fedgrove.chain.records import Closed
from tests.node.roles.faults.test_crash_anywhere import BLOB, TRANSACTION, begin, every
from tests.node.roles.faults.world import World

STEPS = [
    *every("transaction", ["seal", "close", "open"], TRANSACTION),
    *every("blob", ["recovery", "model", "metrics"], BLOB),
]


def test_a_standby_that_is_killed_at_every_step_brings_every_round_to_its_end(tmp_path):
    with World(tmp_path, rounds=6, back_first=1.0, skips=True) as world:
        begin(world)
        world.run(until=lambda: len(world.models()) == 1)
        world.kill(*world.roles)
        standby = world.roles["client-1"]
        standby.standby = True
        standby.kills.update(STEPS)
        # One round, or another where a transaction was mined just before its sender was killed.
        world.run(world.clients, until=lambda: not standby.kills)
        world.run(world.clients, until=lambda: len(world.rounds().ended()) >= 3)
        assert Counter(standby.deaths) == Counter(STEPS)
        assert {type(each.end) for each in world.rounds().ended()} == {Closed}
        assert world.federation.audit().verdict == "verified"
        assert world.violations() == []
