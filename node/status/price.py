"""What a unit of a chain's currency costs, as whoever asks states it: nothing is looked up."""

import math
import re
from dataclasses import dataclass
from typing import Self

from fedgrove.common.errors import InvalidInput

_PRICE = re.compile(r"(?P<amount>[0-9]{1,12}(?:\.[0-9]{1,12})?) ?(?P<currency>[A-Z]{3}|[€$£¥])")


ETHER, GWEI = 10**18, 10**9
"""In wei."""


@dataclass(frozen=True)
class Price:
    """The price of one ether: an amount, and the currency that it is in."""

    amount: float
    currency: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of a text such as ``2500 EUR``; InvalidInput for anything else."""
        found = _PRICE.fullmatch(text.strip())
        if found is None or not math.isfinite(float(found["amount"])):
            raise InvalidInput(f"{text!r} is not a price: give an amount and a currency, as in '2500 EUR'")
        return cls(float(found["amount"]), found["currency"])
