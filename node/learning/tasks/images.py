"""The shipped task ``images``: members' images by class, and one of the shipped networks."""

from pathlib import Path

from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.image_files import read_images, read_unlabelled
from fedgrove.node.learning.image_settings import ImageSettings
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.tasks.network import Network
from fedgrove.node.learning.tasks.task import Answers, Data, Unlabelled


class Images(Network):
    """Images without code: their classes, shape and network are what ``[task.options]`` says (``ImageSettings``)."""

    def __init__(self, **options: object) -> None:
        self.settings: ImageSettings = build(ImageSettings, options, "task.options")
        super().__init__(self.settings.spec)

    def data(self, source: Path) -> Data:
        """A folder of classes or a file of arrays; of images to evaluate on only, the same to train on."""
        parts = {part: _pair(samples) for part, samples in read_images(source, self.settings).items()}
        return Data(parts.get("train", parts.get("test")), parts.get("test"))

    def unlabelled(self, source: Path) -> Unlabelled | None:
        """A folder of images that are in no folder of a class, or an array ``x``; None where the images are by class.

        Raises DatasetError as ``data`` does.
        """
        found = read_unlabelled(source, self.settings)
        return None if found is None else Unlabelled(found.images, names=found.names)

    def answers(self) -> Answers:
        return Answers(self.settings.classes, "class")


def _pair(samples: Samples) -> tuple[object, object]:
    return samples.x, samples.y
