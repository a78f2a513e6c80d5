"""Keys and what is made with them: accounts, verifiable randomness, the cooperation tree, keystores."""
