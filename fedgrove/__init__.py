"""Auditable, decentralised, privacy-preserving federated learning on an EVM ledger and IPFS.

Check a finished run, and look at what it left:

>>> import fedgrove as fg
>>> fg.audit("run").verdict                                                                         # doctest: +SKIP
'verified'
>>> history = fg.History("run")                                                                     # doctest: +SKIP
>>> [(each.number, each.metrics.accuracy) for each in history.rounds]                               # doctest: +SKIP
[(1, 0.61), (2, 0.74), (3, 0.81)]

- ``fedgrove.chain``: the Python face of the contracts
- ``fedgrove.ipfs``: content-addressed storage
- ``fedgrove.node``: what a federation's members, coordinator and auditors run
"""
