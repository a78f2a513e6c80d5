"""The roles that act on the ledger, and the service around them.

client       draws, shares, trains, commits, releases
disclosure   what a client lets out of its hands in a round
duplicates   two processes that act with one keystore
data_marks   which federations some data took part in
coordinator  opens, seals, recovers, closes
context      what the phases of a round work with
standby      who acts when the coordinator does not
service      a role as a long-running service
logs         its log, as JSON lines
metrics      its figures, for Prometheus
"""
