"""Clustered federated learning with private similarity (ProCFL, Xu et al. 2025). Pure: no chain, no store.

settings       what is agreed on, checked
sets           χ: what a client's samples become before they are compared
similarity     ISM: the matrix of similarities, from private comparisons or, as their oracle, in the clear
messages       the frame of all messages of a private comparison
hash_to_curve  hashing to Curve25519 (RFC 9380)
ecdh           private intersection by Diffie–Hellman: how many elements are common, for a third party that counts
cover          clusters as a weighted set cover, greedy and best (algorithm 2)
leaders        the leader of a cluster, by the members' verifiable random functions
training       the two stages: who averages what, and what sums over overlapping clusters would give away
evidence       how a judge tells malicious models from honest ones, on its own data
committee      malicious clusters, found afterwards: committee, ballots, verdict (algorithm 3)

Where it departs from the paper:

- comparisons are by Diffie–Hellman, counted by a third party, as RSA-PSI tells the asker which elements are common: the
  very label counts that ISM is to hide;
- the first stage needs one sum over all clients, with the weights that the means of means come to; sums over single
  clusters that overlap would give away single models. Where malicious clusters are looked for, it is made of the sums
  of parts that do not overlap;
- a cluster's leader sees no models, so it averages nothing: it repeats the coordinator's sum;
- members of a suspected cluster open what they sent to the committee, instead of showing a model with noise that
  nothing ties to it (``shown = "noised"``);
- a judge takes the mean of a model's accuracies on its labels, and splits the models at the largest gap: the more of a
  cluster is malicious, the less lies below its mean. What does much worse than the global model before the drop is
  malicious in any case. The majority is of all seats, not of the votes cast.
"""
