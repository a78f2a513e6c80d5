"""Privacy mechanisms: steps between "the client has an update" and "it is masked or sent" (spec 04). Pure.

settings     what a federation agrees on, as checked values
signds       SignDS: a sign and a few dimensions instead of a dense update (Jiang et al. 2022)
"""
