"""Data sets: found in their usual places, checked against checksums, parsed without trust; errors are one sentence."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
import urllib.error
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning import datasets, publishers
from fedgrove.node.learning.cifar import PIXELS, parse_binary_batch
from fedgrove.node.learning.datasets import DatasetError, load_dataset
from fedgrove.node.learning.publishers import CifarSource, IdxSource, PublishedFile, download
from fedgrove.node.learning.samples import Samples, as_samples

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def contents() -> list[bytes]:
    rng = np.random.default_rng(0)
    arrays = []
    for count in (30, 20):
        arrays += [rng.integers(0, 256, (count, 8, 6), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10]
    return [idx(array) for array in arrays]


@pytest.fixture
def tiny_mnist(contents, monkeypatch) -> list[bytes]:
    """Make a published MNIST of 30 and 20 images; returns its four zipped files."""
    zipped = [gzip.compress(content, mtime=0) for content in contents]
    files = tuple(
        PublishedFile(
            f"https://example.org/{name}.gz",
            len(data),
            hashlib.sha256(data).hexdigest(),
            hashlib.sha256(content).hexdigest(),
        )
        for name, data, content in zip(NAMES, zipped, contents, strict=True)
    )
    monkeypatch.setattr(datasets, "MNIST", IdxSource(("mnist", "MNIST/raw"), files, (30, 20)))
    return zipped


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def test_digits_need_no_files_and_keep_their_split():
    first, second = load_dataset("digits"), load_dataset("digits")
    assert (first.name, first.classes, first.input_shape) == ("digits", 10, (1, 8, 8))
    assert len(first.train()) == 1437 and len(first.test()) == 360
    assert np.array_equal(first.test().x, second.test().x)
    assert first.train().x.dtype == np.float32 and first.train().x.max() == 1.0
    assert np.bincount(first.test().y).min() > 20


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits  # a second and a half, so only here

    bunch, digits = load_digits(), load_dataset("digits")
    theirs = sorted(zip(bunch.images.astype(int).reshape(-1, 64).tolist(), bunch.target, strict=True))
    parts = (digits.train(), digits.test())
    ours = [pair for part in parts for pair in zip((part.x.reshape(-1, 64) * 16).tolist(), part.y, strict=True)]
    assert sorted(ours) == theirs


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "."])
@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files_are_found_in_the_usual_places(tiny_mnist, contents, tmp_path, folder, zipped):
    place = tmp_path / "data" / folder
    if zipped:
        write(place, {f"{name}.gz": data for name, data in zip(NAMES, tiny_mnist, strict=True)})
    else:
        write(place, dict(zip(NAMES, contents, strict=True)))
    loaded = load_dataset("mnist", tmp_path / "data")
    assert loaded.train().x.shape == (30, 1, 8, 6) and loaded.test().x.shape == (20, 1, 8, 6)
    assert loaded.train().x[3, 0, 2, 1] == np.float32(contents[0][16 + 3 * 48 + 2 * 6 + 1] / np.float32(255))
    assert loaded.train().y.tolist()[:12] == [*range(10), 0, 1]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_changed_byte_is_a_wrong_checksum(tiny_mnist, contents, tmp_path, zipped):
    names = [f"{name}.gz" for name in NAMES] if zipped else NAMES
    files = [bytearray(data) for data in (tiny_mnist if zipped else contents)]
    files[2][-1] ^= 1
    write(tmp_path / "mnist", dict(zip(names, files, strict=True)))
    with pytest.raises(DatasetError, match=f"{names[2]} is not the published file"):
        load_dataset("mnist", tmp_path)


def test_a_file_longer_than_published_is_refused_before_it_is_read_whole(tiny_mnist, tmp_path):
    files = {f"{name}.gz": data for name, data in zip(NAMES, tiny_mnist, strict=True)}
    files[NAMES[0] + ".gz"] += b"\0"
    write(tmp_path / "mnist", files)
    with pytest.raises(DatasetError, match="has more than the"):
        load_dataset("mnist", tmp_path)


def test_wrong_counts_are_refused(tiny_mnist, contents, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "MNIST", replace(datasets.MNIST, counts=(31, 20)))
    write(tmp_path / "mnist", dict(zip(NAMES, contents, strict=True)))
    with pytest.raises(DatasetError, match=r"holds \(30, 20\) training and test samples, expected \(31, 20\)"):
        load_dataset("mnist", tmp_path)


def test_offline_is_one_sentence_with_the_way_out(tiny_mnist, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(publishers.urllib.request, "urlopen", refuse)
    with pytest.raises(DatasetError) as caught:
        load_dataset("mnist", tmp_path / "none")
    message = str(caught.value)
    assert message.startswith(
        "cannot download https://example.org/train-images-idx3-ubyte.gz (Name or service not known)"
    )
    assert "yourself, or use the dataset digits" in message and "\n" not in message


def serve(monkeypatch, answers: dict[str, bytes]) -> None:
    monkeypatch.setattr(publishers.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(answers[url]))


def test_absent_files_are_downloaded_and_kept(tiny_mnist, tmp_path, monkeypatch):
    serve(monkeypatch, {f"https://example.org/{n}.gz": data for n, data in zip(NAMES, tiny_mnist, strict=True)})
    assert len(load_dataset("mnist", tmp_path).train()) == 30
    assert sorted(path.name for path in (tmp_path / "mnist").iterdir()) == sorted(f"{name}.gz" for name in NAMES)
    monkeypatch.setattr(publishers.urllib.request, "urlopen", None)
    assert len(load_dataset("mnist", tmp_path).train()) == 30


@pytest.mark.parametrize("wrong", [b"other", b"datum", b"data and more" * 1000])
def test_a_wrong_download_leaves_nothing_behind(tmp_path, monkeypatch, wrong):
    file = PublishedFile("https://example.org/file.gz", 5, hashlib.sha256(b"datas").hexdigest())
    serve(monkeypatch, {file.url: wrong})
    with pytest.raises(DatasetError, match="is not the published file"):
        download(file, tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- CIFAR-10 ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_cifar(tmp_path, monkeypatch) -> tuple[dict[str, bytes], Path]:
    """Six binary batches of four images each, and an archive of them that counts as published."""
    rng = np.random.default_rng(1)
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    batches = {name: b"".join(bytes([index % 10]) + rng.bytes(PIXELS) for index in range(4)) for name in names}
    archive = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in batches.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    data = archive.read_bytes()
    published = PublishedFile(f"https://example.org/{archive.name}", len(data), hashlib.sha256(data).hexdigest())
    digests = tuple(hashlib.sha256(batch).hexdigest() for batch in batches.values())
    monkeypatch.setattr(datasets, "CIFAR10", CifarSource(("cifar10",), published, datasets.CIFAR10.python, digests))
    return batches, archive


def pickled(binary: bytes) -> bytes:
    images, labels = parse_binary_batch(binary)
    return pickle.dumps({b"data": images.reshape(-1, PIXELS), b"labels": labels.tolist()}, protocol=2)


def test_cifar_is_read_from_the_archive_and_from_either_folder_alike(tiny_cifar, tmp_path):
    batches, archive = tiny_cifar
    from_archive = load_dataset("cifar10", archive.parent)
    assert from_archive.train().x.shape == (20, 3, 32, 32)
    write(tmp_path / "bin" / "cifar10" / "cifar-10-batches-bin", batches)
    python = {name.removesuffix(".bin"): pickled(data) for name, data in batches.items()}
    write(tmp_path / "py" / "cifar-10-batches-py", python)
    for folder in ("bin", "py"):
        from_folder = load_dataset("cifar10", tmp_path / folder)
        for part in ("train", "test"):
            a, b = getattr(from_archive, part)(), getattr(from_folder, part)()
            assert np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y)
    assert not (archive.parent / "cifar-10-batches-bin").exists(), "nothing is unpacked"


def test_a_changed_archive_is_refused(tiny_cifar):
    _, archive = tiny_cifar
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    with pytest.raises(DatasetError, match="is not the published archive"):
        load_dataset("cifar10", archive.parent)


def test_a_changed_pixel_is_found_in_either_folder(tiny_cifar, tmp_path):
    batches, _ = tiny_cifar
    changed = bytearray(batches["data_batch_2.bin"])
    changed[100] ^= 1
    batches["data_batch_2.bin"] = bytes(changed)
    write(tmp_path / "bin" / "cifar-10-batches-bin", batches)
    python = {name.removesuffix(".bin"): pickled(data) for name, data in batches.items()}
    write(tmp_path / "py" / "cifar-10-batches-py", python)
    for folder in ("bin", "py"):
        with pytest.raises(DatasetError, match=r"data_batch_2 in .* is not the published batch"):
            load_dataset("cifar10", tmp_path / folder)


def test_a_truncated_batch_is_named(tiny_cifar, tmp_path):
    batches, _ = tiny_cifar
    batches["data_batch_3.bin"] = batches["data_batch_3.bin"][:-1]
    write(tmp_path / "data" / "cifar-10-batches-bin", batches)
    with pytest.raises(DatasetError, match=r"data_batch_3 in .* is unusable: .* not a whole number of"):
        load_dataset("cifar10", tmp_path / "data")
    (tmp_path / "data" / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    with pytest.raises(DatasetError, match=r"cannot read .*test_batch.bin: No such file"):
        load_dataset("cifar10", tmp_path / "data")


# --- the user's own data ----------------------------------------------------------------------------------------------

IMAGES, LABELS = np.zeros((6, 9, 9), np.uint8), np.array([0, 1, 2, 0, 1, 2])


class Arrays:
    def train(self):
        return IMAGES + 255, LABELS

    def test(self):
        return Samples(np.zeros((2, 1, 9, 9), np.float32), np.array([3, 0]))


class TorchParts:
    def train(self):
        return torch.utils.data.TensorDataset(torch.full((6, 1, 9, 9), 0.5), torch.tensor(LABELS))

    def test(self):
        return self.train()


class Broken:
    def train(self):
        return IMAGES.astype(np.float32) + 2, LABELS

    test = 3


class Raising:
    def train(self):
        return 1 / 0

    test = train


def test_a_module_of_the_users_that_raises_is_a_sentence_with_file_and_line(tmp_path, monkeypatch):
    with pytest.raises(
        DatasetError, match=r"raised ZeroDivisionError: division by zero \(test_datasets.py, line \d+\)"
    ):
        load_dataset(f"{__name__}:Raising")
    (tmp_path / "raises_on_import.py").write_text("\nraise RuntimeError('no licence')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DatasetError, match=r"raised RuntimeError: no licence \(raises_on_import.py, line 2\)"):
        load_dataset("raises_on_import:data")


def test_an_object_with_train_and_test_is_a_data_set():
    loaded = load_dataset(f"{__name__}:Arrays")
    assert (loaded.classes, loaded.input_shape) == (4, (1, 9, 9))
    assert loaded.train().x.min() == 1.0
    loaded = load_dataset(f"{__name__}:TorchParts")
    assert loaded.classes == 3 and loaded.train().x.mean() == 0.5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "unknown dataset 'nothing': choose digits, mnist, fashion-mnist, cifar10"),
        ("no_such_module_here:data", "cannot load 'no_such_module_here:data': No module named"),
        (f"{__name__}:Nothing", "cannot load .* has no attribute 'Nothing'"),
        (f"{__name__}:Broken", r"Broken.train\(\) cannot be used: images must lie in \[0, 1\]"),
        (f"{__name__}:IMAGES", r"has no method train\(\): a dataset needs train\(\) and test\(\)"),
        ("absent.npz", "cannot read absent.npz: No such file or directory"),
        ("absent.safetensors", "cannot read absent.safetensors: No such file"),
    ],
)
def test_bad_names_are_a_sentence(name, message):
    with pytest.raises(DatasetError, match=message):
        load_dataset(name)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_files_of_arrays(tmp_path, suffix):
    arrays = {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:3], "y_test": LABELS[:3]}
    path = tmp_path / f"scans{suffix}"
    save = np.savez if suffix == ".npz" else lambda target, **parts: save_file(parts, target)
    save(path, **arrays)
    loaded = load_dataset(str(path))
    assert (loaded.name, loaded.classes, len(loaded.test())) == ("scans", 3, 3)
    del arrays["y_test"]
    save(path, **arrays)
    with pytest.raises(DatasetError, match="lacks y_test: it must hold x_train"):
        load_dataset(str(path))
    path.write_bytes(b"rubbish")
    with pytest.raises(DatasetError, match=r"is not a file of arrays|is no \.npz archive: write it with numpy\.savez"):
        load_dataset(str(path))


def test_an_npz_with_a_pickle_inside_is_refused(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, x_train=np.array([print], dtype=object), y_train=LABELS, x_test=IMAGES, y_test=LABELS)
    with pytest.raises(DatasetError, match="has Python objects in x_train, which are never unpickled"):
        load_dataset(str(path))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES[0], LABELS, "images must have shape"),
        (IMAGES[:0], LABELS[:0], "images must have shape"),
        (IMAGES, LABELS[:5], r"6 images, but labels of shape \(5,\)"),
        (IMAGES, LABELS - 1, "whole numbers from 0"),
        (IMAGES, LABELS * 0.5, "whole numbers from 0"),
        (IMAGES.astype(np.int64), LABELS, "unsigned bytes or floating point"),
        (IMAGES * np.float32("nan"), LABELS, "hold NaN or infinity"),
        (IMAGES + np.float32(1.5), LABELS, r"must lie in \[0, 1\]"),
    ],
)
def test_unusable_arrays_are_a_sentence(images, labels, message):
    with pytest.raises(InvalidInput, match=message):
        as_samples(images, labels)
