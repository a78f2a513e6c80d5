"""``python -m fedgrove`` is the ``fedgrove`` command of this very interpreter."""

from fedgrove.node.cli import run

if __name__ == "__main__":
    run()
