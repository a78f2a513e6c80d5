"""What ``import fedgrove`` offers: one module a thing that a script does or looks at.

- ``demonstrating``, ``simulating``: run a federation on this machine, with ledger and store or without
- ``running``: what such a run gives back
- ``history``: a training history as objects
- ``tables``, ``saving``: a history as tables, a model as a file
- ``auditing``: the verdict on a history
- ``tasks``: a class of one's own as what a federation learns
"""
