"""Members' tables (CSV, Parquet, npz) read as a federation's terms say; no torch here.

- ``settings``: what the terms say of columns, target and model
- ``cells``: one cell as a number, a category or a missing value
- ``files``: the rows of a file, bounded
- ``reading``: a file as features and targets, every fault with its place
- ``drafting``: terms to begin with, out of a table
"""
