"""The watch: who is suspected, who judges, what becomes of models; workers' answers are made up."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fedgrove.node.base.tensors import Layout
from fedgrove.node.methods.procfl.committee import Ballot
from fedgrove.node.methods.procfl.labels import SHARE
from fedgrove.node.methods.procfl.similarity import in_the_clear
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.clustered.attackers import Attackers
from fedgrove.node.simulation.clustered.crew import LabelScores
from fedgrove.node.simulation.clustered.detection import ClusterWatch, Trained
from fedgrove.node.simulation.clustered.methods import ProCflScheme
from fedgrove.node.simulation.clustered.similarity import find_clusters
from fedgrove.node.simulation.record import ClusterResult, CommitteeVerdict, RoundResult

# Three groups of four clients: 1, 4, 7, 10 and so on, one label each, and a little of the others.
COUNTS = np.eye(3, dtype=np.int64)[np.arange(12) % 3] * 20 + 2
LAYOUT = Layout(("w",), ((2,),))
SETTINGS = SimulatedProCfl(alpha=0.5, seats=3, tolerance=0.1, pause=2, global_share=0.5)


def model(accuracy: float, *own: float) -> dict:
    """A model whose first parameter is its accuracy."""
    return {"w": np.array([accuracy, *own, 0.0][:2], np.float32)}


class Crew:
    """Answers as workers would: a model is as good as it says, judges vote against whom they are told to."""

    def __init__(self, against=()) -> None:
        self.against, self.judged = set(against), []

    def publish(self, models):
        return list(models)

    def watch(self, round_number, models):
        tested = np.full(3, 100)
        return {
            number: LabelScores(np.round(100 * each["w"][0] * np.ones(3)).astype(int), tested, 0.0)
            for number, each in models.items()
        }

    def train(self, number, models, groups, weights, keep):
        assert not keep
        assert all(sum(weights[client] for client in group) == Fraction(1) for group in groups.values())
        return {number: model(0.2 if self.against & set(group) else 0.9) for number, group in groups.items()}, []

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


@pytest.fixture
def watch():
    similarity = in_the_clear(COUNTS)
    method = ProCflScheme(find_clusters(similarity, SETTINGS.alpha), SETTINGS, rounds=10)
    assert method.clusters == [(1, 4, 7, 10), (2, 5, 8, 11), (3, 6, 9, 12)] and method.last_global == 5
    return ClusterWatch(SETTINGS, method, similarity, COUNTS, None, LAYOUT)


def look(watch, crew, number, *means):
    """A round after which the models have these accuracies."""
    start = [model(0.8)] * len(means)
    watch.enter(crew, number, start)
    groups = dict(enumerate(watch.method.clusters)) if len(means) > 1 else {0: tuple(range(1, 13))}
    return watch.look(crew, Trained(number, groups, start, [model(mean) for mean in means]))


def test_a_model_that_rises_is_the_next_reference_and_nobody_is_judged(watch):
    crew = Crew()
    finding = look(watch, crew, 6, 0.85, 0.75, 0.9)
    assert finding.judgements == () and crew.judged == [] and finding.scores == (0.85, 0.75, 0.9)
    assert [round(float(each["w"][0]), 2) for each in watch.references] == [0.85, 0.8, 0.9]


def test_members_with_a_majority_against_them_are_expelled_and_the_model_is_reset(watch):
    crew = Crew(against={2, 5})
    finding = look(watch, crew, 6, 0.85, 0.3, 0.9)
    (judgement,) = finding.judgements
    assert len(judgement.members) == 2 and set(judgement.members) <= {2, 5, 8, 11}
    assert judgement.expelled == tuple({2, 5} & set(judgement.members)) == tuple(sorted(watch.expelled))
    assert len(judgement.committee) == 3 and not set(judgement.committee) & {2, 5, 8, 11}
    assert [round(float(each["w"][0]), 2) for each in finding.models] == [0.85, 0.8, 0.9]
    seen = list(judgement.members)
    for number in (7, 8, 9):
        seen += [m for each in look(watch, crew, number, 0.85, 0.3, 0.9).judgements for m in each.members]
    assert sorted(seen[:4]) == [2, 5, 8, 11] and watch.expelled == {2, 5}  # who was not judged yet comes first
    assert watch.method.clusters[1] == (8, 11) and watch.method.options(2, 10) == (1,)


def test_who_was_judged_in_vain_is_left_alone_for_the_pause(watch):
    crew = Crew()
    first, second = (look(watch, crew, number, 0.85, 0.3, 0.9).judgements[0] for number in (6, 7))
    assert first.expelled == second.expelled == () and not set(first.members) & set(second.members)
    assert set(look(watch, crew, 8, 0.85, 0.3, 0.9).judgements[0].members) == set(first.members)


def test_a_model_that_fell_does_not_go_on_whether_anybody_is_found_or_judged(watch):
    for number, means in ((6, (0.85, 0.3, 0.9)), (7, (0.2, 0.3, 0.2))):
        finding = look(watch, Crew(), number, *means)
        assert [round(float(each["w"][0]), 2) for each in finding.models][1] == 0.8
    assert finding.judgements == ()  # all fell: nobody is left to judge


def test_in_the_first_stage_the_groups_that_do_worse_are_judged(watch):
    crew = Crew(against={3, 6, 9})
    finding = look(watch, crew, 2, 0.5)
    (judgement,) = finding.judgements
    assert judgement.cluster == 2 and set(judgement.expelled) == {3, 6, 9} & set(judgement.members)
    assert [float(each["w"][0]) for each in finding.models] == pytest.approx([0.8])
    (out, *_) = judgement.expelled
    assert watch.method.options(out, 2) == (0,) and watch.method.options(out, 6) == (2,)


def test_members_of_other_suspected_clusters_and_the_expelled_do_not_judge(watch):
    crew = Crew()
    watch.expelled = {3}
    watch.settings = replace(SETTINGS, least_pool=0.25)
    finding = look(watch, crew, 9, 0.2, 0.2, 0.9)
    assert {judge for _, judge in crew.judged} == {6, 9, 12} and len(finding.judgements) == 2
    watch.settings = SETTINGS
    crew.judged.clear()
    assert look(watch, crew, 12, 0.1, 0.1, 0.9).judgements == ()  # of twelve four are too few to judge
    watch.settings = replace(SETTINGS, least_pool=0.0)
    assert look(watch, crew, 15, 0.1, 0.1, 0.1).judgements == ()  # nobody is left to judge


def test_attackers_vote_the_wrong_way_round(watch):
    watch.attackers = Attackers(frozenset({2, 3, 6, 9}), AttackSettings(start=7), 0)
    watch.settings = replace(SETTINGS, least_pool=0.0)
    watch.expelled = {1, 4, 7, 10, 12}
    crew = Crew(against={2, 5, 8, 11})
    honest_yet = look(watch, crew, 6, 0.85, 0.3, 0.9).judgements[0]
    assert set(honest_yet.committee) == {3, 6, 9} and honest_yet.against == (3, 3)
    watch.method.clusters[1], watch._judged = (2, 5, 8, 11), {}
    lied = look(watch, crew, 9, 0.85, 0.3, 0.9).judgements[0]
    votes = dict(zip(lied.members, lied.against, strict=True))
    assert all(count == (0 if member == 2 else 3) for member, count in votes.items())


def test_a_run_that_goes_on_knows_the_verdicts(watch):
    judgement = CommitteeVerdict(1, (2, 5), (1, 3, 4), (2, 2), (2, 5))
    clusters = ClusterResult(((1,), (2,), (3,)), judgements=(judgement,))
    watch.resume([RoundResult(6, None, None, 1.0, (1,), 20, clustering=clusters)])
    assert watch.expelled == {2, 5} and watch.method.clusters[1] == (8, 11)
    crew = Crew()
    assert set(look(watch, crew, 7, 0.85, 0.3, 0.9).judgements[0].members) <= {8, 11}
