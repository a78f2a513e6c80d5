"""A federation's blobs, copied from one store to another."""

from collections.abc import Iterable, Iterator

from fedgrove.chain.records import Record, RoundOpened, Withdrawn
from fedgrove.ipfs.store import ContentStore, Malformed, NotFound, TooLarge
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.content import MAX_JSON_BYTES


def mirror(source: ContentStore, target: ContentStore, records: Iterable[Record]) -> None:
    """Copy every blob that the records name, and the shared sets of their configurations, to another store.

    Content that was never published (by a client that was killed after its commitment), or is no file, is left out; the
    audit says so.
    """
    limit = MAX_JSON_BYTES
    for record in records:
        digests = list(_digests_of(record))
        if isinstance(record, RoundOpened):
            config = fetch_method(source, record.config_digest).config
            limit = config.max_blob_bytes
            digests += [bytes.fromhex(config.shared.digest)] if config.shared.digest else []
        for digest in digests:
            try:
                target.put(source.fetch(digest, limit))
            except (NotFound, TooLarge, Malformed):
                continue


def _digests_of(record: Record) -> Iterator[bytes]:
    if isinstance(record, Withdrawn):  # its digest commits to what the client keeps for itself
        return
    for name in ("model_digest", "config_digest", "metrics_digest", "digest", "evidence"):
        digest = getattr(record, name, None)
        if digest is not None and any(digest):
            yield digest
