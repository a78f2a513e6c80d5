"""What scripts and roles call: the ledger and its founding, contracts by name, and the ways to a chain."""
