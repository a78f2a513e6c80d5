"""Where a store does not answer, nobody is blamed, and nobody is cleared."""

from types import SimpleNamespace

import pytest

from fedgrove.ipfs.store import Unreachable
from fedgrove.node.audit import findings
from fedgrove.node.audit.verdict import CannotTell


def test_a_group_left_out_is_not_judged_while_its_shares_cannot_be_fetched(monkeypatch):
    def unreachable(*_):
        raise Unreachable("the store does not answer")

    monkeypatch.setattr(findings, "released_shares", unreachable)
    groups = tuple(SimpleNamespace(positions=positions) for positions in ((0, 1), (2, 3)))
    graph = SimpleNamespace(groups=groups, client=lambda position: position + 1)
    inputs = SimpleNamespace(current=SimpleNamespace(number=4), graph=graph)
    with pytest.raises(CannotTell, match="the store does not answer"):
        findings.name_left_out(inputs, 1, findings=None)
