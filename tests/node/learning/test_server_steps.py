"""The server's steps: by hand, against torch's optimisers and FedACG's algorithm, and the same bytes everywhere."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.server_side import ServerSide, without_state
from fedgrove.node.learning.server_steps import SERVER_STEPS, AdamStep, MomentumStep

ROOT = Path(__file__).resolve().parents[3]
FLOAT = np.float32
STEPS = (
    MomentumStep(rate=0.7, momentum=0.8),
    MomentumStep(momentum=0.85, lookahead=True),
    AdamStep(rate=0.03, momentum=0.8, decay=0.95, tau=0.01),
)
STEP = pytest.mark.parametrize("step", STEPS, ids=["momentum", "lookahead", "adam"])


def model(seed: int = 0, scale: float = 1.0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    shapes = {"conv.weight": (3, 4), "scale": ()}
    return {name: np.array(scale * draw.normal(size=shape), FLOAT) for name, shape in shapes.items()}


def rounds(server, first, changes):
    """What is published, from the first model on, where clients move by these changes."""
    published = [server.first(first)]
    for change in changes:
        start = server.start(published[-1])
        mean = {name: start[name] + change[name] for name in start}
        published.append(server.next(lambda: published[-1], mean))
    return published


def changes(count: int) -> list[dict[str, np.ndarray]]:
    return [model(seed, 0.1) for seed in range(1, count + 1)]


# --- what a step is --------------------------------------------------------------------------------------------------


def test_momentum_by_hand():
    step = MomentumStep(rate=0.5, momentum=0.25)
    first, kept = step.next(FLOAT([1, 2]), FLOAT([4, -2]), {"momentum": FLOAT([0, 0])})
    assert first.tolist() == [3, 1] and kept["momentum"].tolist() == [4, -2]
    second, kept = step.next(first, FLOAT([1, 1]), kept)
    assert kept["momentum"].tolist() == [2, 0.5] and second.tolist() == [4, 1.25]


def test_adam_by_hand():
    step = AdamStep(rate=0.5, momentum=0.5, decay=0.75, tau=0.5)
    kept = {name: np.full(1, value, FLOAT) for name, value in step.rest.items()}
    assert kept["square"] == [0.25]
    weights, kept = step.next(FLOAT([1]), FLOAT([0.5]), kept)
    # m = 0.25, v = 0.75 · 0.25 + 0.25 · 0.25 = 0.25, so w = 1 + 0.5 · 0.25 / (0.5 + 0.5)
    assert (weights[0], kept["momentum"][0], kept["square"][0]) == (1.125, 0.25, 0.25)


def test_momentum_is_torchs_sgd_on_the_changes():
    step, weights = MomentumStep(rate=0.7, momentum=0.8), torch.tensor(model()["conv.weight"])
    oracle = torch.optim.SGD([weights], lr=step.rate, momentum=step.momentum)
    for content, change in zip(
        rounds(ServerSide(step, "fedavg", None), model(), changes(20))[1:], changes(20), strict=True
    ):
        weights.grad = -torch.tensor(change["conv.weight"])
        oracle.step()
        assert content["conv.weight"] == pytest.approx(weights.numpy(), abs=1e-5)


def test_adam_is_torchs_without_the_correction_of_its_bias():
    step, weights = AdamStep(rate=0.03, momentum=0.8, decay=0.95, tau=0.01), torch.tensor(model()["conv.weight"])
    oracle = torch.optim.Adam([weights], betas=(step.momentum, step.decay))
    published = rounds(ServerSide(step, "fedavg", None), model(), changes(20))[1:]
    for number, (content, change) in enumerate(zip(published, changes(20), strict=True), 1):
        root = (1 - step.decay**number) ** 0.5  # the rate and τ with which torch's corrections cancel
        oracle.param_groups[0] |= {"lr": step.rate * (1 - step.momentum**number) / root, "eps": step.tau / root}
        weights.grad = -torch.tensor(change["conv.weight"])
        if number == 1:
            rest = {"step": torch.tensor(0.0), "exp_avg": torch.zeros(3, 4)}
            oracle.state[weights] = rest | {"exp_avg_sq": torch.full((3, 4), step.tau**2)}
        oracle.step()
        assert content["conv.weight"] == pytest.approx(weights.numpy(), abs=1e-5)


def test_with_lookahead_the_server_is_that_of_fedacg():
    """Kim et al. 2024, algorithm 1, in float64: clients begin at θ + λm, m ← λm + Δ, θ ← θ + m."""
    kept, published = 0.85, rounds(ServerSide(MomentumStep(1.0, 0.85, True), "fedprox", None), model(), changes(20))
    theta, momentum = model()["conv.weight"].astype(np.float64), np.zeros((3, 4))
    server = ServerSide(MomentumStep(1.0, 0.85, True), "fedprox", None)
    for before, after, change in zip(published[:-1], published[1:], changes(20), strict=True):
        assert server.start(before)["conv.weight"] == pytest.approx(theta + kept * momentum, abs=1e-5)
        momentum = kept * momentum + change["conv.weight"]
        theta = theta + momentum
        assert after["conv.weight"] == pytest.approx(theta, abs=1e-5)


def test_without_momentum_the_next_model_is_the_mean_up_to_a_rounding():
    server = ServerSide(MomentumStep(1.0, 0.0), "fedavg", None)
    mean = model(7)
    after = server.next(lambda: server.first(model()), mean)
    assert all(after[name] == pytest.approx(mean[name], abs=1e-6) for name in mean)


# --- the same bytes everywhere ----------------------------------------------------------------------------------------

DIGESTS = {
    "momentum": "497f9e02f8aa0bb51722835a38cd6b6238b876561293f4c3ce9ff181fb27efbe",
    "lookahead": "bcf9380f066329f14e844c8c9d7c46a15894b76bd5a3ccc10b939095d0fe8736",
    "adam": "5991bad1155abc927e6a0f2c1d0960fdbca8245018374ff1be76ac3b1a102b3d",
}
"""Of what is published after ten rounds: a processor, or a release of NumPy, that computes otherwise fails here."""


def published_in_the_end() -> dict[str, str]:
    """Digests after ten rounds whose inputs follow from whole numbers: no generator's release matters."""
    found, grid = {}, np.arange(-500, 500, dtype=FLOAT) / FLOAT(512)
    for step, name in zip(STEPS, DIGESTS, strict=True):
        server = ServerSide(step, "fedavg", 2.0)
        content = server.first({"w": grid.copy()})
        for number in range(1, 11):
            mean = {"w": server.start(content)["w"] + np.roll(grid, 37 * number) / FLOAT(3)}
            content = server.next(lambda known=content: known, mean)
        found[name] = hashlib.sha256(dump(content)).hexdigest()
    return found


