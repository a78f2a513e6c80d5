"""Content-addressed storage with the CIDs that IPFS gives.

- ``cid``: content identifiers, text and bytes
- ``unixfs``: a file as a balanced DAG of blocks, and back
- ``car``: content archives (CAR v1), every block verified; ``car_reader``: their blobs, without unpacking
- ``store``: the ``ContentStore`` protocol and its errors
- ``blobs``: reading whole, verified blobs out of any store of blocks
- ``disk``: the embedded store, a folder
- ``password_file``: passwords of nodes and keystores, each in a file of its own
- ``kubo``: a Kubo node behind its RPC API
"""
