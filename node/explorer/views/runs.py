"""A run as pages, comparisons and the JSON interface see it: one sight of what its watch has found by now."""

from functools import cached_property

from fedgrove.chain.records.deployment import Deployment
from fedgrove.node.explorer.checks import Checks, Summary
from fedgrove.node.explorer.views.rounds import CheckedRound, all_rounds
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status.subject import Subject, subject_of


class RunView:
    """A run; what is asked of it is read when it is first asked for.

    Attributes
    ----------
    index : Index or None
        None before the history is known to some block, and of one that cannot be read.
    """

    def __init__(self, watch: IndexWatch) -> None:
        self.sight = watch.sight  # before the index, so that no later change is missed
        self.source = watch.source
        self.index = watch.index if watch.known else None
        self.checks = Checks(self.sight)

    @property
    def deployment(self) -> Deployment | None:
        """Of the federation; None where the history is too damaged to say."""
        return self.source.deployment

    @property
    def practice(self) -> bool:
        """Whether it ran on a practice chain, whose fees cost nothing."""
        return self.deployment is not None and self.deployment.practice

    @property
    def settled(self) -> bool:
        """Whether nothing will change any more but what a live history brings."""
        return self.sight.settled(self.source.live)

    @cached_property
    def config(self) -> FederationConfig | None:
        """The terms of the latest round, or None where they are not at hand."""
        return self.index.latest_config() if self.index is not None else None

    @property
    def subject(self) -> Subject | None:
        """What is learned, and how, likewise."""
        return subject_of(self.config) if self.config is not None else None

    def count(self, table: str) -> int | None:
        """How many ``records``, ``rounds`` or ``members`` there are; None while they are being read."""
        if self.index is None:
            return 0 if self.sight.read else None
        return self.index.value(f"SELECT count(*) FROM {table}")

    @cached_property
    def summary(self) -> Summary:
        """How far it is checked."""
        return self.checks.summary(self.count("records"))

    @cached_property
    def rounds(self) -> tuple[CheckedRound, ...]:
        """All rounds up to now."""
        return tuple(all_rounds(self.index, self.checks)) if self.index is not None else ()

    @cached_property
    def head(self) -> int | None:
        """Number of the last block that is known."""
        return self.index.head() if self.index is not None else None

    @property
    def head_hash(self) -> str:
        """Its hash in hexadecimal; empty where there is none."""
        found = self.index.block_hash(self.head) if self.index is not None and self.head is not None else None
        return (found or b"").hex()
