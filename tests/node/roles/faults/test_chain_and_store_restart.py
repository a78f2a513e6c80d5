"""The chain's node and the store's node are killed while everybody works, and come back with what they had written."""

import os
import signal

from fedgrove.chain.face.networks import free_port
from fedgrove.chain.records import Closed
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.status.participation import fate
from tests.ipfs.kubo_nodes import needs_kubo, quiet
from tests.node.roles.faults.world import World

# When a kill is due: in a round, in the middle of a phase, so that some have acted and others are about to.
MOMENTS = [
    (1, lambda entry: len(entry.draws) >= 2),
    (1, lambda entry: len(entry.shares) >= 1),
    (2, lambda entry: len(entry.commits) >= 3),
    (2, lambda entry: len(entry.releases) >= 2),
    (3, lambda entry: entry.sealed is not None),
    (3, lambda entry: len(entry.releases) >= 4),
]
ROUNDS = 4  # that close; nothing happens in the last


def wage(world, kill):
    """Kill something at each moment; one that does not come, as its round was lost, is passed over."""
    kills = 0
    for number, moment in MOMENTS:

        def due(number=number, moment=moment):
            current = world.latest
            return current is not None and current.number == number and current.end is None and moment(current)

        def over(number=number):
            return world.latest is not None and world.latest.number > number

        world.run(until=lambda due=due, over=over: due() or over())
        if due():
            kill()
            kills += 1
    world.run()
    assert kills >= 3  # one in each round at least: the first may cost the round, and with it the second


def check(world):
    """Verified; what left no model has its reason on the ledger; nobody told too much."""
    verdict = world.federation.audit()
    assert verdict.verdict == "verified", verdict
    rounds = world.rounds()
    assert rounds.closed == ROUNDS and isinstance(rounds.last.end, Closed)
    assert all(fate(each, rounds.quorum) for each in rounds.rounds.values() if not isinstance(each.end, Closed))
    assert world.violations() == []
    return rounds.rounds


def test_a_chain_whose_node_is_killed_at_work_loses_seconds_and_no_federation(tmp_path):
    with World(tmp_path, rounds=ROUNDS, skips=True) as world:
        wage(world, world.restart_chain)
        check(world)


@needs_kubo
@quiet
def test_a_store_whose_node_is_killed_at_work_keeps_what_it_acknowledged(tmp_path):
    with (
        LocalKubo(tmp_path / "kubo", port=free_port()) as node,
        World(tmp_path, rounds=ROUNDS, store=node.url) as world,
    ):

        def restart():
            os.kill(node.pid, signal.SIGKILL)
            node.stop()
            node.__enter__()

        wage(world, restart)
        assert all(isinstance(each.end, Closed) for each in check(world).values())
