"""The roles of a federation (client, coordinator, auditor) and what they compute."""
