"""Ways to an EVM chain by JSON-RPC: reading that is proven, transactions that arrive, fees, practice nodes."""
