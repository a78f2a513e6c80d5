"""The client: draws, shares, trains, commits and releases, one step at a time.

A client shares nothing with other roles but the ledger and the store. ``step`` looks at the ledger, does the one thing
that is due, and returns; whoever runs it decides when to call again. Secrets and results of a round are in the journal
before the ledger hears of them, so a killed client goes on where it was. Before it trains on a closed round's
model it recomputes it, and disputes what is wrong.

role          the client itself: which duty is due, and what happens between rounds
context       what the duties work with, and how transactions are sent, none twice that the ledger refused
joining       draws the lot with fresh keys, leaves a round that too few of the members it knows have joined
contributing  shares the secrets behind the masks, trains, commits to the masked update, publishes it
proving       vouches for its update, where updates have bounds, affirms others', expels those who lied
concluding    releases shares of the others' secrets, publishes them once that is confirmed, disputes a false closing
keystore      goes on with rotated keys
"""

from fedgrove.node.roles.client.role import Client

__all__ = ["Client"]
