"""The roles that act on the ledger, and the service around them.

client       draws, shares, trains, commits, releases: a file a phase
disclosure   what a client lets out of its hands in a round
company      in whose company a client shares its secrets
twins        two processes that act with one keystore
data_marks   which federations some data took part in
coordinator  opens, seals, recovers, closes: a file a phase
context      what the phases of a round work with
standby      who acts when the coordinator does not
service      a role as a long-running service
logs         its log, as JSON lines
metrics      its figures, for Prometheus
"""
