"""Word of new blocks: over a WebSocket where a node offers one, by the clock where it does not.

A message is a reason to look at the chain, never a fact about it, so nothing in it is used.
"""

import itertools
import json
import threading
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from websockets.sync.client import ClientConnection, connect

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.network.endpoint import origin_of

OPEN_SECONDS = 5.0
CLOSE_SECONDS = 1.0
PING_SECONDS = 10.0
RECEIVE_SECONDS = 0.25
PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
MAX_MESSAGE_BYTES = 1 << 20


class Heads:
    """Tells one thread of new blocks; use it as a context manager.

    A thread of its own keeps a subscription to new blocks at the first WebSocket that offers one, and starts anew,
    after a pause, when it breaks. Without one, ``wait`` returns often enough to look by oneself.

    Parameters
    ----------
    urls : str or sequence of str
        The chain's JSON-RPC endpoints (http or https).
    websocket : str
        Where to subscribe (ws or wss); when empty, at the endpoints themselves, as ws or wss.
    poll_seconds : float
        The longest wait while there is no subscription.

    Raises
    ------
    ConnectionFailed
        A URL is none.
    """

    def __init__(self, urls: str | Sequence[str], websocket: str = "", poll_seconds: float = 1.0) -> None:
        urls = [urls] if isinstance(urls, str) else list(urls)
        self._places = [_checked(websocket)] if websocket else [_websocket_of(url) for url in urls]
        self._poll_seconds = poll_seconds
        self._changed = threading.Condition()
        self._heads = 0
        self._known = 0
        self._subscribed = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heads", daemon=True)
        self._thread.start()

    @property
    def subscribed(self) -> bool:
        """Whether a node currently announces its new blocks."""
        return self._subscribed

    def wait(self, seconds: float) -> bool:
        """Return True as soon as a block has come since the last call, else False after ``seconds``, or sooner."""
        with self._changed:
            subscribed = self._subscribed
            limit = seconds if subscribed else min(seconds, self._poll_seconds)
            self._changed.wait_for(lambda: self._heads != self._known or self._subscribed != subscribed, limit)
            arrived = self._heads != self._known
            self._known = self._heads
            return arrived

    def close(self) -> None:
        """End the subscription and its thread; twice does no harm."""
        self._closing.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = PAUSE_SECONDS
        for place in itertools.cycle(self._places):
            if self._closing.is_set():
                return
            try:
                self._follow(place)
            except Exception:
                # Whatever a node does, the thread must go on; the consumer looks at the chain by the clock meanwhile.
                pause = PAUSE_SECONDS if self._subscribed else min(2 * pause, MAX_PAUSE_SECONDS)
            finally:
                self._note(subscribed=False)
            self._closing.wait(pause)

    def _follow(self, place: str) -> None:
        """Pass on what one node says, until it fails or we close."""
        options: dict[str, Any] = {
            "open_timeout": OPEN_SECONDS,
            "close_timeout": CLOSE_SECONDS,
            "ping_interval": PING_SECONDS,
            "ping_timeout": PING_SECONDS,
            "max_size": MAX_MESSAGE_BYTES,
            "compression": None,
        }
        with connect(place, **options) as connection:
            connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}))
            while not self._closing.is_set():
                message = _receive(connection)
                if message is None:
                    continue
                if message.get("id") == 1:
                    if not isinstance(message.get("result"), str):
                        raise ValueError("the node does not offer subscriptions")
                    self._note(subscribed=True)
                elif message.get("method") == "eth_subscription" and self._subscribed:
                    self._note(subscribed=True, heads=1)

    def _note(self, subscribed: bool, heads: int = 0) -> None:
        with self._changed:
            self._subscribed = subscribed
            self._heads += heads
            self._changed.notify_all()


def _receive(connection: ClientConnection) -> dict | None:
    try:
        message = json.loads(connection.recv(RECEIVE_SECONDS))
    except TimeoutError:
        return None
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def _websocket_of(url: str) -> str:
    origin_of(url)
    parts = urlsplit(url)
    return urlunsplit(parts._replace(scheme={"http": "ws", "https": "wss"}[parts.scheme]))


def _checked(websocket: str) -> str:
    scheme, _, rest = websocket.partition("://")
    try:
        if scheme not in ("ws", "wss"):
            raise ConnectionFailed("no WebSocket")
        origin_of(f"http://{rest}")
    except ConnectionFailed:
        raise ConnectionFailed("A WebSocket's URL must look like ws://HOST:PORT or wss://HOST; correct it.") from None
    return websocket
