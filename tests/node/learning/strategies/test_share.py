"""Share: the shared set is trained on like the client's own samples, and counts for nothing in the mean."""

import numpy as np

from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.share import Share
from tests.node.learning.strategies.conftest import pairs


def test_training_is_fedavgs_on_both_sets(trained, same, samples):
    own, shared = samples(30, 2), samples(10, 1)
    mixed = Samples(np.concatenate([own.x, shared.x]), np.concatenate([own.y, shared.y]))
    update = trained(Share(), samples=own, shared=shared)
    assert same(update, trained(FedAvg(), samples=mixed))
    assert not same(update, trained(FedAvg(), samples=own, shared=shared))


def test_the_weight_in_the_mean_is_the_number_of_own_samples(trained, samples):
    assert trained(Share(), samples=samples(30, 2), shared=samples(10, 1)).samples == 30


def test_the_sets_themselves_stay_as_they_are(samples):
    own, shared = samples(3, 2), samples(2, 1)
    mixed = Share().local_data(pairs(own), pairs(shared))
    mixed.inputs[:] = 7
    assert len(mixed) == 5 and own.x.max() < 1 and shared.x.max() < 1
    assert mixed.targets.tolist() == [*own.y, *shared.y]
