"""What all roles share: the terms, the ledger's records sorted by round, the blobs behind them, and their checks.

terms             the federation's configuration
network_settings  how one member reaches ledger and store; no part of the terms
founding          from the terms to the contracts
rounds            the records of the ledger, sorted by round
ledger_rules      the ledger's rules, re-checked record by record
ledger_view       a role's growing picture of the ledger
content           blobs: bounded fetches, parsed and checked before use
uploads           what every kind of upload does, and the public inputs of a round
local_work        what a client computes in a round, and how it fails
accounting        what every client has spent of the privacy budget
aggregation       from the ledger and the store to the next model
closing           the one check that a closed round is right
first_model       the model that round 1 trains from
journal           a client's durable record of a round
step              what one call of a role's ``step`` came to
"""
