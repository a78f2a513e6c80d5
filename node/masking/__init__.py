"""BBTSA: sums of clients' models under cancelling noise. Pure: no chain, no store, no sockets, no clock.

context      the round, its ledger, and who takes part
ring         models as integers modulo 2³², and back
prg          key streams (AES-256-CTR) added to and subtracted from a vector
x_only       x-only keys on secp256k1, and agreement between them
keys         the secrets of a round: mask key, sealing key, self-mask seed; seeds of masks
shamir       secret sharing over a prime field, with correction of wrong shares
graph        who masks with whom, who holds whose shares, how many of them recover a secret
coverage     which tensors a pair masks when it masks a fraction κ of them
sealing      step share: a client's shares, each sealed for its holder
client       step commit: the masked update
survivors    what has to be revealed for a list of survivors, and when nothing may be
release      step recover, a holder's side: the shares it lets go of
recovery     step recover, the coordinator's side: the recovery record
aggregate    step close: the streaming sum, unmasked
opening      one update unmasked, for somebody whom its client told a mask secret
collusion    the chance that all partners of some honest client collude

Where it departs from the paper (section 2.2):

- masks are uniform in ℤ₂³² and come from keys agreed for one round, not Gaussian noise seeded with a public number, so
  the sum is exact to the bit and a masked update is uniform noise to whoever lacks the keys;
- every parameter is masked by every pair and by the client itself, not half of the layers;
- public keys travel, not noise;
- a client that drops out costs nothing: its secrets are shared (double masking of Bonawitz et al. 2017, on a sparse
  graph as in Bell et al. 2020, whose vertices here are the leaves of the cooperation tree).

A position is a leaf of the cooperation tree, from 0; a client is named by its index on the ledger, from 1. Integers in
a blob are big-endian, elements of a vector little-endian.
"""
