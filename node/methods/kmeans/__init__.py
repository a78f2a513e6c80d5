"""MUFC (Pan et al. 2023): federated K-means with exact unlearning. Pure: no chain, no store, no sockets, no clock.

grid         uniform quantisation into bins; bins as integers
counts       sparse vectors of counts over bins
seeding      K-means++ with the order kept, which can forget points exactly
client       a client's points, seeding and vector
vector       a client's vector for one sum of a real federation: a fresh seeding of a random part of its points
field        arithmetic in 𝔽_p, p = 2⁶¹ − 1
code         SCMA: a vector of counts as a few elements that can be added (Reed–Solomon syndromes)
masks        key streams over 𝔽_p, which cancel in the sum
decoder      SCMA: from the sum to the exact counts, or an error (the only part that needs python-flint)
clustering   weighted K-means, the same to the bit on every machine for integer points
server       from the counts to global centres
settings     the terms of a clustering federation
state        what a round of a real federation leaves: counts, whose they are, centres
exchange     what the sums of a round are to hold, and the state that follows from them
datasets     Celltype, Covtype, Gaussian clusters; non-iid splits

Where it departs from the paper:

- a bin's evaluation point is a keyed hash wherever the grid has more than 2⁶⁰ bins, and the bin itself is summed with
  the counts, so that the field has 61 bits whatever the dimension (``code``);
- a removed point that is no centroid is taken out of its cluster's size and the server clusters again; the authors'
  program leaves the old count, and draws all of a client's centroids anew where algorithm 3 keeps the first ones;
- a removal sums differences of vectors, which are sparser than vectors, in the simulation; a real federation sums
  everybody anew, each from a fresh seeding, as the difference of two public sums would be one client's (``exchange``);
- there, a client seeds from a random part of its points: counts that add up to a known number are found (``vector``);
- the server computes with weighted bins by default, not with sampled points (``server``).

Where seedings are kept (``seeding``, the simulation's ``forget``), exactness holds for removals that are chosen without
knowledge of the centroids. Who always asks for the removal of a centroid, say, and stops when a certain point becomes
one, shifts the distribution of what remains, as with every algorithm that does not start anew at each request.
"""
