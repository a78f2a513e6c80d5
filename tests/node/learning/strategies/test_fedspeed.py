"""FedSpeed: rounds as in the authors' code, out of the server's mean."""

import numpy as np

from fedgrove.node.learning.strategies.fedspeed import FedSpeed
from tests.node.learning.strategies.quadratics import DRAWN, EQUAL, RATE, STEPS, models

ALPHA, RHO = 0.3, 0.2


def known_rounds(drawn):
    """Mean of the clients' models, and θ = that mean + the mean of all h_i; h_i sums client i's moves."""
    theta, moves = np.zeros(2), np.zeros((len(EQUAL), 2))
    for round_ in drawn:
        found = []
        for i in round_:
            w = theta.copy()
            for _ in range(STEPS):
                g = np.array(EQUAL[i].a) * (w - EQUAL[i].b)
                uphill = np.array(EQUAL[i].a) * (w + RHO * g / np.linalg.norm(g) - EQUAL[i].b)
                w -= RATE * (uphill + ALPHA * (w - theta + moves[i]))
            moves[i] += w - theta
            found.append(w)
        mean = np.mean(found, axis=0)
        theta = mean + moves.mean(0)
        yield mean, theta


def test_the_means_of_what_clients_send_are_the_rounds_of_the_authors_code():
    ours = models(FedSpeed(ALPHA, rho=RHO), DRAWN, EQUAL, rate=2 / 3)
    for model, (mean, theta) in zip(ours, known_rounds(DRAWN), strict=True):
        assert np.allclose(model["w"], mean, atol=1e-5)
        assert np.allclose(model["w"] + model["fedspeed/drift/w"], theta, atol=1e-5)
