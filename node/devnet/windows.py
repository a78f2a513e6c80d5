"""How long the phases of a round are where a chain makes a block for each transaction."""

from fedgrove.chain.deployment import Settings


def windows(clients: int, quorum: int = 3) -> Settings:
    """Windows in blocks for a chain that mines one block a transaction, as test chains do."""
    each = clients + 4
    return Settings(
        seed_delay=1,
        draw_window=each,
        seal_window=8,
        share_window=each,
        commit_window=each,
        recover_window=4 * each,  # half for updates that are still on their way, a quarter for shares
        close_window=8,
        coordinator_grace=4,
        quorum=quorum,
        max_clients=clients,
        absence_limit=3,
        absence_rounds=1,
        max_samples=1 << 24,
    )
