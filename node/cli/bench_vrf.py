"""Figures of the VRF: time of a proof in Python, gas of its verification on chain."""

import time
from collections.abc import Callable

from chain import curve, tree, vrf
from chain.contract import Contract
from chain.deployment import Settings, deploy
from chain.keys import Keys
from chain.ledger import Ledger
from chain.networks import embedded

_SAMPLES = 24
_TRANSACTION_GAS = 21_000
_SETTINGS = Settings(seed_delay=1, draw_window=200, quorum=1)

# Execution gas of other verifiers under the same rules, as their sources were measured for the specification.
KNOWN = (
    ("floor: three ecrecover calls", 9_300, "no verifier of this kind can be below"),
    ("Chainlink VRF.sol", 28_000, "not RFC 9381"),
    ("witnet vrf-solidity fastVerify", 109_000, "not RFC 9381"),
    ("witnet vrf-solidity verify", 1_570_000, "not RFC 9381"),
)


def run() -> dict:
    """Measure; each row is {name, value, unit, beside}. Gas is that of real transactions on the embedded chain."""
    rows = []
    for name, backend in (("coincurve", curve.Secp256k1()), ("pure Python (ecdsa)", curve.EcdsaCurve())):
        rows += _times(name, backend)
    draws, execution = _gas()
    rows.append({"name": "draw, whole transaction (mean)", "value": draws, "unit": "gas", "beside": "goal 65,000"})
    rows.append({"name": "checkDraw, execution (mean)", "value": execution, "unit": "gas", "beside": "VRF, eligibility, lot"})
    rows += [{"name": name, "value": gas, "unit": "gas", "beside": f"known figure, {note}"} for name, gas, note in KNOWN]
    return {"rows": rows}


def _times(name: str, backend: curve.Curve) -> list[dict]:
    suite = vrf.Suite(vrf.SECP256K1_SHA256_TAI, backend)
    secret = bytes(31) + b"\x07"
    inputs = [number.to_bytes(32, "big") for number in range(_SAMPLES)]
    public = vrf.public_key(secret, suite)
    proving, proofs = _milliseconds(lambda alpha: vrf.prove(secret, alpha, suite), inputs)
    pairs = list(zip(inputs, proofs, strict=True))
    verifying, _ = _milliseconds(lambda pair: vrf.verify(public, pair[1], pair[0], suite), pairs)
    return [
        {"name": f"prove, {name}", "value": proving, "unit": "ms"},
        {"name": f"verify, {name}", "value": verifying, "unit": "ms"},
    ]


def _milliseconds(work: Callable, inputs: list) -> tuple[float, list]:
    started = time.perf_counter()
    results = [work(item) for item in inputs]
    return round((time.perf_counter() - started) / len(inputs) * 1000, 3), results


def _gas() -> tuple[int, int]:
    """Mean gas of a draw in a client's second round, and of the execution of its check alone."""
    with embedded() as network:
        coordinator = Keys.generate()
        network.fund(coordinator.address, 10)
        deployment = deploy(network, coordinator.account, coordinator.address, _SETTINGS)
        ledger = Ledger(network, deployment, coordinator.account)
        members = [Keys.generate() for _ in range(8)]
        facades = []
        for keys in members:
            network.fund(keys.address, 1)
            facades.append(Ledger(network, deployment, keys.account))
            facades[-1].register(keys)
        _round(network, ledger, facades, members)
        return _round(network, ledger, facades, members)


def _round(network, ledger: Ledger, facades: list[Ledger], members: list[Keys]) -> tuple[int, int]:
    ledger.open(b"\1" * 32, b"\2" * 32, tree.EVERYONE)
    number = ledger.current_round()
    network.advance_to(ledger.round(number).seed_block)
    ledger.fix_seed(number)
    alpha = tree.draw_alpha(ledger.chain_id, ledger.address, number, ledger.round(number).seed)
    executions = [_execution(network, ledger, number, keys, alpha) for keys in members]
    draws = [
        facade.draw(number, keys, alpha, b"\3" * 32, b"\4" * 32, 600).gas_used
        for facade, keys in zip(facades, members, strict=True)
    ]
    network.advance_to(ledger.round(number).seal_end + 1)
    ledger.fail(number, ledger_reason(), bytes(32))
    return round(sum(draws) / len(draws)), round(sum(executions) / len(executions))
