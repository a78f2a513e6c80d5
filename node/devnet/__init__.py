"""Federations on this machine.

demo     a whole federation in one process
kmeans   a federation that does K-means, in a directory
testnet  a federation of separate processes
kubo     Kubo nodes for practice, in a private swarm on loopback
windows  the windows of an embedded chain
"""
