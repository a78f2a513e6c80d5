"""The ``fedgrove`` command."""
