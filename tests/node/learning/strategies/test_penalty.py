"""Penalties with a gradient of their own against autograd of the plain formula, and against finite differences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.node.learning.strategies.penalty import curvature, proximity

SHAPES = [(3, 2, 2), (4,), (2, 5), (1,)]


def tensors(seed, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def plain_proximity(weights, anchor, weight):
    return weight / 2 * sum(((w - a) ** 2).sum() for w, a in zip(weights, anchor, strict=True))


def plain_curvature(weights, diagonal, linear):
    return sum((a * w**2 / 2 - b * w).sum() for w, a, b in zip(weights, diagonal, linear, strict=True))


def differentiated(function, weights, *arguments):
    """Value and gradients of 3 · function + Σ w, so that neither is alone or has the factor 1."""
    weights = [w.clone().requires_grad_() for w in weights]
    value = function(weights, *arguments)
    (3 * value + sum(w.sum() for w in weights)).backward()
    return value.item(), [w.grad for w in weights]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(1e-6, 1e3))
def test_both_equal_autograd_of_the_plain_formula(seed, weight):
    weights, first, second = tensors(seed), tensors(seed + 1), tensors(seed + 2)
    for ours, plain, arguments in (
        (proximity, plain_proximity, (first, weight)),
        (curvature, plain_curvature, (first, second)),
    ):
        value, gradients = differentiated(ours, weights, *arguments)
        expected, autograd = differentiated(plain, weights, *arguments)
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert all(torch.allclose(g, a, rtol=1e-12, atol=1e-12) for g, a in zip(gradients, autograd, strict=True))


@pytest.mark.parametrize(("function", "arguments"), [(proximity, (0.7,)), (curvature, (tensors(8),))])
def test_both_gradients_equal_finite_differences(function, arguments):
    weights, other, directions = tensors(1), tensors(2), tensors(3)
    (slope,) = [sum(float((g - 1).flatten() @ d.flatten()) / 3 for g, d in zip(found, directions, strict=True))
                for _, found in [differentiated(function, weights, other, *arguments)]]  # fmt: skip
    up, down = (
        function([w + step * d for w, d in zip(weights, directions, strict=True)], other, *arguments).item()
        for step in (1e-5, -1e-5)
    )
    assert slope == pytest.approx((up - down) / 2e-5, rel=1e-7)


def test_at_the_anchor_there_is_nothing():
    weights = tensors(1)
    value, gradients = differentiated(proximity, weights, weights, 5.0)
    assert value == 0.0 and all((g == 1).all() for g in gradients)


def test_strides_do_not_matter():
    weights, anchor = tensors(1, [(2, 3, 4, 4)]), tensors(2, [(2, 3, 4, 4)])
    expected = differentiated(proximity, weights, anchor, 0.5)
    value, gradients = differentiated(proximity, [weights[0].to(memory_format=torch.channels_last)], anchor, 0.5)
    assert value == pytest.approx(expected[0]) and torch.allclose(gradients[0], expected[1][0])
