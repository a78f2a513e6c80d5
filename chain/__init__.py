"""The Python face of the contracts: keys, verifiable randomness, the ledger, and the networks it lives on."""
