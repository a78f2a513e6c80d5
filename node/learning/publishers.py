"""Sources of the public datasets: addresses, sizes and SHA-256 of the publishers' files, and their download.

The SHA-256 belong to the files whose MD5 the publishers give. MNIST's own site no longer serves the files; PyTorch's
mirror does, and the checksum makes the mirror as good as the original.
"""

import gzip
import hashlib
import http.client
import os
import tarfile
import tempfile
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

from fedgrove.common.errors import InvalidInput

TIMEOUT_SECONDS = 30
CHUNK = 1 << 20
MAX_UNZIPPED_BYTES = 16 + 60_000 * 28 * 28
"""Of the largest published file that may lie here unzipped: a header, and 60,000 images."""


class DatasetError(InvalidInput):
    """A dataset is unavailable or unusable; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class PublishedFile:
    """A publisher's file: address, size in bytes, SHA-256 in hex, and that of its unzipped content if known."""

    url: str
    size: int
    sha256: str
    content_sha256: str = ""

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class IdxSource:
    """A dataset in four IDX files: training images and labels, test images and labels; and the two counts."""

    folders: tuple[str, ...]
    files: tuple[PublishedFile, ...]
    counts: tuple[int, int] = (60_000, 10_000)


@dataclass(frozen=True)
class CifarSource:
    """CIFAR-10's archives, and the SHA-256 of its six batches in binary form: five of training, one of test samples.

    The binary archive is what is downloaded, for it needs no pickle. Any form of a batch has the digest of its content.
    """

    folders: tuple[str, ...]
    binary: PublishedFile
    python: PublishedFile
    batches: tuple[str, ...]


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/"


def _published(place: str, table: str, width: int) -> tuple[PublishedFile, ...]:
    """The files of a table: name, bytes, SHA-256, and that of the unzipped content where ``width`` is 4."""
    words = iter(table.split())
    rows = zip(*[words] * width, strict=True)
    return tuple(PublishedFile(place + name, int(size), *digests) for name, size, *digests in rows)


_MNIST_FILES = """
train-images-idx3-ubyte.gz 9912422 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
    ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte.gz 28881 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
    65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte.gz 1648877 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
    0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte.gz 4542 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
    ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
"""
_FASHION_FILES = """
train-images-idx3-ubyte.gz 26421880 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
train-labels-idx1-ubyte.gz 29515 a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
t10k-images-idx3-ubyte.gz 4422102 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
t10k-labels-idx1-ubyte.gz 5148 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
"""
MNIST = IdxSource(("mnist", "MNIST/raw", "MNIST"), _published(_MNIST, _MNIST_FILES, 4))
FASHION_MNIST = IdxSource(
    ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"), _published(_FASHION, _FASHION_FILES, 3)
)
CIFAR10 = CifarSource(
    ("cifar10", "cifar-10", "CIFAR10"),
    binary=PublishedFile(
        _CIFAR + "cifar-10-binary.tar.gz",
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    python=PublishedFile(
        _CIFAR + "cifar-10-python.tar.gz",
        170_498_071,
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    ),
    batches=(
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    ),
)


def read_verified(path: Path, file: PublishedFile) -> bytes:
    """Read a published file that lies at ``path``, as published or unzipped, and check its SHA-256.

    Returns the unzipped content. An unzipped file whose checksum nobody published is left to the parser's checks.
    """
    zipped = path.suffix == ".gz"
    data = read_bounded(path, file.size if zipped else MAX_UNZIPPED_BYTES)
    expected = file.sha256 if zipped else file.content_sha256
    if expected and hashlib.sha256(data).hexdigest() != expected:
        raise DatasetError(f"{path} is not the published file (wrong SHA-256): delete it and download it again")
    if not zipped:
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise DatasetError(f"{path} cannot be unzipped: delete it and download it again") from None


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a whole file of at most ``limit`` bytes."""
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as fault:
        raise DatasetError(f"cannot read {path}: {fault.strerror}") from None
    if len(data) > limit:
        raise DatasetError(f"{path} has more than the {limit} bytes it should have: delete it and download it again")
    return data


def read_archive(path: Path, file: PublishedFile, members: tuple[str, ...], limit: int) -> list[bytes]:
    """Check an archive's SHA-256 and read ``members`` of at most ``limit`` bytes each; nothing is unpacked to disk."""
    digest = hashlib.sha256(read_bounded(path, file.size)).hexdigest()
    if digest != file.sha256:
        raise DatasetError(f"{path} is not the published archive (wrong SHA-256): delete it and download it again")
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.name in members and member.size <= limit else None
                if stream is not None:
                    contents[member.name] = stream.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error):
        raise DatasetError(f"{path} cannot be unpacked: delete it and download it again") from None
    missing = [name for name in members if name not in contents]
    if missing:
        raise DatasetError(f"{path} does not hold {missing[0]}: delete it and download it again")
    return [contents[name] for name in members]


def download(file: PublishedFile, folder: Path) -> Path:
    """Fetch a published file into ``folder``; it gets its name only when size and SHA-256 are right.

    Raises
    ------
    DatasetError
        Offline, refused, or not the published file.
    """
    advice = f"put {file.name} into {folder} yourself, or use the dataset digits, which needs no download"
    partial: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            urllib.request.urlopen(file.url, timeout=TIMEOUT_SECONDS) as response,
            tempfile.NamedTemporaryFile(dir=folder, prefix=f".{file.name}.", delete=False) as target,
        ):
            partial = Path(target.name)
            digest, length = hashlib.sha256(), 0
            while length <= file.size and (chunk := response.read(CHUNK)):
                digest.update(chunk)
                length += len(chunk)
                target.write(chunk)
        if length != file.size or digest.hexdigest() != file.sha256:
            raise DatasetError(f"{file.url} is not the published file (wrong SHA-256): {advice}")
        os.replace(partial, folder / file.name)
    except (OSError, http.client.HTTPException) as fault:
        reason = getattr(fault, "reason", None) or getattr(fault, "strerror", None) or fault
        raise DatasetError(f"cannot download {file.url} ({reason}): {advice}") from None
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
    return folder / file.name
