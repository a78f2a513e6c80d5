"""A prover that follows no rule: hidden numbers, blindings and masks are any numbers modulo the order."""

from random import Random

from fedgrove.common.curve import NEUTRAL, ORDER
from fedgrove.node.masking.bounds import proof as product
from fedgrove.node.masking.bounds.group import commit

ROWS = 128
RANGE = 2**112


def forge(
    statement,
    values,
    blinding,
    carries,
    carry_blinding,
    roots,
    seed=0,
    errors=(NEUTRAL,) * 4,
    masks=None,
    projection=lambda total: total % RANGE,
):
    """Bytes that are as near to a proof as these numbers allow.

    Parameters
    ----------
    roots : sequence of int
        What the conditions are to be filled up with.
    errors : four points
        Added to the commitments to the masks of the values, of the carries and of the roots, and to T₀.
    masks : sequence of int, optional
        Of everything hidden, in place of random ones.
    projection : callable
        What is sent in place of a projection that is out of range.
    """
    random = Random(seed)
    numbers = [*values, *carries, *roots]
    hidden = [random.randrange(RANGE) for _ in range(ROWS)]
    secrets = [*numbers, *hidden, blinding, carry_blinding, random.randrange(ORDER), random.randrange(ORDER)]
    masks = masks or [random.randrange(ORDER) for _ in secrets]
    at, mask = (product._Vector.split(statement, flat) for flat in (secrets, masks))
    challenges = product._Chain(statement)

    points = [
        product._commit_roots(at),
        commit(mask.values, mask.bounded_blinding) + errors[0],
        commit(mask.carries, mask.carry_blinding) + errors[1],
        product._commit_roots(mask) + errors[2],
    ]
    first = b"".join(point.to_bytes() for point in points)
    halves, delta = challenges.first(first)
    sums = [sum(n for bit, n in zip(row, numbers, strict=True) if bit) for row in halves.tolist()]
    totals = [(total + y) % ORDER for total, y in zip(sums, hidden, strict=True)]
    second = b"".join((t if t < RANGE else projection(t)).to_bytes(14) for t in totals)
    constant = product._conditions(statement, delta, mask, 0)
    both = product._Vector.split(statement, [s + m for s, m in zip(secrets, masks, strict=True)])
    slope = product._conditions(statement, delta, both, 1) - product._conditions(statement, delta, at, 1) - constant
    products = (product._commit_product(slope, at), product._commit_product(constant, mask) + errors[3])
    second += b"".join(point.to_bytes() for point in products)
    gammas = challenges.second(second)
    third = (product._project(halves, gammas, mask) % ORDER).to_bytes(32)
    e = challenges.third(third)
    responses = [(e * s + m) % ORDER for s, m in zip(secrets, masks, strict=True)]
    return first + second + third + b"".join(response.to_bytes(32) for response in responses)
