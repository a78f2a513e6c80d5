"""The blobs of a federation with clusters, mutants among them, and everybody who reads them."""

import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from random import Random
from types import SimpleNamespace

import numpy as np

from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import TooLarge
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.graph import MIN_CLIENTS, Group
from fedgrove.node.methods.procfl import suspicion
from fedgrove.node.methods.procfl.codec import ClusterCodec
from fedgrove.node.methods.procfl.round_inputs import course_of, numbers_in
from fedgrove.node.methods.procfl.standing import cluster_standing
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.procfl.suspicion import shown
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.roles.client import Client
from fedgrove.node.status.clusters import Left
from tests.node.methods.procfl.story import CLIENTS, Story

SECONDS, BYTES = 30.0, 256 << 20


class Overlay:
    """The story's store, with the mutants' blobs beside it in memory."""

    def __init__(self, under: DiskStore) -> None:
        self._under, self._own = under, {}

    def keep(self, data: bytes) -> bytes:
        """The digest of a blob that is there until the next mutant's."""
        digest = cid_of(data).digest
        self._own[digest] = data
        return digest

    def forget(self) -> None:
        self._own.clear()

    def fetch(self, digest: bytes, most: int) -> bytes:
        if digest not in self._own:
            return self._under.fetch(digest, most)
        if len(self._own[digest]) > most:
            raise TooLarge(digest.hex(), f"more than {most} bytes")
        return self._own[digest]

    def stream(self, digest: bytes, most: int) -> Iterator[bytes]:
        yield self.fetch(digest, most)

    def __getattr__(self, name: str) -> object:
        return getattr(self._under, name)


class Arena:
    """The story's blobs, and everybody who reads them."""

    def __init__(self, story: Story, count: int) -> None:
        self.story, self.random, self.count = story, Random(count), count
        self.config, self.store = story.federation.config, Overlay(story.federation.store)
        self.course, self.kind = course_of(self.config), ClusterCodec(self.config)
        self.account = story.federation.coordinator_keys.account
        self.used = 0

    @cached_property
    def states(self) -> list[ClusterState]:
        """What rounds closed with, with models of two parameters."""
        small = {"w": np.zeros(2, np.float32)}
        kinds = ("models", "references", "trials")
        return [
            replace(state, **{kind: (small,) * len(getattr(state, kind)) for kind in kinds})
            for state in self.story.states()
        ]

    @cached_property
    def stated(self) -> list[Metrics]:
        return self.story.stated()

    @cached_property
    def member(self) -> Client:
        """A client that looks back."""
        client = self.story.federation.client(8, store=self.store, check_rounds=1.0)
        client.view.refresh()
        return client

    def mutants(self) -> Iterator[Random]:
        """So many turns, each of which must end in time and without much memory."""
        tracemalloc.start()
        try:
            for _ in range(self.count):
                tracemalloc.reset_peak()
                before, start = tracemalloc.get_traced_memory()[0], time.process_time()
                yield self.random
                self.store.forget()
                assert time.process_time() - start < SECONDS
                assert tracemalloc.get_traced_memory()[1] - before < BYTES
        finally:
            tracemalloc.stop()

    def signed(self, stated: Stated, digest: bytes) -> Stated:
        return stated.replace(signature=sign_message(self.account, stated.message(digest)).hex())

    def called_for(self, state: ClusterState) -> Stated | None:
        """What a coordinator that signs anything would state of a state."""
        if state.stage not in ("count", "watch"):
            return None
        tested = state.tested if any(state.tested) else (9,) * 10
        rows = [[self.random.randint(0, most) for most in tested] for _ in (*state.models, *state.trials)]
        overlaps = [[0] * len(state.clients) for _ in state.clients]
        for place, client in enumerate(state.clients):
            overlaps[place][place] = state.sizes[client]
        if state.stage == "count":
            return self.signed(Stated(tuple(map(tuple, overlaps))), bytes(32))
        return self.signed(Stated(right=tuple(map(tuple, rows)), tested=tuple(tested)), bytes(32))

    def use(self, state: ClusterState) -> None:
        """What clients, uploads, audit, status and explorer do with a state that was accepted."""
        self.used += 1
        random, course = self.random, self.course
        clients = sorted({*range(1, CLIENTS + 2), *list(state.clients)[:20]})
        numbers = {client: random.choice([1, 2, 3, 4, 1 << 31]) for client in clients}
        groups = course.groups(state, numbers)
        if state.stage == "train":
            weights = course.weights(state, groups)
            assert all(weights[client] > 0 for group in groups for client in group)
            course.believed(state, numbers)
        for client in clients[:12]:
            course.options(state, client)
            if state.stage == "train":
                course.number_of(state, client, 0, (1,) * 10)
        draws = {client: SimpleNamespace(samples=n, mask_key=b"\1" * 32) for client, n in numbers.items()}
        current = SimpleNamespace(draws=draws, sealed=True, commits={}, order=tuple(clients))
        assert numbers_in(draws) == numbers
        positions = {client: place for place, client in enumerate(clients)}
        found = tuple(Group.of([positions[client] for client in group], MIN_CLIENTS) for group in groups)
        graph = SimpleNamespace(groups=found)
        inputs = SimpleNamespace(previous=state, current=current, graph=graph, config=self.config, only_evaluates=False)
        for client in clients[:12]:
            assert 0 <= self.kind.expected_bytes(inputs, client) < 1 << 40
        if state.stage == "show":
            state = suspicion.seated(course.terms, state, random.randbytes(32))
            after = shown(state)
            assert after.stage in ("vote", "train")
        if state.stage == "vote":
            suspicion.voted(state, {case.cluster: [] for case in state.cases})
        cluster_standing(course, state, current, committing=True, present=())
        Left.from_row(*Left(state).to_row())
        assert ClusterState.outline(state.head()).head() == state.head()