def test_the_bytes_are_those_of_any_processor():
    assert published_in_the_end() == DIGESTS


def test_the_bytes_are_those_of_a_processor_without_wide_instructions():
    wide = ("X86_V4", "X86_V3", "AVX512_SPR", "AVX512_ICL", "AVX512_SKX", "AVX512F", "AVX2", "FMA3", "F16C", "AVX")
    program = f"import json; from {__name__} import *; print(json.dumps(published_in_the_end()))"
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(wide)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == DIGESTS


values = st.floats(-8, 8, width=32)


@STEP
@given(weights=values, mean=values, kept=values, square=st.floats(0, 64, width=32))
def test_a_value_moves_alike_wherever_it_lies(step, weights, mean, kept, square):
    """NumPy computes the ends of arrays, and unaligned ones, by other instructions than the rest."""
    state = {"momentum": kept, "square": square}
    results = set()
    for size, offset in ((1, 0), (3, 1), (16, 0), (67, 3)):
        tensors = [np.full(size + offset, each, FLOAT)[offset:] for each in (weights, mean)]
        arrays = {name: np.full(size + offset, state[name], FLOAT)[offset:] for name in step.rest}
        after, left = step.next(tensors[0], tensors[1] - step.start(tensors[0], arrays), arrays)
        assert all(array.dtype == FLOAT for array in (after, *left.values()))
        results |= {value.tobytes() for array in zip(after, *left.values(), strict=True) for value in [np.array(array)]}
    assert len(results) == 1


