"""A simulated federation and one on a ledger find the same counts and centres from the same points and draws."""

import numpy as np

from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.client import KMeansClient
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.exchange import exchange
from fedgrove.node.methods.kmeans.server import cluster
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.kmeans.vector import draw_vector, stated_bound
from fedgrove.node.simulation.kmeans.federation import Federation, SimulationSettings

TERMS = KMeansTerms(k=3, dimensions=2, step=0.25, restarts=4)


def test_everybody_summed_anew_gives_the_same_counts_and_centres():
    points = np.random.default_rng(1).uniform(-0.9, 0.9, (4, 50, 2))
    settings = SimulationSettings(TERMS.k, TERMS.grid, TERMS.restarts, least_share=TERMS.least_share)
    simulated = Federation(points, settings, np.random.default_rng(7))
    first = simulated.train()
    found = simulated.renew({})

    server, _, *own = np.random.default_rng(7).spawn(2 + len(points))
    for part, rng in zip(points, own, strict=True):
        KMeansClient(part, TERMS.k, TERMS.grid, rng)
    cluster(first.counts, TERMS.grid, TERMS.k, server, restarts=TERMS.restarts)
    members = {client: stated_bound(len(part)) for client, part in enumerate(points, 1)}
    planned = exchange(TERMS, KMeansState.empty(2), (tuple(members),), members, (), bytes(32))
    (whole,) = planned.sums
    total = np.zeros(whole.code.length, gf.ELEMENT)
    for part, rng in zip(points, own, strict=True):
        total = gf.add(total, whole.code.encode(draw_vector(part, TERMS, rng)))
    state = planned.finish(1, tuple(members), [decode(whole.code, total)], server)
    assert state.counts == found.counts
    assert np.array_equal(state.centres, found.model.centres)
