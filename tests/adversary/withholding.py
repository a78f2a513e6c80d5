"""A store that lacks, for a while, what somebody withholds."""

from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of


class Withholding(DiskStore):
    """Lacks the blob behind the digest ``withheld``, until it ``comes``."""

    withheld = b""
    comes = staticmethod(lambda: False)

    def fetch(self, digest: bytes, max_bytes: int) -> bytes:
        if digest == self.withheld and not self.comes():
            raise NotFound(cid_of(b""), "its holder withholds it")
        return super().fetch(digest, max_bytes)

    def has(self, digest: bytes) -> bool:
        return (digest != self.withheld or self.comes()) and super().has(digest)
