"""Telling somebody else of a bad record: one HTTP POST of the verdict."""

import time

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.network.endpoint import origin_of
from fedgrove.common.bounded_http import UNREACHABLE, TooMuch, TooSlow, answered, new_session
from fedgrove.common.errors import InvalidInput, RunFailed
from fedgrove.node.audit.verdict import Verdict

ATTEMPTS = 3
PAUSE_SECONDS = 1.0
SECONDS = 10.0
_MOST_BYTES = 1 << 16


class Webhook:
    """An http or https address that takes a verdict as JSON.

    What is said of it names its host only: its path may be a secret.

    Raises
    ------
    InvalidInput
        Another scheme, or no host.
    """

    def __init__(self, url: str) -> None:
        try:
            self._where = origin_of(url)
        except ConnectionFailed:
            raise InvalidInput("the webhook must look like http://HOST:PORT/PATH or https://HOST/PATH") from None
        self._url = url

    def ring(self, verdict: Verdict) -> None:
        """Deliver a verdict, in three attempts of ten seconds each at most.

        Raises
        ------
        RunFailed
        """
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_SECONDS)
            fault = self._post(verdict)
            if not fault:
                return
        raise RunFailed(f"the webhook at {self._where} did not receive the verdict: {fault}; notify its owner")

    def _post(self, verdict: Verdict) -> str:
        """The error, or empty if there was none."""
        try:
            with answered(new_session(), self._url, SECONDS, _MOST_BYTES, json=verdict.to_dict()) as answer:
                return "" if 200 <= answer.status_code < 300 else f"it answered {answer.status_code}"
        except (TooSlow, TooMuch):
            return f"it did not answer within {SECONDS:g} s"
        except (*UNREACHABLE, ValueError) as fault:
            return f"it cannot be reached ({type(fault).__name__})"
