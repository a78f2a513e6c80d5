"""ProCFL's rounds: who is suspected, who judges, what becomes of models; workers' answers are made up.

The rules themselves are those of federations (``tests/node/methods/procfl/test_course*.py``).
"""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.ring import encode
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.labels import SHARE
from fedgrove.node.methods.procfl.similarity import in_the_clear
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.clustered.attackers import Attackers
from fedgrove.node.simulation.clustered.crew import LabelScores
from fedgrove.node.simulation.clustered.procfl import SimulatedProCflCourse
from fedgrove.node.simulation.record import ClusterResult, CommitteeVerdict, RoundResult

# Three groups of four clients: 1, 4, 7, 10 and so on, one label each, and a little of the others.
COUNTS = np.eye(3, dtype=np.int64)[np.arange(12) % 3] * 20 + 2
CLUSTERS = ((1, 4, 7, 10), (2, 5, 8, 11), (3, 6, 9, 12))
LAYOUT, BOUND, ROUNDS = Layout(("w",), ((2,),)), 8.0, 10
SETTINGS = SimulatedProCfl(alpha=0.5, seats=3, tolerance=0.1, pause=2, global_share=0.5)


def model(accuracy: float) -> dict:
    """A model whose first parameter is its accuracy."""
    return {"w": np.array([accuracy, 0.0], np.float32)}


def accuracies(models) -> list[float]:
    return [round(float(each["w"][0]), 2) for each in models]


class Crew:
    """Answers as workers would: a model is as good as it says, judges vote against whom they are told to."""

    def __init__(self, *found, against=()) -> None:
        self.found, self.against, self.judged = found, set(against), []

    def publish(self, models):
        return list(models)

    def sums(self, number, models, groups, weights):
        shares = {k: sum(weights[client] for client in group) for k, group in groups.items()}
        return {
            k: encode(model(self.found[k])["w"], LAYOUT, share.numerator, share.denominator, BOUND)
            for k, share in shares.items()
        }, []

    def watch(self, number, models):
        right = {k: np.round(100 * each["w"][0] * np.ones(3)).astype(int) for k, each in models.items()}
        return {k: LabelScores(found, np.full(3, 100), 0.0) for k, found in right.items()}

    def shown(self, number, models, groups, noise):
        assert noise == SETTINGS.shown_noise
        return {client: np.zeros(2, np.float32) for group in groups.values() for client in group}, []

    def judging(self, number, cluster, judge, start, reference, shown, labels, rule):
        assert int(np.argmax(labels)) == (min(shown) - 1) % 3 and sum(labels) == 4 * SHARE
        self.judged.append((cluster, judge))
        return cluster, Ballot(judge, tuple(member in self.against for member in shown), bytes(32))

    def judge(self, tasks):
        ballots = {}
        for cluster, ballot in tasks:
            ballots.setdefault(cluster, []).append(ballot)
        return ballots


def earlier(number: int, *judgements: CommitteeVerdict) -> RoundResult:
    return RoundResult(number, None, None, 1.0, (1,), 20, clustering=ClusterResult((), judgements=judgements))


def course(*verdicts, trained=5, attackers=None, **settings) -> SimulatedProCflCourse:
    """After ``trained`` rounds, the last of which had these verdicts; all models were right in 8 of 10."""
    terms = replace(SETTINGS, **settings)
    made = SimulatedProCflCourse(terms, in_the_clear(COUNTS), COUNTS, model(0.8), ROUNDS, BOUND, attackers)
    assert made.state.clusters == made.state.groups == CLUSTERS and made.models(5) == 1 and made.models(6) == 3
    models = [model(0.8)] * made.models(trained)
    made.resume(models, models, [*map(earlier, range(1, trained)), earlier(trained, *verdicts)])
    return made


def play(made: SimulatedProCflCourse, crew: Crew, number: int):
    """A round in which everybody trains in its own cluster."""
    several = made.models(number) > 1
    return made.round(crew, number, {client: (client - 1) % 3 if several else 0 for client in range(1, 13)})


