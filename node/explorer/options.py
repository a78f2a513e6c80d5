"""What whoever starts an explorer may choose: the price of the chain's currency, and a public block explorer."""

import math
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

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
_PRICE = re.compile(r"(?P<amount>[0-9]{1,12}(?:\.[0-9]{1,12})?) ?(?P<currency>[A-Z]{3}|[€$£¥])")


@dataclass(frozen=True)
class Price:
    """What a unit of the chain's currency costs: an amount, and the currency that it is in."""

    amount: float
    currency: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of a text such as ``2500 EUR``; ValueError for anything else."""
        found = _PRICE.fullmatch(text.strip())
        if found is None or not math.isfinite(float(found["amount"])):
            raise ValueError(f"{text!r} is not a price: give an amount and a currency, as in '2500 EUR'")
        return cls(float(found["amount"]), found["currency"])


@dataclass(frozen=True)
class BlockExplorer:
    """A public site with pages of transactions, blocks and addresses.

    Attributes
    ----------
    pattern : str
        Address of its pages, with ``{kind}`` (tx, block or address) and ``{id}``.
    chain_id : int or None
        Of the only chain that it is about; None for any.
    """

    pattern: str
    chain_id: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of ``PATTERN`` or ``CHAIN_ID=PATTERN``; ValueError for anything else."""
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

    def block_explorer(self, chain_id: int) -> BlockExplorer | None:
        """The site for a chain: one that is only about it, else one for any."""
        fitting = [each for each in self.block_explorers if each.chain_id in (chain_id, None)]
        return min(fitting, key=lambda each: each.chain_id is None, default=None)


NO_OPTIONS = PageOptions()


def _checked(pattern: str) -> str:
    """A pattern that can only ever make addresses of one site, and no other kind of link."""
    wanted = "give one as https://example.org/{kind}/{id}"
    if len(pattern) > _MAX_PATTERN or not _ADDRESS.fullmatch(pattern):
        raise ValueError(f"{pattern[:_MAX_PATTERN]!r} is not a block explorer's address: {wanted}")
    if (pattern.count(KIND), pattern.count(NAME)) != (1, 1) or re.search(r"[{}]", _filled(pattern)):
        raise ValueError(f"{pattern} must have {KIND} and {NAME} once each, and no other braces: {wanted}")
    try:
        parts = urlsplit(pattern)
        whole = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    if not whole or "{" in parts.netloc or "@" in parts.netloc:
        raise ValueError(f"{pattern} must name one host, without a user: {wanted}")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise ValueError(f"{pattern} must begin with https:// (http:// is for this machine only): {wanted}")
    return pattern


def _filled(pattern: str) -> str:
    return pattern.replace(KIND, "").replace(NAME, "")
