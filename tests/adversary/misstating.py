"""A coordinator that closes rounds with other statements of the members' evaluation than they came to."""

from collections.abc import Callable
from dataclasses import replace

from fedgrove.node.protocol.members_metrics import MembersStatement
from fedgrove.node.roles.coordinator import Coordinator


def misstating(lie: Callable[[MembersStatement], MembersStatement | None]) -> type[Coordinator]:
    """A coordinator that states what ``lie`` makes of the true statement."""

    class Misstating(Coordinator):
        def __init__(self, *parts, **options):
            super().__init__(*parts, **options)
            honestly = self.context.outcomes.of

            def outcome(inputs, record):
                true = honestly(inputs, record)
                return replace(true, members=lie(true.members))

            self.context.outcomes.of = outcome

    return Misstating
