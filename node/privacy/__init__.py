"""Privacy mechanisms: steps between "the client has an update" and "it is masked or sent". Pure.

mechanism     what every mechanism does to an upload and to a sum: for federations and simulations
settings      what a federation agrees on, as checked values
weighted      no mechanism: the weighted mean, as masks leave it
clipping      norms of whole updates; S fixed, following a quantile, or the paper's median
discrete      discrete Gaussian noise on the integers, exact, for millions of coordinates
triangles     the same up to a width, as a mixture that is drawn by look-ups
residue       what the mixture leaves, by integers of 256 bits
stream        random words for whole vectors, from one key
grid          the integers that clipped updates and noise become, and what their sums can be
client_level  clipped updates and shares of the noise on that grid, for the ring (Geyer et al. 2017)
repeatable    noise from a key, the same on every machine
sampling      when drawing members by lot is the sampling that the accounting counts on
accountant    what everything released has cost, and what a budget still affords
plan          σ, noise to signal and rounds, from clients, rate and budget
local         local differential privacy: each client's own Gaussian noise (Balle and Wang 2018)
signds        SignDS: a sign and a few dimensions instead of a dense update (Jiang et al. 2022)

Where it departs from the papers: norms are of whole updates, not of tensors; noise is discrete and added by the
clients in shares, so that nobody sees a sum without it; a client's guarantee counts on sampling only where nobody
learns who was drawn.
"""
