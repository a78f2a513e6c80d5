"""The audit of a training history, one module per concern.

- ``verdict``: the outcome, and how a bad record is named.
- ``auditor``: the verifier's steps; ``follow``: the same while a federation runs.
- ``content``: every digest against what the store holds, and the aggregation recomputed bit for bit.
- ``findings``: blobs read for it, what members did wrong without spoiling a model, and who lied.
- ``pins``: what was published elsewhere; ``certificate``: that something was forgotten.
- ``succession``: that a federation continues an earlier one's result.
- ``archive``, ``run_files``: a run's directory or CAR file, without any running process.
"""
