"""Times Flower's SecAgg+ on the shape that `fedgrove bench masking` hands over; run by it, in Flower's environment.

Reads {"parameters", "neighbours", "dropouts", "client", "repeats"} as JSON from stdin, writes {"version", "client",
"server", "upload"} (seconds, bytes) to stdout. The steps are those of secaggplus_mod and secaggplus_workflow, on
Flower's own primitives; messages and serialisation of key shares are left out on both sides.
"""

import json
import os
import sys
import time
from importlib.metadata import version

import numpy as np
from flwr.common import ndarray_to_bytes
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    factor_combine,
    parameters_addition,
    parameters_mod,
    parameters_multiply,
    parameters_subtraction,
)
from flwr.common.secure_aggregation.quantization import dequantize, quantize
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

try:
    from flwr.supercore.primitives.asymmetric import (
        bytes_to_private_key,
        bytes_to_public_key,
        generate_key_pairs,
        private_key_to_bytes,
        public_key_to_bytes,
    )
except ImportError:  # older Flower
    from flwr.common.secure_aggregation.crypto.symmetric_encryption import (
        bytes_to_private_key,
        bytes_to_public_key,
        generate_key_pairs,
        private_key_to_bytes,
        public_key_to_bytes,
    )

CLIPPING_RANGE, TARGET_RANGE, MOD_RANGE = 8.0, 1 << 22, 1 << 32  # Flower's defaults


class Round:
    """Keys and seeds of all clients, and one model for everybody."""

    def __init__(self, parameters, neighbours):
        pairs = [generate_key_pairs() for _ in neighbours]
        self.private = [private_key_to_bytes(private) for private, _ in pairs]
        self.public = [public_key_to_bytes(public) for _, public in pairs]
        self.seeds = [os.urandom(32) for _ in neighbours]
        self.neighbours = neighbours
        self.model = [np.random.default_rng(0).normal(0, 0.1, parameters).astype(np.float32)]
        self.shapes = [(1,), (parameters,)]

    def pair_mask(self, private, partner):
        key = generate_shared_key(bytes_to_private_key(private), bytes_to_public_key(self.public[partner]))
        return pseudo_rand_gen(key, MOD_RANGE, self.shapes)

    def mask(self, client):
        """Stage 2 of a client: quantise, add the private mask and a mask for each neighbour."""
        ratio = round(TARGET_RANGE / len(self.neighbours))
        weighted = parameters_multiply(self.model, ratio / TARGET_RANGE)
        vector = factor_combine(ratio, quantize(weighted, CLIPPING_RANGE, TARGET_RANGE))
        vector = parameters_addition(vector, pseudo_rand_gen(self.seeds[client], MOD_RANGE, self.shapes))
        for partner in self.neighbours[client]:
            operation = parameters_addition if client > partner else parameters_subtraction
            vector = operation(vector, self.pair_mask(self.private[client], partner))
        return parameters_mod(vector, MOD_RANGE)


def server_seconds(work, dropouts):
    """Stages 2 and 3 of the server: the sum, the secrets from their shares, the masks off, back to floats."""
    survivors = [client for client in range(len(work.neighbours)) if client not in dropouts]
    shares = {}
    for client, own in enumerate(work.neighbours):
        count = len(own) + 1
        threshold = 2 * count // 3 + 1
        secret = work.private[client] if client in dropouts else work.seeds[client]
        shares[client] = create_shares(secret, threshold, count)[:threshold]
    total, seconds = None, 0.0
    for client in survivors:
        vector = work.mask(client)
        start = time.perf_counter()
        total = vector if total is None else parameters_addition(total, vector)
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    total = parameters_mod(total, MOD_RANGE)
    for client in survivors:
        mask = pseudo_rand_gen(combine_shares(shares[client]), MOD_RANGE, work.shapes)
        total = parameters_subtraction(total, mask)
    for client in dropouts:
        secret = combine_shares(shares[client])
        for partner in work.neighbours[client]:
            if partner not in dropouts:
                operation = parameters_addition if client > partner else parameters_subtraction
                total = operation(total, work.pair_mask(secret, partner))
    total = parameters_mod(total, MOD_RANGE)
    summed = dequantize(total[1:], CLIPPING_RANGE, TARGET_RANGE)[0] - (len(survivors) - 1) * CLIPPING_RANGE
    seconds += time.perf_counter() - start
    ratio = len(survivors) * round(TARGET_RANGE / len(work.neighbours)) / TARGET_RANGE
    if np.abs(summed / ratio - work.model[0]).max() > 1e-2:
        raise AssertionError("the unmasked mean of equal models is not that model")
    return seconds


def main():
    shape = json.load(sys.stdin)
    work = Round(shape["parameters"], shape["neighbours"])
    times = []
    for _ in range(shape["repeats"]):
        start = time.perf_counter()
        vector = work.mask(shape["client"])
        times.append(time.perf_counter() - start)
    figures = {
        "version": version("flwr"),
        "client": min(times),
        "server": server_seconds(work, frozenset(shape["dropouts"])),
        "upload": sum(len(ndarray_to_bytes(array)) for array in vector),
    }
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