@STEP
def test_neither_what_was_published_nor_the_mean_is_written_to(step):
    server = ServerSide(step, "fedavg", 0.5)
    content, mean = server.first(model(1, 0.3)), model(2)
    for array in (*content.values(), *mean.values()):
        array.setflags(write=False)
    server.next(lambda: content, mean)
    server.start(content)


# --- what is published ------------------------------------------------------------------------------------------------


def test_without_a_step_all_is_as_it_is():
    server, content, mean = ServerSide(None, "fedavg", 1.0), model(), model(1)

    def never():
        raise AssertionError("what was published is not needed")

    assert server.first(content) is server.model(content) is server.start(content) is content
    assert server.next(never, mean) is mean
    server.check(content)


@STEP
def test_the_state_is_published_under_names_of_its_own_and_clients_begin_without_it(step):
    server = ServerSide(step, "fedavg", None)
    content = server.first(model())
    assert set(content) - set(model()) == {f"server/{kind}/{name}" for kind in step.rest for name in model()}
    assert dump(without_state(content)) == dump(model()) == dump(server.start(content))
    assert set(server.start(content)) == set(model())
    server.check(content)


@STEP
def test_statistics_and_what_a_strategy_sends_are_averaged(step):
    names = ("norm.weight", "norm.bias", "norm.running_mean", "norm.running_second_moment", "norm.known", "fedcurv/w")
    before = {name: np.ones(2, FLOAT) for name in names}
    server = ServerSide(step, "fedcurv", None)
    content = server.first(before)
    assert {name.split("/", 2)[2] for name in content if name.startswith("server/")} == {"norm.weight", "norm.bias"}
    mean = {name: np.full(2, 2, FLOAT) for name in names}
    for _ in range(2):
        content = server.next(lambda known=content: known, mean)
    assert all(content[name].tolist() == [2, 2] for name in names[2:])
    assert content["server/momentum/norm.weight"].all()


def test_the_model_and_where_clients_begin_stay_within_the_bound():
    server = ServerSide(MomentumStep(2.0, 0.9, lookahead=True), "fedavg", 1.0)
    content = server.first({"w": FLOAT([0.9, -0.9, 0])})
    for _ in range(3):
        start = server.start(content)
        content = server.next(lambda known=content: known, {"w": start["w"] + FLOAT([0.1, -0.1, 0])})
        assert np.abs(content["w"]).max() <= 1 and np.abs(server.start(content)["w"]).max() <= 1
    assert content["w"].tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: content.pop("server/square/scale"), "are not those of the step adam"),
        (lambda content: content.update({"server/square/other": FLOAT([1])}), "are not those of the step adam"),
        (lambda content: content.update({"server/momentum/scale": FLOAT([1])}), "are not those of the step adam"),
        (lambda content: content.update({"server/square/scale": -np.ones((), FLOAT)}), "squares that is negative"),
    ],
    ids=["missing", "additional", "another shape", "negative"],
)
def test_a_state_that_cannot_be_is_refused(change, sentence):
    server = ServerSide(AdamStep(), "fedavg", None)
    content = server.first(model())
    server.check(content)
    change(content)
    with pytest.raises(InvalidContent, match=sentence):
        server.check(content)


@pytest.mark.parametrize("step", [None, *STEPS])
def test_a_model_has_no_tensors_of_reserved_names(step):
    with pytest.raises(InvalidContent, match="'server/momentum/w' must have another name"):
        ServerSide(step, "fedavg", None).first({"w": np.zeros(1, FLOAT), "server/momentum/w": np.zeros(1, FLOAT)})


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        ("momentum", {"rate": 0}, "rate must be above 0 and at most 100, not 0"),
        ("momentum", {"momentum": 1}, "momentum must be from 0 to 0.9999, not 1"),
        ("adam", {"decay": -0.1}, "decay must be from 0 to 0.9999"),
        ("adam", {"tau": 0}, "tau must be from 1e-08 to 1, not 0"),
    ],
)
def test_options_out_of_range_are_one_sentence(kind, options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        SERVER_STEPS[kind](**options)
