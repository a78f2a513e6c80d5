"""Benchmarks: figures that anyone can repeat, each with a rival or a physical limit of the same run.

rows        what a benchmark returns
vrf         proofs in Python and on chain, compared with known verifiers
chain       gas of a round's transactions, compared with their goals
masking     masking and unmasking, compared with raw AES-CTR and Flower's SecAgg+
bounds      proofs of bounds on hidden updates, compared with the masks of the same round
privacy     clipping, rounding and noise, compared with the masks of the same round
ipfs        content identifiers and the disk store, compared with SHA-256 and plain files
dropouts    rounds with silent clients, compared with the same federation without any
engine      simulated rounds, compared with the floor at matmul peak, a plain loop and Flower's simulation
unlearn     K-means that forgets, compared with K-FED, DC-K-means and retraining
similarity  private comparisons, compared with the arithmetic that they cannot avoid
explorer    pages of a long history, compared with the goal of one second
"""
