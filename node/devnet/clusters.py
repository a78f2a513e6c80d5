"""ProCFL on this machine: its rounds also wait for comparisons, and for committees."""

import os
from collections.abc import Sequence, Sized
from itertools import count
from typing import ClassVar

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.method import TrainingRunner
from fedgrove.node.masking.parameters import crowd
from fedgrove.node.methods.procfl.terms import MAX_CLUSTERED, ProCflTerms, terms_of
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

_ELEMENT_SECONDS = 1e-4  # to answer one element of a partner's set, on a slow machine


class ClustersRunner(TrainingRunner):
    """Similar clients train together: who misses the comparisons is in no cluster, and the coordinator alone can close.

    So rounds are patient.
    """

    patient: ClassVar[bool] = True

    def check(self, scenario: Scenario) -> None:
        clients = scenario.cast.clients
        self._check_training(scenario)
        if scenario.privacy is not None:
            raise InvalidConfig("privacy cannot be combined with method: clusters have no privacy mechanism")
        if clients > MAX_CLUSTERED:
            why = "all overlaps are stated at once"
            raise InvalidConfig(f"scenario.clients must be at most {MAX_CLUSTERED} with method: {why}")
        assumed = scenario.masking.assumed
        if clients < 2 * crowd(clients, assumed):
            fewest = next(n for n in count(6) if n >= 2 * crowd(n, assumed) and n > clients)
            why = "two clusters must be large enough that their members hide each other (masking.colluders)"
            raise InvalidConfig(f"scenario.clients must be {fewest} or more with method, not {clients}: {why}")

    def seconds(self, config: FederationConfig, parts: Sequence[Sized], computing: float) -> float:
        return max(judging_seconds(terms_of(config), computing), comparing_seconds(parts))


def comparing_seconds(parts: Sequence[Sized]) -> float:
    """About how long it takes on this machine that clients answer each other's sets, all clients together."""
    answered = sum(map(len, parts)) * (len(parts) - 1)
    return _ELEMENT_SECONDS * answered / (os.cpu_count() or 1)


def judging_seconds(terms: ProCflTerms, training: float) -> float:
    """How long a round may take in which committees judge, where one of training takes ``training`` seconds.

    A judge trains for each cluster that it judges, and tests each member's model.
    """
    return 2 * training if terms.seats else training
