"""What whoever starts an explorer may choose: the price of the chain's currency, and a public block explorer."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidInput
from fedgrove.node.status.price import Price

KIND, NAME = "{kind}", "{id}"
LINKED = {
    "tx": re.compile(r"0x[0-9a-f]{64}"),
    "block": re.compile(r"[0-9]{1,18}"),
    "address": re.compile(r"0x[0-9a-fA-F]{40}"),
}
"""What a block explorer has pages of (EIP-3091), and the names that they go by."""

_MAX_PATTERN = 400
_ADDRESS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=%{}-]+")
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class BlockExplorer:
    """A public site with pages of transactions, blocks and addresses.

    Attributes
    ----------
    pattern : str
        Address of its pages, with ``{kind}`` (tx, block or address) and ``{id}``.
    chain_id : int or None
        Of the only chain that it is about; None for any but a practice chain, which no public site knows.
    """

    pattern: str
    chain_id: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of ``PATTERN`` or ``CHAIN_ID=PATTERN``; InvalidInput for anything else."""
        chain, mark, rest = text.partition("=")
        if mark and re.fullmatch(r"[0-9]{1,18}", chain):
            return cls(_checked(rest), int(chain))
        return cls(_checked(text))

    def link(self, kind: str, name: object) -> str:
        """Address of a page; empty for a name that is none of its kind."""
        fits = LINKED[kind].fullmatch(str(name))
        return self.pattern.replace(KIND, kind).replace(NAME, str(name)) if fits else ""


@dataclass(frozen=True)
class PageOptions:
    """All of it; None and nothing where it was not chosen."""

    price: Price | None = None
    block_explorers: tuple[BlockExplorer, ...] = ()

    def price_on(self, deployment: Deployment | None) -> Price | None:
        """The price for a run's fees; None on a practice chain, whose coins nobody would buy."""
        return None if deployment is None or deployment.practice else self.price

    def block_explorer(self, deployment: Deployment) -> BlockExplorer | None:
        """The site for a run's chain: one that is only about it, else one for any that may be public."""
        own = (site for site in self.block_explorers if site.chain_id == deployment.chain_id)
        any_chain = (site for site in self.block_explorers if site.chain_id is None and not deployment.practice)
        return next(own, None) or next(any_chain, None)


NO_OPTIONS = PageOptions()


def _checked(pattern: str) -> str:
    """A pattern that can only ever make addresses of one site, and no other kind of link."""
    wanted = "give one as https://example.org/{kind}/{id}"
    if len(pattern) > _MAX_PATTERN or not _ADDRESS.fullmatch(pattern):
        raise InvalidInput(f"{pattern[:_MAX_PATTERN]!r} is not a block explorer's address: {wanted}")
    if (pattern.count(KIND), pattern.count(NAME)) != (1, 1) or re.search(r"[{}]", _filled(pattern)):
        raise InvalidInput(f"{pattern} must have {KIND} and {NAME} once each, and no other braces: {wanted}")
    try:
        parts = urlsplit(pattern)
        whole = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    if not whole or "{" in parts.netloc or "@" in parts.netloc:
        raise InvalidInput(f"{pattern} must name one host, without a user: {wanted}")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise InvalidInput(f"{pattern} must begin with https:// (http:// is for this machine only): {wanted}")
    return pattern


def _filled(pattern: str) -> str:
    return pattern.replace(KIND, "").replace(NAME, "")
