"""Federations on this machine.

subjects      what is learned, on which data, and the terms that follow
members       a folder for each member, contracts with funds for all
demo          a whole federation in one process; demonstration from its options to the auditor's verdict
kmeans        a federation that does K-means, in a directory
testnet       a federation of separate processes
run_state     what goes on after an interruption; keeping, what stays when a run has ended
kubo          Kubo nodes for practice, in a private swarm on loopback
windows       the windows of an embedded chain
"""
