"""Share and commit: the coordinator waits for clients, and says for which."""

from fedgrove.node.protocol.step import Step, missing
from fedgrove.node.roles.context import Turn


class AwaitShares:
    """Waits until the list of shares is final."""

    def act(self, turn: Turn) -> Step:
        """Wait for the clients that drew."""
        return Step.wait("share", missing(turn.current.draws, turn.current.shares, "share"), turn.deadlines.share_end)


class AwaitCommits:
    """Waits until the list of commitments is final."""

    def act(self, turn: Turn) -> Step:
        """Wait for the clients that shared."""
        return Step.wait(
            "commit", missing(turn.current.shares, turn.current.commits, "commit"), turn.deadlines.commit_end
        )
