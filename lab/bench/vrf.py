"""Time of a VRF proof in Python and gas of its verification on chain, compared with known verifiers."""

from collections.abc import Callable
from statistics import mean

from fedgrove.chain.crypto import curve, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records.abi import creation
from fedgrove_lab.bench.rows import BenchResult, BenchRow, timed

_PROOFS = 24
_ON_CHAIN = 200
_DEPLOY_GAS = 4_000_000
_GOAL = 16_000

# Execution gas of other verifiers, measured for the ledger's specification under Osaka rules with solc 0.8.37.
KNOWN = (
    ("three ecrecover calls alone", 9_300, "floor of this construction"),
    ("Chainlink VRF.sol", 28_000, "known figure; not RFC 9381"),
    ("witnet vrf-solidity, fastVerify", 109_000, "known figure; not RFC 9381"),
    ("witnet vrf-solidity, verify", 1_570_000, "known figure; not RFC 9381"),
)


def run() -> BenchResult:
    """Measure; gas inside a real EVM, without the transaction's."""
    rows: list[BenchRow] = []
    for name, backend in (("coincurve", curve.Secp256k1()), ("ecdsa, pure Python", curve.EcdsaCurve())):
        rows += _times(name, vrf.Suite(vrf.SUITE_SECP256K1, backend))
    by_roots, sizes = _gas()
    for roots, gas in sorted(by_roots.items()):
        rows.append(BenchRow(f"verify on chain, {roots} roots", round(mean(gas)), "gas", f"{len(gas)} proofs"))
    overall = [gas for each in by_roots.values() for gas in each]
    rows.append(BenchRow("verify on chain, mean", round(mean(overall)), "gas", f"goal {_GOAL:,}"))
    rows += [BenchRow(name, gas, "gas", note) for name, gas, note in KNOWN]
    rows.append(BenchRow("message, mean", round(mean(sizes)), "bytes", "goal 345"))
    return BenchResult(tuple(rows))


def _times(name: str, suite: vrf.Suite) -> list[BenchRow]:
    secret = Keys.generate().vrf
    public = suite.public_key(secret)
    inputs = [number.to_bytes(32, "big") for number in range(_PROOFS)]
    proving, proofs = _milliseconds(lambda alpha: suite.prove(secret, alpha), inputs)
    pairs = list(zip(inputs, proofs, strict=True))
    verifying, _ = _milliseconds(lambda pair: suite.verify(public, pair[1], pair[0]), pairs)
    return [BenchRow(f"prove, {name}", proving, "ms"), BenchRow(f"verify, {name}", verifying, "ms")]


def _milliseconds(work: Callable, inputs: list) -> tuple[float, list]:
    seconds, results = timed(lambda: [work(item) for item in inputs])
    return round(seconds / len(inputs) * 1000, 3), results


def _gas() -> tuple[dict[int, list[int]], list[int]]:
    """Execution gas by the number of roots in the message, and the messages' sizes in bytes."""
    by_roots: dict[int, list[int]] = {}
    sizes = []
    keys = Keys.generate()
    x, y = vrf.coordinates(keys.vrf_public)
    with embedded() as network:
        network.fund(keys.address, 1)
        created = sender_of(network, keys.account).transact(None, creation("ECVRFGauge", ()), _DEPLOY_GAS)
        if created.contract is None:
            raise AssertionError("the gauge was not deployed")
        gauge = Contract(network, "ECVRFGauge", created.contract)
        for number in range(_ON_CHAIN):
            alpha = number.to_bytes(32, "big")
            message = vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)
            gas, beta = gauge.call("measure", x, y, alpha, message)
            if beta != vrf.proof_to_hash(vrf.prove(keys.vrf, alpha)):
                raise AssertionError("contract and Python disagree on a VRF output")
            by_roots.setdefault((len(message) - vrf.MESSAGE_HEAD_BYTES) // 32, []).append(gas)
            sizes.append(len(message))
    return by_roots, sizes
