"""The client: draws, shares, trains, commits and releases, one step at a time.

A client shares nothing with other roles but the ledger and the store. ``step`` looks at the ledger, does the one thing
that is due, and returns; whoever runs it decides when to call again. Secrets and results of a round are in the journal
before the ledger hears of them, so a killed client goes on where it was (spec 02). Before it trains on a closed round's
model it recomputes it, and disputes what is wrong.

role     the client itself: which phase is due, and what happens between rounds
phase    in which phase a round is for a client
context  what the phases work with
outbox   sends transactions, and none twice that the ledger refused
dispute  refuses a closed round that is wrong
keystore goes on with rotated keys
draw     draws the lot, and joins the round with fresh keys
seal     waits for the order, and leaves a round in bad company
share    shares the secrets behind the masks
commit   trains, masks, and commits to the masked update
publish  publishes the masked update once its commitment is confirmed
recover  releases shares of the others' secrets, and publishes them once that is confirmed
"""

from fedgrove.node.roles.client.role import Client

__all__ = ["Client"]
