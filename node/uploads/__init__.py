"""How an update becomes what a client uploads, and how uploads become the next model: one module a mechanism.

kind            what every kind of upload does: encode, sum, record; the public inputs of a round
kinds           which kind the federation's terms ask for
spending        what each client has spent of the privacy budget, and whether it affords more
ring            vectors of integers under masks, and their sum (spec 02)
client_level    clipped updates with noise for the clients as a whole (Geyer et al. 2017), under masks
local           updates with each client's own noise, under masks
masked          weights or updates as they are, under masks: no mechanism of differential privacy
clusters        comparisons, masked sums by groups, shown secrets and ballots of clustered learning (Xu et al. 2025)
cluster_rounds  what a round of these follows from: the state before it, its groups, whose messages it reads
signds          a sign and a few dimensions of an update (Jiang et al. 2022), in the open

Whatever a kind computes from uploads it computes from public records alone, so that the coordinator, every client and
the auditor get the same bytes.
"""
