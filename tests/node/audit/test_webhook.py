"""Which answers of a webhook count as delivered."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fedgrove.common.errors import RunFailed
from fedgrove.node.audit import webhook
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.audit.webhook import Webhook


@pytest.fixture
def answers(monkeypatch):
    """Statuses that the address answers with, in this order; each is taken once."""
    statuses: list[int] = []

    def post(session, url, *limits, **options):
        return nullcontext(SimpleNamespace(status_code=statuses.pop(0)))

    monkeypatch.setattr(webhook, "answered", post)
    monkeypatch.setattr(webhook, "PAUSE_SECONDS", 0.0)
    return statuses


@pytest.mark.parametrize("status", [200, 204, 299])
def test_a_success_is_delivered_at_once(answers, status):
    answers += [status]
    Webhook("https://example.org/path").ring(Verdict("bad record"))
    assert answers == []


@pytest.mark.parametrize("status", [199, 300, 500])
def test_anything_else_is_tried_three_times_and_then_said(answers, status):
    answers += [status] * 3 + [200]
    with pytest.raises(RunFailed, match=f"example.org did not receive the verdict: it answered {status}"):
        Webhook("https://example.org/path").ring(Verdict("bad record"))
    assert answers == [200]
