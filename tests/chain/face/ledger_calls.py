"""Common parts of the ledger's tests: records of a kind, refusals, and a whole round."""

import pytest

from fedgrove.chain.errors import ContractRevert


def of_kind(kind):
    return lambda record: isinstance(record, kind)


def refused(name, call, *arguments):
    with pytest.raises(ContractRevert) as refusal:
        call(*arguments)
    assert refusal.value.name == name
    assert str(refusal.value).endswith(".")
    return refusal.value


def closed(federation, committers, model):
    """A round in which all clients draw, and which ``committers`` of them commit in, closed with ``model``."""
    number = federation.sealed()
    finish(federation, number, committers, model)
    return number


def finish(federation, number, committers, model):
    """Take a sealed round to its closing."""
    for client in federation.clients[:committers]:
        client.share(number, b"x" * 32)
    federation.network.advance_to(federation.coordinator.round(number).share_end)
    for client in federation.clients[:committers]:
        client.commit(number, b"x" * 32, b"y" * 32)
    federation.network.advance_to(federation.coordinator.round(number).commit_end)
    for client in federation.clients[:committers]:
        client.release(number, b"r" * 32)
    federation.coordinator.close(number, model, b"M" * 32)
