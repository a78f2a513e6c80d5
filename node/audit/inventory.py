"""What a run's store holds, against what its ledger, its terms and its metrics name.

Nobody signs for a blob that nothing names, and nobody checked what it is. A store may hold one: a member published a
blob and recorded none, or somebody put one there since. So an audit names them, and never counts them as a part of the
run.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from fedgrove.chain.records import Record, RoundOpened
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.car_reader import CarReader
from fedgrove.ipfs.cid import CID, DAG_PB
from fedgrove.ipfs.directory import decode_directory
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.bad_record import BadRecord
from fedgrove.node.protocol.content import fetch_metrics


def named_blobs(records: Iterable[Record], store: ContentReader) -> Iterator[bytes]:
    """Digests of the blobs that records name, and of what their terms and metrics name; some come several times."""
    for record in records:
        for field in record.BLOBS:
            if any(digest := getattr(record, field)):
                yield digest
        if isinstance(record, RoundOpened):
            yield from _of_terms(record.config_digest, store)
        elif any(metrics := getattr(record, "metrics_digest", b"")):
            with suppress(StoreError, InvalidContent):
                yield bytes.fromhex(fetch_metrics(store, metrics).recovery)


def unaccounted(
    store: DiskReader | CarReader, deployment: Deployment, records: Iterable[Record], *others: bytes
) -> BadRecord | None:
    """A remark on what a store holds and nothing refers to, with the name of the first; None if there is none.

    Parameters
    ----------
    *others : bytes
        Digests of further blobs that belong there.
    """
    founding = bytes.fromhex(deployment.terms.config), bytes.fromhex(deployment.terms.model)
    known: set[bytes] = set()
    for digest in chain(others, founding, _of_terms(founding[0], store, True), named_blobs(records, store)):
        if digest not in known:
            with suppress(StoreError):  # of what is not whole, the blocks that lead to the fault
                known.update(cid.digest for cid in store.blocks(digest))
    foreign = sorted(store.held() - known)
    if not foreign:
        return None
    what = "1 block" if len(foreign) == 1 else f"{len(foreign):,} blocks"
    return BadRecord(None, None, "store", f"it holds {what} that nothing refers to, as {foreign[0].hex()}")


def _of_terms(config: bytes, store: ContentReader, bases: bool = False) -> Iterator[bytes]:
    """Digests of what terms name: the shared set, a task's bundle, and its bases, which each member has for itself."""
    try:
        terms = fetch_method(store, config).config
    except (StoreError, InvalidInput, InvalidContent):
        return
    if terms.shared.digest:
        yield bytes.fromhex(terms.shared.digest)
    if terms.task is None:  # as with K-means
        return
    named = [terms.task.bundle, *(base.cid for base in terms.task.bases if bases)]
    pending, seen = [CID.parse(cid) for cid in named if cid], set[CID]()
    while pending:
        cid = pending.pop()
        if cid in seen:
            continue
        seen.add(cid)
        yield cid.digest
        if cid.codec == DAG_PB:
            with suppress(StoreError, InvalidContent):  # a file in several blocks is no directory
                pending += [entry.cid for entry in decode_directory(store.root(cid.digest).data)]
