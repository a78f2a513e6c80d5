"""Members that stand in for a coordinator: the ledger takes nothing more from one whose closing fell."""

from fedgrove.node.methods.terms import method_of
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.standby import Standby
from tests.node.federation import Federation


def with_standbys(made: Federation, clients: dict[int, Client]) -> dict[int, Client | Standby]:
    """The clients, and a stand-by for each of them."""
    first_model = method_of(made.config).first_model()
    ledgers = {number: made.ledger(made.keys[number - 1]) for number in clients}
    standbys = {100 + n: Standby(ledger, made.store, made.config, first_model) for n, ledger in ledgers.items()}
    return {**clients, **standbys}
