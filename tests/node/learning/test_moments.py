"""Running variances travel as second moments and come back."""

import numpy as np
import torch
from torch import nn

from fedgrove.node.learning.moments import second_moments, state_dict_of
from fedgrove.node.learning.tasks.federated import Federated


def module(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    made(torch.randn(16, 3) * 5 + 2)  # so that there are statistics
    return made.eval()


def test_a_state_dict_gives_a_module_with_the_same_outputs():
    one, other = module(0), module(1)
    state = state_dict_of(Federated(one).read())
    other.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    x = torch.randn(10, 3)
    assert torch.allclose(one(x), other(x), atol=1e-5)


def test_second_moments_are_named_only_where_there_is_a_mean():
    names = ["a.running_second_moment", "a.running_mean", "b.running_second_moment", "c.weight"]
    assert second_moments(names) == ("a.running_second_moment",)


def test_a_variance_is_never_negative_and_extras_of_the_strategy_are_left_out():
    model = {
        "running_mean": np.float32([3, 1]),
        "running_second_moment": np.float32([8.999999, 5]),
        "weight": np.ones(2, np.float32),
        "fedcurv/fisher/weight": np.ones(2, np.float32),
    }
    state = state_dict_of(model, "fedcurv")
    assert sorted(state) == ["running_mean", "running_var", "weight"]
    assert state["running_var"].tolist() == [0, 4] and state["running_var"].dtype == np.float32
    assert "fedcurv/fisher/weight" in state_dict_of(model, "fedavg")