def test_a_model_that_rises_is_the_next_reference_and_nobody_is_judged():
    made, crew = course(), Crew(0.85, 0.75, 0.9)
    found = play(made, crew, 6)
    assert found.judgements == () and crew.judged == [] and found.scores == (0.85, 0.75, 0.9)
    assert found.groups == dict(enumerate(CLUSTERS)) and accuracies(made.state.references) == [0.85, 0.8, 0.9]


def test_members_with_a_majority_against_them_are_expelled_and_the_model_is_reset():
    made, judged = course(), []
    for number in (6, 7, 8):
        (judgement,) = play(made, Crew(0.85, 0.3, 0.9, against={2}), number).judgements
        assert set(judgement.members) <= set(CLUSTERS[1]) and judgement.expelled == (2,) * (2 in judgement.members)
        assert len(judgement.committee) == 3 and not set(judgement.committee) & set(CLUSTERS[1])
        assert accuracies(made.state.models) == [0.85, 0.8, 0.9]
        judged += judgement.members
        if len(set(judged)) == 4:
            break
    assert sorted(judged) == [2, 5, 8, 11]  # who was not judged yet comes first
    assert made.state.expelled == {2: 1} and made.state.clusters[1] == (5, 8, 11) and made.options(2, 10) == (1,)


def test_who_was_judged_in_vain_is_left_alone_for_the_pause():
    made = course()
    first, second, third = (play(made, Crew(0.85, 0.3, 0.9), number).judgements[0] for number in (6, 7, 8))
    assert first.expelled == second.expelled == () and not set(first.members) & set(second.members)
    assert set(third.members) == set(first.members)


def test_a_model_that_fell_does_not_go_on_whether_anybody_is_found_or_judged():
    made = course()
    for number, found in ((6, (0.85, 0.3, 0.9)), (7, (0.2, 0.3, 0.2))):
        judgements = play(made, Crew(*found), number).judgements
        assert accuracies(made.state.models)[1] == 0.8
    assert judgements == ()  # all fell: nobody is left to judge


def test_in_the_first_stage_the_part_that_does_worse_is_judged():
    made = course(trained=1)
    found = play(made, Crew(0.9, 0.9, 0.2, against={3, 6, 9}), 2)
    (judgement,) = found.judgements
    assert judgement.cluster == 2 and set(judgement.expelled) == {3, 6, 9} & set(judgement.members)
    assert accuracies(made.state.models) == [0.8] and found.groups == {0: tuple(range(1, 13))}
    (out, *_) = judgement.expelled
    assert made.options(out, 2) == (0,) and made.options(out, 6) == (2,)


@pytest.mark.parametrize(
    ("found", "least_pool", "committee"),
    [
        ((0.2, 0.2, 0.9), 0.25, {6, 9, 12}),
        ((0.2, 0.2, 0.9), SETTINGS.least_pool, set()),  # of eleven three are too few to judge
        ((0.2, 0.2, 0.2), 0.0, set()),  # nobody is left to judge
    ],
)
def test_members_of_other_suspected_clusters_and_the_expelled_do_not_judge(found, least_pool, committee):
    made, crew = course(CommitteeVerdict(2, (3,), (1, 2, 4), (3,), (3,)), least_pool=least_pool), Crew(*found)
    judgements = play(made, crew, 6).judgements
    assert {judge for _, judge in crew.judged} == committee and len(judgements) == (2 if committee else 0)


def test_attackers_vote_the_wrong_way_round():
    attackers = Attackers(frozenset({2, *CLUSTERS[0], *CLUSTERS[2]}), AttackSettings(start=7), 0)
    made = course(attackers=attackers, least_pool=0.0)
    honest_yet = play(made, Crew(0.85, 0.3, 0.9), 6).judgements[0]
    assert honest_yet.against == (0, 0)
    lied = play(made, Crew(0.85, 0.3, 0.9), 7).judgements[0]
    assert lied.against == tuple(0 if member == 2 else 3 for member in lied.members)


def test_a_run_that_goes_on_knows_the_verdicts():
    made = course(CommitteeVerdict(1, (2, 5), (1, 3, 4), (2, 2), (2, 5)))
    assert set(made.state.expelled) == {2, 5} and made.state.clusters[1] == (8, 11)
    found = play(made, Crew(0.85, 0.3, 0.9), 6)
    assert found.groups == {0: CLUSTERS[0], 2: CLUSTERS[2]}  # two are too few to be summed
