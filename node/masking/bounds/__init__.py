"""Bounded sums: members prove that hidden updates are small, and whoever spoils a sum is named (pure).

Needs libsecp256k1 (coincurve), so nothing that must run without it imports this package when it is loaded.
"""
