"""Terms drafted from images: what they state reads these images."""

import tomllib

import numpy as np
import pytest

from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.drafting import draft_image_terms
from fedgrove.node.learning.image_files import read_images
from fedgrove.node.learning.image_settings import ImageSettings
from fedgrove.node.learning.publishers import DatasetError
from tests.node.learning.images import picture, write_bars


def drafted(source):
    terms = tomllib.loads(draft_image_terms(source))
    assert terms["task"]["name"] == "images" and terms["training"]
    return build(ImageSettings, terms["task"]["options"], "task.options")


@pytest.mark.parametrize("inside", ["", "train"])
def test_a_folder_gives_its_classes_and_the_one_size_of_its_images(tmp_path, inside):
    write_bars(tmp_path / "mine" / inside, 4, 0)
    found = drafted(tmp_path / "mine")
    assert (found.classes, found.shape, found.size, found.model) == (("across", "up"), (1, 8, 8), "refuse", "small-cnn")
    assert len(read_images(tmp_path / "mine", found)["train"]) == 4


def test_images_of_several_sizes_are_stretched_and_one_with_colours_makes_all_coloured(tmp_path):
    picture(tmp_path / "mine" / 'a "b"' / "1.png", np.zeros((40, 30, 3)))
    picture(tmp_path / "mine" / "c" / "1.png", np.zeros((50, 90)))
    found = drafted(tmp_path / "mine")
    assert (found.classes, found.shape, found.size) == (('a "b"', "c"), (3, 30, 30), "scale")
    assert read_images(tmp_path / "mine", found)["train"].x.shape == (2, 3, 30, 30)


def test_arrays_give_their_shape_and_a_class_for_each_label(tmp_path):
    np.savez(tmp_path / "mine.npz", x_train=np.zeros((5, 3, 32, 30), np.uint8), y_train=np.array([0, 1, 2, 0, 1]))
    found = drafted(tmp_path / "mine.npz")
    assert (len(found.classes), found.shape, found.model) == (3, (3, 32, 30), "paper-cnn-centred")
    assert len(read_images(tmp_path / "mine.npz", found)["train"]) == 5


def test_what_cannot_be_learned_is_a_sentence(tmp_path):
    picture(tmp_path / "mine" / "one" / "a.png", np.zeros((8, 8)))
    with pytest.raises(DatasetError, match="mine has 1 classes"):
        draft_image_terms(tmp_path / "mine")
    np.savez(tmp_path / "mine.npz", x_train=np.zeros((5, 8, 8)), y_train=np.zeros(5))
    with pytest.raises(DatasetError, match=r"mine\.npz must hold images"):
        draft_image_terms(tmp_path / "mine.npz")
    np.savez(tmp_path / "mine.npz", x_test=np.zeros((5, 8, 8)))
    with pytest.raises(DatasetError, match=r"mine\.npz lacks x_train or y_train"):
        draft_image_terms(tmp_path / "mine.npz")
    with pytest.raises(DatasetError, match=r"there is no .*away: give a folder with a folder of images for each class"):
        draft_image_terms(tmp_path / "away")
