"""Example data of a task's folder, as ``fedgrove task new`` writes one: a file with a function ``write(path)``."""

import tempfile
from pathlib import Path

from fedgrove.node.learning.tasks.loading import imported
from fedgrove.node.learning.tasks.task import InvalidTask

EXAMPLE = "example_data.py"


def example_data(folder: Path) -> tuple[str, bytes]:
    """The ending of the example file's name, and its bytes. Runs the folder's code.

    Raises
    ------
    InvalidTask
        The folder has no such file, or it writes no file.
    """
    if not (folder / EXAMPLE).is_file():
        raise InvalidTask(f"there is no {EXAMPLE} in the task's folder")
    module = imported(folder / EXAMPLE)
    with tempfile.TemporaryDirectory() as place:
        module.write(Path(place) / "example")
        written = sorted(path for path in Path(place).iterdir() if path.is_file())
        if len(written) != 1:
            raise InvalidTask(f"write(path) of {EXAMPLE} must write one file, not {len(written)}")
        return written[0].suffix, written[0].read_bytes()
