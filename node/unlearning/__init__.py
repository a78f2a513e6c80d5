"""K-means that forgets, by members of a federation: what they keep, ask for, and do in a round.

request           which points are to be forgotten, and the commitment to them that the ledger shows
asking            a request made: checked against the journal, durable there, and then on the ledger
notebook          what a client keeps between rounds: its points
local_clustering  a client's work in a round: forget what is due, draw a vector of what is left
federation        a federation in a directory, for `fedgrove kmeans` and `fedgrove unlearn`

The computation is ``node.kmeans``'s, the sums are ``node.uploads.clustering``'s, the certificate is
``node.auditing.certificate``'s.
"""
