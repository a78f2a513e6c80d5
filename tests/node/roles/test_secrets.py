"""No secret is ever seen: not in what a run leaves behind, not in what it prints."""

import logging
from pathlib import Path

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records import Closed, Committed, Drawn
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.scenario.reading import scenario
from tests.node.conftest import run_federation


def forms(secret: bytes) -> list[bytes]:
    """How a secret might show: raw, hexadecimal in both cases, as a decimal number, reversed."""
    number = int.from_bytes(secret, "big")
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), str(number).encode(), secret[::-1]]


@pytest.fixture
def watched(monkeypatch):
    """Every long-term key and every round's secrets that come into being."""
    made = {"keys": [], "rounds": []}
    generate_keys, generate_round = Keys.generate.__func__, RoundSecrets.generate.__func__

    def keys(kind):
        made["keys"].append(generate_keys(kind))
        return made["keys"][-1]

    def secrets(kind, random):
        made["rounds"].append(generate_round(kind, random))
        return made["rounds"][-1]

    monkeypatch.setattr(Keys, "generate", classmethod(keys))
    monkeypatch.setattr(RoundSecrets, "generate", classmethod(secrets))
    return made


def test_nothing_secret_is_left_behind_or_printed(watched, tmp_path, capfd, caplog):
    caplog.set_level(logging.INFO)
    steps = []
    plan = scenario(clients=6, rounds=2, strategy="fedavg", drop=0.2, seed=3)
    run = run_federation(tmp_path / "kept", plan, observe=lambda role, step: steps.append(repr((role, step))))
    printed = capfd.readouterr()
    seen = [printed.out.encode(), printed.err.encode(), caplog.text.encode(), "".join(steps).encode()]
    seen += [path.read_bytes() for path in Path(run.directory).rglob("*") if path.is_file()]
    haystack = b"\0".join(seen)

    # A coordinator and six clients.
    assert len(watched["keys"]) == 7 and len(watched["rounds"]) == 12
    for keys in watched["keys"]:
        for secret in (bytes(keys.account.key), keys.vrf, keys.mailbox, keys.storage):
            assert not any(form in haystack for form in forms(secret))
        assert keys.vrf.hex() not in repr(keys) and keys.storage.hex() not in repr(keys)

    committed = {(r.round, r.client) for r in run.records if isinstance(r, Committed)}
    drawn = {r.mask_key: (r.round, r.client) for r in run.records if isinstance(r, Drawn)}
    closed = {r.round for r in run.records if isinstance(r, Closed)}
    revealed = 0
    for secrets in watched["rounds"]:
        who = drawn[secrets.mask_key]
        assert not any(form in haystack for form in forms(secrets.seal_secret))
        # One kind may be revealed, never both: b of a survivor, e of a client that dropped out.
        kept = secrets.mask_secret if who in committed else secrets.self_seed
        assert not any(form in haystack for form in forms(kept))
        if who in committed and who[0] in closed:
            assert secrets.self_seed in haystack
            revealed += 1
        assert secrets.self_seed.hex() not in repr(secrets) and secrets.seal_secret.hex() not in repr(secrets)
    assert revealed > 0  # else this test would look for secrets in the wrong form
