"""Clustered federated learning with private similarity (ProCFL, Xu et al. 2025; spec 05). Pure: no chain, no store.

sets           χ: what a client's samples become before they are compared
similarity     ISM: the matrix of similarities, from private comparisons or, as their oracle, in the clear
messages       the frame of all messages of a private comparison
hash_to_curve  hashing to Curve25519 (RFC 9380)
ecdh           private intersection by Diffie–Hellman: how many elements are common, for a third party that counts
rsa            private intersection by blind RSA signatures: the paper's, whose asker learns which are common
"""
