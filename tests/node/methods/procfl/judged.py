"""A suspected group of a federation with clusters, one member of which sent poison, and its judge."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records import Closed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.tensors import flatten
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.masking.client import mask_words
from fedgrove.node.masking.ring import WORD, encode
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.client_work import LocalClusters
from fedgrove.node.methods.procfl.committee import opened_ballot
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.mailbox import seal
from fedgrove.node.methods.procfl.round_inputs import shown_to
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.metric_sums import words_behind
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.method import Workplace
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.poisoning import SignFlip
from fedgrove.node.scenario.reading import scenario
from tests.node.masking.rounds import Round

MEMBERS, JUDGE = (2, 5, 8, 11, 14), 17
"""Numbers of the clients at the first five leaves, and at the last."""
POISONER, SILENT = MEMBERS[:2]
CASE = Case(0, MEMBERS, (JUDGE,), MEMBERS, (JUDGE,))
RULE = Rule()
COORDINATOR = Account(bytes(31) + b"\1")
PLACE = {"number": 1, "rounds": 6, "seed": 0}


class Entry(RoundRecords):
    """A round that stands."""

    stands = True


class Judged:
    """A suspected group, one member of which sent poison. What its members show is the test's to say."""

    def __init__(self, directory: Path, shown: str, evaluation: EvaluationSettings | None = None) -> None:
        self.config = replace(terms(shown), evaluation=evaluation)
        self.store, self.keys = DiskStore(directory / "store"), Keys.generate()
        data = load_dataset("digits").train()
        self.samples = [data.take(np.arange(60 * k, 60 * k + 60)) for k in range(6)]
        start = ClusterState.from_bytes(method_of(self.config).first_model())
        self.honest = {client: self.trained(start, place) for place, client in enumerate(MEMBERS)}
        poison = SignFlip(8.0).model(self.honest[POISONER], flatten(start.models[0]), np.random.default_rng(0))
        self.sent = {**self.honest, POISONER: np.clip(poison, -8, 8)}
        everybody, labels = (*MEMBERS, JUDGE), tuple(np.bincount(data.y[:300], minlength=10).tolist())
        sets = {client: ("ab" * 32, 60) for client in everybody}
        overlaps = ((60,) * 6,) * 6
        compared = replace(start, stage="train", sets=sets, clients=everybody, overlaps=overlaps)
        self.states = {1: replace(compared, clusters=(MEMBERS, (JUDGE,)), labels=(labels, ()))}
        began = self.store.put(self.states[1].to_bytes()).digest.hex()
        groups = {"groups": (MEMBERS, ()), "references": start.models, "right": ((0,) * 10,), "tested": (1,) * 10}
        after = replace(self.states[1], trained=1, began=began, cases=(CASE,), **groups)
        self.states |= {2: replace(after, stage="show"), 3: replace(after, stage="vote")}
        self.masks = Round.make(6, layout=start.layout, groups=(tuple(range(5)),), mode="pairwise")
        self.secrets = {client: self.masks.secrets[place].mask_secret for place, client in enumerate(MEMBERS)}
        self.rounds = Rounds(rounds={1: self.round_of_training(), 2: entry(2), 3: entry(3)})
        options = (self.samples[5], Journal(directory / "judge", bytes(32)))
        self.judge = self.client(*options, self.keys)

    def client(self, samples: Samples, journal: Journal, keys: Keys) -> LocalClusters:
        return LocalClusters(
            self.config,
            Workplace(self.store, samples, journal, None, lambda: self.rounds, self.place, keys, lambda current: 60),
        )

    def trained(self, start: ClusterState, place: int) -> np.ndarray:
        work = (self.config.network, start.models[0], self.samples[place], None, make_strategy("fedavg", {}))
        return flatten(train(*work, self.config.training, **PLACE, client=MEMBERS[place]).tensors)

    def round_of_training(self) -> Entry:
        """Everybody shared and committed; the judge, which is in no group, to nothing."""
        found, everybody = entry(1), range(6)
        for place, client in enumerate((*MEMBERS, JUDGE)):
            upload = b""
            if client in MEMBERS:
                words = encode(self.sent[client], self.masks.layout, 1, 5, self.config.masking.bound)
                behind = np.arange(words_behind(self.config), dtype=WORD)
                words = np.concatenate([words, behind])
                parts = (self.masks.graph, place, self.masks.secrets[place], everybody, words, self.masks.layout)
                mask_words(*parts, behind=len(behind))
                upload = words.tobytes()
            seed_hash = self.masks.secrets[place].seed_hash
            found.commits[client] = SimpleNamespace(digest=self.store.put(upload).digest, seed_hash=seed_hash)
            found.shares[client] = None
        record = self.masks.record({p: self.masks.blob(p) for p in everybody}, everybody, everybody)
        recovery = self.store.put(record.to_bytes()).digest.hex()
        metrics = self.store.put(Metrics(1, recovery, (1, "00" * 32)).to_bytes()).digest
        found.end = Closed(None, 1, bytes(32), metrics)
        return found

    def place(self, found: Entry) -> RoundInputs:
        state = self.states[found.number]
        return RoundInputs(self.rounds, found, self.masks.graph, self.config, self.store, lambda: state)

    def against(self, told: dict[int, bytes]) -> tuple[int, ...]:
        """Against whom the judge votes, if members show this to it."""
        show, mailbox = self.rounds.rounds[2], self.keys.mailbox_public
        for member, plain in told.items():
            blob = seal(mailbox, plain, shown_to(self.place(show), member, JUDGE), os.urandom)
            show.commits[member] = SimpleNamespace(digest=self.store.put(blob).digest)
        ballot = opened_ballot(self.judge.result(self.rounds.rounds[3], JUDGE), JUDGE, len(MEMBERS), RULE)
        return tuple(member for member, vote in zip(MEMBERS, ballot.against, strict=True) if vote)


def terms(shown: str) -> FederationConfig:
    config = terms_on(scenario(clients=6, rounds=9, strategy="fedavg"), load_dataset("digits"), b"")
    clusters = ProCflTerms(global_share=0.0, seats=1, counter="ab" * 32, signer=COORDINATOR.address, shown=shown)
    training = TrainingSettings(epochs=3, batch_size=10, learning_rate=0.1, momentum=0.5)
    return replace(config, method=clusters, training=training)


def entry(number: int) -> Entry:
    return Entry(SimpleNamespace(round=number), order=(*MEMBERS, JUDGE), end=SimpleNamespace())
