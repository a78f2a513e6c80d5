"""``python -m fedgrove.node.cli`` is the ``fedgrove`` command of this very interpreter."""

from fedgrove.node.cli.main import run

run()
