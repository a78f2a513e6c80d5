"""``python -m node.cli`` is the ``fedgrove`` command of this very interpreter."""

from node.cli.main import run

run()
