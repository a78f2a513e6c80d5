"""Run a member's own Python code in a process that can hurt nobody but that member: no key, no network, no parent."""
