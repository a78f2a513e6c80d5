"""A federation's blobs and its history: where they are put, copied to, and kept for others to audit."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fedgrove.chain.face.networks import Network
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Record, RoundOpened
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentStore, Malformed, NotFound, TooLarge
from fedgrove.node.audit.archive import STORE, chain_facts, write_archive
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.inventory import named_blobs
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.content import MAX_JSON_BYTES
from fedgrove.node.status.report import build_report


@contextmanager
def open_store(store: str, folder: Path, kubo: Path) -> Iterator[ContentStore]:
    """The store that ``run.store`` names: a folder, a Kubo node of our own that ends with the block, or a URL's."""
    if store in ("auto", "disk"):
        yield DiskStore(folder)
        return
    from fedgrove.ipfs.kubo import KuboStore, open_kubo  # an extra

    if store == "kubo":
        with LocalKubo(kubo) as node:
            yield KuboStore(node.url)
    elif store.startswith(FORMS):
        yield open_kubo(store)
    else:
        raise InvalidConfig(f"run.store must be disk, kubo or the URL of a Kubo API, not {store!r}")


def keep(
    directory: Path,
    network: Network,
    deployment: Deployment,
    content: ContentStore,
    seconds: Mapping[int, float],
) -> Verdict:
    """Audit what is on the ledger by now, and leave history, store and report in a directory for others to audit.

    Parameters
    ----------
    seconds : mapping of int to float
        That each round took, where that is known.
    """
    history = capture(network, deployment)
    history.verify()
    local = DiskStore(directory / STORE)
    local.discard_unfinished()
    if not isinstance(content, DiskStore):
        mirror(content, local, history.records())
    verdict = Auditor(chain_facts(history), history.records(), local).run()
    write_archive(directory, history, build_report(history, local, seconds) | {"audit": verdict.entry()})
    return verdict


def mirror(source: ContentStore, target: ContentStore, records: Iterable[Record]) -> None:
    """Copy every blob that the records name to another store, and what their configurations and metrics name.

    Content that was never published (by a client that was killed after its commitment), or is no file, is left out; the
    audit says so.
    """
    limit = MAX_JSON_BYTES
    for record in records:
        if isinstance(record, RoundOpened):
            limit = fetch_method(source, record.config_digest).config.max_blob_bytes
        for digest in named_blobs([record], source):
            with suppress(NotFound, TooLarge, Malformed):
                target.put(source.fetch(digest, limit))
