"""What ``import fedgrove`` offers: one module a thing that a script does or looks at.

- ``demonstrating``, ``simulating``: run a federation on this machine, with ledger and store or without
- ``describing``: what is run: a scenario, a task's class, folder or file, a data set
- ``running``: what such a run gives back
- ``history``: a training history as objects
- ``tables``, ``saving``: a history as tables, a model as a file
- ``predicting``: what a model says of somebody's data
- ``auditing``: the verdict on a history; a live federation, read over the network
"""
