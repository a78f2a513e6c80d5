"""The audit of a training history, one module per concern.

- ``verdict``: the outcome, and how a bad record is named.
- ``content``: every digest against what the store holds, and the aggregation recomputed bit for bit.
- ``archive``: a run's directory or CAR file: manifest, report and ledger history without any running process.
- ``report``: ``report.json`` of a run.
"""
