"""How many blocks each phase of a round gets, when all clients share the processors of one machine.

As a phase ends once nobody is missing, a window costs nothing where all act in time: it is how long a round waits for a
process that is slow, or that was killed and has to start again.
"""

import math

from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.devnet.methods import runner_of
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

_SPARE = 3.0  # training is given this many times what it should take: the machine does other things as well
_AWAY_SECONDS = 120
_BLOCKS = 3  # to see a block, send a transaction and find it in a block


def windows(clients: int, block_seconds: float, training_seconds: float, patient: bool = False) -> LedgerSettings:
    """The ledger's windows.

    Parameters
    ----------
    clients : int
        All of them act in each phase, on this machine's processors.
    block_seconds : float
        Seconds between two blocks.
    training_seconds : float
        What a round's training takes, all clients together.
    patient : bool
        Rounds wait longer for a process to be back, as those of clusters must: who misses the comparisons is in none,
        and the coordinator alone can close.
    """

    def blocks(seconds: float) -> int:
        return _BLOCKS + math.ceil(seconds / block_seconds)

    grace, restart = blocks(6), 12 + 0.5 * clients + (_AWAY_SECONDS if patient else 0)
    return LedgerSettings(
        seed_delay=1,
        draw_window=blocks(restart),
        seal_window=blocks(restart),
        share_window=blocks(restart),
        commit_window=blocks(restart + _SPARE * training_seconds),
        recover_window=4 * grace + 2 * blocks(restart),
        coordinator_grace=grace,
        quorum=3,
        max_clients=clients,
        absence_limit=10,
        max_samples=1 << 24,
    )


def windows_of(scenario: Scenario, config: FederationConfig, subject: Subject, first: bytes) -> LedgerSettings:
    """The ledger's windows for a scenario whose terms are ``config`` and whose first model is ``first``."""
    method, run = runner_of(scenario), scenario.run
    seconds = method.seconds(config, subject.parts(config), subject.seconds(config, first))
    return windows(scenario.cast.clients, run.block_seconds, seconds, method.patient)
