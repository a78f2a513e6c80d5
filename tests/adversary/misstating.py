"""A coordinator that closes rounds with other statements of the members' evaluation than they came to."""

from abc import abstractmethod
from dataclasses import replace

from fedgrove.node.roles.coordinator import Coordinator


class Misstating(Coordinator):
    """States what ``lie`` makes of the true statement."""

    @staticmethod
    @abstractmethod
    def lie(members):
        """The false statement."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        honestly = self.context.outcomes.of

        def outcome(inputs, record):
            true = honestly(inputs, record)
            return replace(true, members=self.lie(true.members))

        self.context.outcomes.of = outcome
