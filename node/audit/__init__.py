"""The audit of a training history, one module per concern.

- ``verdict``: the outcome, and how a bad record is named.
- ``content``: every digest against what the store holds, and the aggregation recomputed bit for bit.
- ``findings``: blobs read for it, and what members did wrong without spoiling a model.
- ``blame``: who lied where shares were missing or false, and whether a round had to fail.
- ``archive``: a run's directory or CAR file: manifest, report and ledger history without any running process.
- ``report``: ``report.json`` of a run.
"""
