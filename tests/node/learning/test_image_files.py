"""Images as arrays, from folders and files of arrays; whatever is wrong with one is a sentence that names it."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from numpy.lib import format as npy
from PIL import Image
from safetensors.numpy import save_file

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning import image_files
from fedgrove.node.learning.image_files import read_images
from fedgrove.node.learning.publishers import DatasetError
from tests.node.base.test_arrays import archive, header_of
from tests.node.learning.images import picture, settings, write_bars

GREY = np.arange(64).reshape(8, 8) * 4
COLOURS = np.stack([GREY, 255 - GREY, GREY // 2], axis=-1)


@pytest.fixture
def mine(tmp_path):
    """A member's folder: one whose name began with ``test`` would be to evaluate on."""
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, rows=b"", depth=8, colour=0):
    """A PNG file that claims these sizes, whatever its rows hold."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    image = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + image


def test_a_folder_of_classes_gives_images_and_labels_sorted_by_class_and_name(mine):
    picture(mine / "up" / "a.png", GREY)
    picture(mine / "across" / "b.png", 255 - GREY)
    picture(mine / "across" / "a.PNG", GREY)
    (mine / "across" / ".hidden").write_text("")
    found = read_images(mine, settings())
    assert set(found) == {"train"} and found["train"].y.tolist() == [0, 0, 1]
    assert np.array_equal(found["train"].x[:, 0] * 255, np.stack([GREY, 255 - GREY, GREY]).astype(np.float32))


def test_colours_come_first_and_grey_is_the_images_own_brightness(mine):
    picture(mine / "up" / "a.png", COLOURS)
    coloured = read_images(mine, settings(shape=[3, 8, 8]))["train"].x
    assert np.array_equal(np.rint(coloured[0] * 255), COLOURS.transpose(2, 0, 1))
    grey = np.rint(read_images(mine, settings())["train"].x[0, 0] * 255)
    assert np.abs(grey - COLOURS @ [0.299, 0.587, 0.114]).max() <= 1


def test_a_jpeg_is_turned_as_its_camera_says(mine):
    (mine / "up").mkdir()
    image, exif = Image.fromarray(np.repeat(GREY[:, :1], 8, 1).astype(np.uint8)), Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees, clockwise
    image.save(mine / "up" / "a.jpg", quality=95, exif=exif)
    found = read_images(mine, settings())["train"].x[0, 0] * 255
    assert np.abs(found - GREY[::-1, 0][None, :]).max() < 6


def test_train_and_test_are_the_parts_of_a_folder(tmp_path):
    write_bars(tmp_path / "train", 6, 0)
    write_bars(tmp_path / "test", 4, 1)
    found = read_images(tmp_path, settings())
    assert {part: len(samples) for part, samples in found.items()} == {"train": 6, "test": 4}


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_file_of_arrays_has_the_parts_that_it_holds(tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    arrays = {"x_test": GREY[None].astype(np.uint8), "y_test": np.array([1])}
    np.savez(path, **arrays) if ending == "npz" else save_file(arrays, path)
    found = read_images(path, settings())
    assert set(found) == {"test"} and found["test"].y.tolist() == [1]
    assert np.array_equal(np.rint(found["test"].x[0, 0] * 255), GREY)


def test_a_folder_or_file_that_is_called_test_is_to_evaluate_on(tmp_path):
    assert set(read_images(write_bars(tmp_path / "tests", 4, 0), settings())) == {"test"}


def test_other_sizes_are_stretched_where_the_terms_say_so(mine):
    picture(mine / "up" / "a.png", np.full((20, 30), 51))
    found = read_images(mine, settings(size="scale"))["train"].x
    assert found.shape == (1, 1, 8, 8) and np.allclose(found, 0.2)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("up/a.gif", b"GIF89a", "up/a.gif must end in .jpeg, .jpg, .png"),
        ("up/a.png", b"GIF89a", "up/a.png is not an image that can be read: cannot identify image file"),
        ("up/a.png", b"", "up/a.png is not an image that can be read: cannot identify image file"),
        ("up/a.png", png(8, 8), "up/a.png is not an image that can be read:"),
        ("up/a.png", png(8, 8, bytes(72))[:-30], "up/a.png is not an image that can be read:"),
        ("up/a.png", png(9000, 9000), "up/a.png has more than 67108864 pixels: scale it"),
        ("up/a.png", png(1 << 30, 1 << 30), "up/a.png is not an image that can be read: Image size"),
        ("up/a.png", png(8, 8, bytes(136), depth=16), "up/a.png has pixels of kind I;16: save it with 8 bits"),
        ("up/a.png", png(4, 8, bytes(40)), "up/a.png has 4×8 pixels, and the terms say 8×8: scale it, or agree on"),
        ("down/a.png", png(8, 8), "down is none of the classes that the terms list (across, up)"),
        ("a.png", png(8, 8), "a.png lies outside the folders of the classes (across, up)"),
    ],
)
def test_a_fault_names_its_file(mine, name, data, sentence):
    path = mine / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    with pytest.raises(DatasetError) as fault:
        read_images(mine, settings())
    assert sentence in str(fault.value), str(fault.value)


def test_text_in_an_image_that_unpacks_to_gigabytes_is_refused(tmp_path):
    bomb = chunk(b"zTXt", b"comment\0\0" + zlib.compress(bytes(1 << 26), 9))
    whole = png(8, 8, bytes(72))
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "a.png").write_bytes(whole[:33] + bomb + whole[33:])
    with pytest.raises(DatasetError, match=r"up/a\.png is not an image that can be read: Decompressed data too large"):
        read_images(tmp_path, settings())


def test_a_pipe_in_place_of_an_image_is_not_waited_for(tmp_path):
    (tmp_path / "up").mkdir()
    os.mkfifo(tmp_path / "up" / "a.png")
    with pytest.raises(DatasetError, match=r"up/a\.png is not a plain file"):
        read_images(tmp_path, settings())


def test_nothing_is_a_sentence(tmp_path):
    (tmp_path / "up").mkdir()
    with pytest.raises(DatasetError, match="has no image in a folder of its class"):
        read_images(tmp_path, settings())


def test_files_and_images_beyond_the_limits_are_not_read(tmp_path, monkeypatch):
    write_bars(tmp_path, 4, 0)
    monkeypatch.setattr(image_files, "MAX_FILE_BYTES", 20)
    with pytest.raises(DatasetError, match=r"000\.png is larger than 0 MiB"):
        read_images(tmp_path, settings())
    monkeypatch.setattr(image_files, "MAX_VALUES", 3 * 64)
    with pytest.raises(DatasetError, match="more than 3 images of the terms' shape"):
        read_images(tmp_path, settings())


LABELS = npy.dtype_to_descr(np.dtype(np.int64))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x_train": header_of((1 << 30,), "|u1") + bytes(8)}, "claims 1073741824 bytes for x_train, but has 8"),
        (
            {"y_train": header_of((1,), LABELS) + bytes([7] + [0] * 7)},
            "there is a label 7, the federation's are 0 to 1",
        ),
        ({"x_train": header_of((1, 9, 8), "|u1") + bytes(72)}, "images have shape 1x9x8"),
        ({"x_train": header_of((1, 1, 8, 8), "|O") + bytes(512)}, "has Python objects in x_train"),
        ({"x_train": header_of((1, 8, 8), "<i8") + bytes(512)}, "images must be unsigned bytes or floating point"),
        ({"x_train": None}, "has neither x_train and y_train nor x_test and y_test"),
    ],
)
def test_a_fault_of_arrays_is_a_sentence(tmp_path, changes, sentence):
    fine = {"x_train": header_of((1, 8, 8), "|u1") + bytes(64), "y_train": header_of((1,), LABELS) + bytes(8)}
    members = {name: value for name, value in (fine | changes).items() if value is not None}
    path = archive(tmp_path / "mine.npz", **members)
    with pytest.raises(DatasetError) as fault:
        read_images(path, settings())
    assert sentence in str(fault.value), str(fault.value)


def test_an_array_of_more_values_than_are_read_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "MAX_VALUES", 100)
    np.savez_compressed(tmp_path / "mine.npz", x_train=np.zeros((3, 8, 8), np.uint8), y_train=np.zeros(3, np.int64))
    with pytest.raises(DatasetError, match="has more than 100 values in x_train: give fewer"):
        read_images(tmp_path / "mine.npz", settings())


def test_a_part_that_is_there_twice_and_a_file_with_both_parts_are_refused(tmp_path):
    write_bars(tmp_path / "train", 2, 0)
    whole = io.BytesIO()
    arrays = {"x_train": GREY[None] / 255, "y_train": [0], "x_test": GREY[None] / 255, "y_test": [0]}
    np.savez(whole, **{name: np.array(value) for name, value in arrays.items()})
    (tmp_path / "test.npz").write_bytes(whole.getvalue())
    with pytest.raises(DatasetError, match=r"test\.npz must hold x_test and y_test alone"):
        read_images(tmp_path, settings())
    (tmp_path / "train.npz").write_bytes(whole.getvalue())
    with pytest.raises(DatasetError, match="has a part twice: keep one of"):
        read_images(tmp_path, settings())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"classes": ["one"]}, "task.options.classes must be a list of at least two different names"),
        ({"classes": ["one", "../two"]}, "task.options.classes must be names of folders"),
        ({"classes": ["one", "test"]}, "task.options.classes must be names of folders"),
        ({"shape": [8, 8]}, r"task.options.shape must be \[channels, height, width\]"),
        ({"model": "resnet"}, "task.options.model must be one of paper-cnn"),
        ({"size": "crop"}, "task.options.size must be one of refuse, scale"),
        ({"classes": [str(number) for number in range(10_001)]}, "task.options.classes must be"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_their_key(changes, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        settings(**changes)


def test_many_channels_need_arrays(tmp_path):
    picture(tmp_path / "up" / "a.png", GREY)
    with pytest.raises(DatasetError, match="image files have 1 or 3 channels, and the terms say 4: give arrays"):
        read_images(tmp_path, settings(shape=[4, 8, 8]))
