"""Imported by a server of commands before all else: their embedded chain runs under the EVM that tests run on."""

from tests.embedded_evm import choose

choose()
