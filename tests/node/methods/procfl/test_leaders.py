"""Leaders: drawn by VRF outputs, each member as likely as another, each cluster by itself."""

import hashlib

from scipy.stats import chisquare

from fedgrove.node.methods.procfl.leaders import draw_leader


def outputs(seed: int, members) -> dict[int, bytes]:
    return {member: hashlib.sha256(f"{seed} {member}".encode()).digest() for member in members}


def test_the_order_of_members_does_not_matter_and_absent_ones_do_not_lead():
    found = outputs(1, range(6))
    leader = draw_leader([3, 1, 5, 2], found)
    assert leader == draw_leader([1, 2, 3, 5], found) and leader in {1, 2, 3, 5}
    without = {member: output for member, output in found.items() if member != leader}
    assert draw_leader([1, 2, 3, 5], without) not in {leader, None}
    assert draw_leader([1, 2], {}) is None


def test_every_member_leads_as_often_and_two_clusters_are_drawn_independently():
    first = [draw_leader([0, 1, 2, 3], outputs(seed, range(5))) for seed in range(2000)]
    second = [draw_leader([0, 1, 2, 4], outputs(seed, range(5))) for seed in range(2000)]
    assert chisquare([first.count(member) for member in range(4)]).pvalue > 1e-3
    # Were the lowest β to lead both, they would agree far more often than by chance.
    same = sum(a == b for a, b in zip(first, second, strict=True))
    assert abs(same - 2000 * 3 / 16) < 90
