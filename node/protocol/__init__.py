"""Parts that all roles share: the terms, the ledger's records sorted by round, the blobs behind them, and their checks.

terms             what the members agree on
network_settings  how one member reaches ledger and store; no part of the terms
founding          from the terms to the contracts
rounds            the records of the ledger, sorted by round
clock             the phase of a round
law               what the contracts enforce, re-checked record by record
policy            what an honest member refuses although the law allows it
ledger_view       a role's growing picture of the ledger
content           blobs: bounded fetches, parsed and checked before use
round_inputs      the public inputs of a round
method            what a federation's rounds compute, as the protocol sees it; in three jobs:
codec             how an update becomes an upload, and uploads the next model
accounting        what rounds reveal about the clients
schedule          when rounds are opened, and what goes on from them
local_work        what a client computes in a round, and how it fails
spending          what every client has spent of the privacy budget
masked_sum        vectors of integers under masks, and their sum
aggregation       from the ledger and the store to the next model
closing           closed rounds, recomputed by those who are to train on them
journal           a client's durable record of a round
step              what one call of a role's ``step`` came to
"""
