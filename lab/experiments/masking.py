"""Local models before and after masking, on their own training data (section 4.7, figure 10)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np

from fedgrove.chain.crypto import tree
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.networks import evaluate, train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.masking.context import RoundContext
from fedgrove.node.masking.ring import decode
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.data import Dealt, deal_data
from fedgrove_lab.experiments.base import Experiment, Findings, Report
from fedgrove_lab.experiments.figures import Masked, draw_masked
from fedgrove_lab.experiments.measures import spread_of
from fedgrove_lab.experiments.regimes import by_method
from fedgrove_lab.masked_round import MaskedRound
from fedgrove_lab.paper_masking import paper_mask
from fedgrove_lab.tables import markdown, with_deviation

CLIENTS = 8
OURS = "fedgrove's masks"
BEFORE = "before masking"
PAPERS = "the paper's noise, κ = 1/2"
_CONTEXT = RoundContext(1, "0x" + "00" * 20, 1)


def arms(results: Path) -> dict[str, Scenario]:
    """FedAvg at the paper-like settings, but with as many clients a round as are to be shown."""
    return by_method(("fedavg",), rounds=100, sampled=0.1)


def report(findings: Findings) -> Report:
    """Mask what eight clients would upload after the last round, and test it as if it were weights."""
    by_seed = {}
    for record in findings.records.get("fedavg", ()):
        try:
            measured = masked_accuracies if findings.reported is None else reported_accuracies
            by_seed[record.scenario.seed] = measured(record.scenario, findings)
        except (DivergedTraining, InvalidContent) as fault:
            raise InvalidInput(f"seed {record.scenario.seed} leaves no models that can be masked: {fault}") from None
    rows, results = [], {}
    bars = {BEFORE: lambda model: model.before}
    bars |= {f"after, {kind}": lambda model, kind=kind: model.after[kind] for kind in (OURS, PAPERS)}
    for name, of in bars.items():
        means = [fmean(of(model) for model in models) for models in by_seed.values()]
        results[name] = {"by_client": {seed: [of(m) for m in models] for seed, models in by_seed.items()}}
        results[name] |= {"mean": spread_of(means)} if means else {}
        rows.append([name, str(len(means)), with_deviation(spread_of(means), 100, 1)])
    head = ["local models", "seeds", f"accuracy on own training data, mean of {CLIENTS} clients, %"]
    legend = (
        f"After the last round {CLIENTS} clients of the next draw train the global model once more; these local models "
        "are tested on the data that they were trained on. Masked words are decoded as a server would decode a sum. "
        "The figure shows the first seed. Chance is 10 % over balanced classes; a client of few classes may be above "
        "or below it.\n"
    )
    figures = {"masked.png": partial(draw_masked, models=next(iter(by_seed.values())))} if by_seed else {}
    return Report(results, markdown(head, rows) + "\n" + legend, figures)


def reported_accuracies(plan: Scenario, findings: Findings) -> list[Masked]:
    """The accuracies of the last report: measuring them anew would train the models.

    Raises
    ------
    InvalidInput
        The last report has none for this seed.
    """
    try:
        before, *after = (
            (findings.reported or {})[name]["by_client"][str(plan.seed)]
            for name in (BEFORE, *(f"after, {kind}" for kind in (OURS, PAPERS)))
        )
    except KeyError:
        reason = f"the last report has nothing on seed {plan.seed}, and measuring it trains models"
        raise InvalidInput(f"{reason}: run it without --report-only") from None
    drawn = plan.draw(plan.rounds + 1)[:CLIENTS]
    return [
        Masked(client, bare, {OURS: ours, PAPERS: papers})
        for client, bare, ours, papers in zip(drawn, before, *after, strict=True)
    ]


def masked_accuracies(plan: Scenario, findings: Findings) -> list[Masked]:
    """Train, mask and test the local models of the first eight clients of the round after the plan's last."""
    dealt = deal_data(plan, findings.laboratory.dataset(plan.cast.dataset), with_shared=False)
    drawn = plan.draw(plan.rounds + 1)[:CLIENTS]
    if len(drawn) < CLIENTS:
        raise InvalidInput(f"masking needs {CLIENTS} clients a round, this plan draws {plan.drawn}")
    tensors = findings.laboratory.model(plan)
    samples = [dealt.training.take(dealt.parts[client - 1]) for client in drawn]
    models = [_trained(plan, dealt, tensors, own, client) for client, own in zip(drawn, samples, strict=True)]
    counts = [len(own) for own in samples]
    after = {
        OURS: really_masked(models, drawn, counts, plan.masking.bound, plan.seed),
        PAPERS: noisy(models, counts, plan.seed),
    }

    def accuracy(model: Tensors, own: Samples) -> float:
        return evaluate(dealt.spec, model, own).accuracy

    return [
        Masked(client, accuracy(models[i], samples[i]), {kind: accuracy(m[i], samples[i]) for kind, m in after.items()})
        for i, client in enumerate(drawn)
    ]


def really_masked(
    models: Sequence[Tensors], clients: Sequence[int], samples: Sequence[int], bound: float, seed: int
) -> list[Tensors]:
    """Each model as its client would publish it in a federation, decoded as if the masks were not there.

    The secrets are drawn from the seed, so that the figure can be repeated; a client draws its own from the system.
    """
    random = Random(f"fedgrove masking experiment {seed}").randbytes
    drawn, layout = MaskedRound.draw(samples, random, clients=clients, context=_CONTEXT), Layout.of(models[0])
    words = [drawn.masked(position, flatten(model), layout, bound) for position, model in enumerate(models)]
    return [
        unflatten(decode(own, count, drawn.graph.total_samples, bound), layout)
        for own, count in zip(words, samples, strict=True)
    ]


def noisy(models: Sequence[Mapping[str, np.ndarray]], samples: Sequence[int], seed: int) -> list[Tensors]:
    """Each model under the paper's noise (eq. 12-13)."""
    partners = [tree.partners(position, len(models)) for position in range(len(models))]
    seeds = [seed * len(models) + position for position in range(len(models))]
    masked = paper_mask(models, samples, partners, seeds)
    return [{name: layer.astype(np.float32) for name, layer in model.items()} for model in masked]


def _trained(plan: Scenario, dealt: Dealt, tensors: Tensors, samples: Samples, client: int) -> Tensors:
    update = train(
        dealt.spec,
        tensors,
        samples,
        None,
        make_strategy(plan.strategy.name, plan.strategy.options),
        plan.training,
        number=plan.rounds + 1,
        rounds=plan.rounds + 1,
        client=client,
        seed=plan.seed,
    )
    return update.tensors


EXPERIMENT = Experiment(
    name="masking",
    title="Local models before and after masking, MNIST",
    paper="After masking the accuracy of eight clients' local models on their own training data is about 10 %.",
    arms=arms,
    report=report,
    seeds=(0,),
    keeps_models=True,
)
