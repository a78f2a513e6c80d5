"""A member asks to be forgotten: checked against its journal, durable there, and then on the ledger."""

from collections.abc import Collection, Sequence

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Mined
from fedgrove.chain.records import Withdrawn
from fedgrove.common.errors import InvalidInput
from fedgrove.node.methods.kmeans.notebook import read_notebook
from fedgrove.node.methods.kmeans.request import Request, name_of
from fedgrove.node.protocol.journal import Journal


def ask(
    ledger: Ledger, client: int, journal: Journal, withdrawals: Sequence[Withdrawn], rows: Collection[int] | None
) -> tuple[Request, Mined | None]:
    """Ask the federation to forget some points of a client, or all of them for good.

    Points that were asked for before are not asked for again, so it can be called again after a crash.

    Parameters
    ----------
    ledger : Ledger
        Sends from the client's account.
    withdrawals : sequence of Withdrawn
        On the ledger so far.
    rows : collection of int, optional
        Points by their rows; None: all of them.

    Returns
    -------
    Request
    Mined or None
        Of its transaction; None if it was on the ledger already.

    Raises
    ------
    InvalidInput
        The client has no such points, or has left.
    """
    asked = _asked(client, journal, withdrawals)
    wanted = () if rows is None else tuple(sorted(set(rows)))
    for request in asked:
        if request.rows == wanted:
            return request, None
    if any(each.client == client and not each.points for each in withdrawals):
        raise InvalidInput(f"client {client} has left the federation: it has nothing left to forget")
    if rows is not None:
        _check(client, journal, wanted, asked)
    request = Request.new(wanted)
    journal.keep(request.name, request.to_bytes())
    return request, ledger.withdraw(request.points, request.digest)


def _asked(client: int, journal: Journal, withdrawals: Sequence[Withdrawn]) -> list[Request]:
    """Requests of a client on the ledger, as far as its journal knows them."""
    kept = (journal.kept(name_of(each.digest)) for each in withdrawals if each.client == client)
    return [Request.from_bytes(data) for data in kept if data is not None]


def _check(client: int, journal: Journal, rows: Collection[int], asked: Sequence[Request]) -> None:
    notebook = read_notebook(journal)
    if notebook is None:
        raise InvalidInput(f"client {client} has not taken part in a round: it has nothing to forget")
    try:
        left = notebook.left_after(rows, [row for request in asked for row in request.rows])
    except InvalidInput as fault:
        raise InvalidInput(f"client {client}: {fault}") from None
    if not left:
        raise InvalidInput(f"client {client} would have no points left: use --all to let it leave")
