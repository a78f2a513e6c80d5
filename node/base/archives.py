"""Zip archives of others, read within bounds: an archive states itself how long the list of its members is."""

import io
import zipfile

_PIECE = 1 << 20  # bytes; a longer list would be read whole, and this one names 20,000 members
_END = 1 << 62


class TooManyMembers(zipfile.BadZipFile):
    """The list of an archive's members is longer than that of any archive of arrays or sheets."""


class ArchiveFile(io.FileIO):
    """A file for ``zipfile.ZipFile`` that refuses to be read much at once, or outside of itself."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            size = self._left()
        if size > _PIECE:
            raise TooManyMembers("lists too many members")
        return super().read(size) or b""

    def seek(self, offset: int, origin: int = io.SEEK_SET) -> int:
        if origin == io.SEEK_SET and not 0 <= offset < _END:
            raise zipfile.BadZipFile("states a place outside of the file")
        return super().seek(offset, origin)

    def _left(self) -> int:
        here = self.tell()
        end = self.seek(0, io.SEEK_END)
        self.seek(here)
        return end - here
