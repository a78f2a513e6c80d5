"""All clients of a clustering in one process, for simulations and benchmarks: every comparison by its real messages."""

from functools import cache
from typing import Literal

import numpy as np

from fedgrove.node.masking.keys import SECRET_BYTES, Random
from fedgrove.node.methods.procfl.ecdh import Comparison, EcdhClient, new_secret
from fedgrove.node.methods.procfl.sets import elements
from fedgrove.node.methods.procfl.similarity import Intersection
from fedgrove.node.simulation.clustered.paper_intersection import RsaAsker, RsaKey, RsaSigner, asker_of

Psi = Literal["ecdh", "rsa"]


class AllPairs:
    """Clients with these label counts; each makes its secrets when it is first needed.

    Comparisons do not depend on each other, nor overlaps on secrets, so several processes may share the pairs, each
    with clients of its own.

    Parameters
    ----------
    session : bytes
        32 bytes that name the clustering.
    """

    def __init__(self, session: bytes, counts: np.ndarray, random: Random, psi: Psi = "ecdh", bits: int = 2048) -> None:
        self._session, self._counts, self._random, self._bits = session, counts, random, bits
        self._compare = {"ecdh": self._by_ecdh, "rsa": self._by_rsa}[psi]
        self._party = cache(self._new_party)
        self._signer = cache(self._new_signer)
        self._asker = cache(self._new_asker)

    def compare(self, left: int, right: int) -> Intersection:
        """One comparison, left < right."""
        return self._compare(left, right)

    def _by_ecdh(self, left: int, right: int) -> Intersection:
        first, second = self._party(left), self._party(right)
        comparison = Comparison(self._session, left, right, first.blinded, second.blinded)
        return comparison.count(first.answer(right, second.blinded), second.answer(left, first.blinded))

    def _by_rsa(self, left: int, right: int) -> Intersection:
        asking = asker_of(left, right)
        signing = left + right - asking
        asker, signer = self._asker(asking), self._signer(signing)
        question = asker.ask(signing, signer.offer)
        return asker.count(signing, signer.offer, question, signer.sign(asking, question))

    def _new_party(self, client: int) -> EcdhClient:
        return EcdhClient(self._session, client, elements(self._counts[client]), new_secret(self._random))

    def _new_signer(self, client: int) -> RsaSigner:
        key = RsaKey.generate(self._random, self._bits)
        return RsaSigner(self._session, client, elements(self._counts[client]), key, self._random)

    def _new_asker(self, client: int) -> RsaAsker:
        own = elements(self._counts[client])
        return RsaAsker(self._session, client, own, self._random(SECRET_BYTES), self._bits)
