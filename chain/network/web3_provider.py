"""A chain's endpoints as web3 wants them."""

from collections.abc import Callable
from typing import Any

from web3 import Web3
from web3.providers.base import JSONBaseProvider


class Provider(JSONBaseProvider):
    """Hands web3's requests to ``request(method, *parameters)``."""

    def __init__(self, request: Callable[..., Any]) -> None:
        super().__init__()
        self._request = request

    def make_request(self, method: str, params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 0, "result": self._request(method, *params)}


def web3_of(request: Callable[..., Any]) -> Web3:
    """web3 on a network."""
    return Web3(Provider(request))
