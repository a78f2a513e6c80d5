"""Share and commit: the coordinator waits for clients, and says for which."""

from fedgrove.node.protocol.step import Step, missing
from fedgrove.node.roles.context import Turn


class Share:
    """Waits until the list of shares is final."""

    def act(self, turn: Turn) -> Step:
        """Wait for the clients that drew."""
        return Step.wait("share", missing(turn.entry.draws, turn.entry.shares, "share"), turn.deadlines.share_end)


class Commit:
    """Waits until the list of commitments is final."""

    def act(self, turn: Turn) -> Step:
        """Wait for the clients that shared."""
        return Step.wait("commit", missing(turn.entry.shares, turn.entry.commits, "commit"), turn.deadlines.commit_end)
