"""Kubo nodes of one's own in a private swarm on loopback, for tests and practice.

local_node  starts and ends them
front       the HTTP API in front of the library
library     Kubo as a shared library
"""
