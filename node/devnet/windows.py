"""How long the phases of a demonstration's rounds are, in blocks."""

import math
from dataclasses import replace

from fedgrove.chain.network.access import Network
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.protocol.bounds_settings import WINDOWS
from fedgrove.node.status.pace import pace

_STEP_SECONDS = 30
"""For all members to act in a phase, where blocks come by time."""

_TRAINING_SECONDS = 120
_PRACTICE_BLOCK_SECONDS = 0.25
"""Practice nodes make blocks as fast as this, and are asked to skip those for which nobody has anything to do."""


def windows(clients: int, quorum: int = 3) -> LedgerSettings:
    """Windows in blocks for a chain that mines one block a transaction, as test chains do."""
    each = clients + 4
    return LedgerSettings(
        seed_delay=1,
        draw_window=each,
        seal_window=8,
        share_window=each,
        commit_window=2 * each,  # where it has slots, all may commit at the end of the same one
        recover_window=4 * each,  # half for updates that are still on their way, a quarter for shares
        coordinator_grace=4,
        quorum=quorum,
        max_clients=clients,
        absence_limit=3,
        max_samples=1 << 24,
    )


def bounded(settings: LedgerSettings) -> LedgerSettings:
    """The windows, with those in which members prove bounds on their updates and look at others' proofs."""
    affirm = 2 * settings.share_window  # five eighths of it to object, before all vote
    return replace(settings, **{**WINDOWS, "vouch_window": settings.share_window, "affirm_window": affirm})


def by_time(settings: LedgerSettings, network: Network) -> LedgerSettings:
    """The windows on a chain whose blocks do not wait for whoever is at work; the same on all others."""
    if network.can_mine:
        return settings
    measured = pace(network)
    seconds = _PRACTICE_BLOCK_SECONDS if network.mines_when_asked or measured is None else measured.seconds
    step, training = (math.ceil(each / seconds) for each in (_STEP_SECONDS, _TRAINING_SECONDS))
    return replace(
        settings,
        draw_window=max(settings.draw_window, step),
        seal_window=max(settings.seal_window, step),
        share_window=max(settings.share_window, step),
        commit_window=max(settings.commit_window, training),
        recover_window=max(settings.recover_window, 2 * step),
        vouch_window=max(settings.vouch_window, step) if settings.is_bounded else 0,
        affirm_window=max(settings.affirm_window, step) if settings.is_bounded else 0,
    )
