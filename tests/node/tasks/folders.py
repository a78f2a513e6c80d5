"""Folders of tasks for tests."""

from pathlib import Path

from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.lock import LOCK_NAME, PackageLock

LOCK = PackageLock({"numpy": "1.0"}).to_bytes()
TASK = b"import numpy\n\n\nclass Mine:\n    rate = 0.1\n"
FILES = {"task.py": TASK, "README.md": b"# Mine\n", "layers/block.py": b"WIDTH = 16\n", LOCK_NAME: LOCK}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def bundle(**changed: bytes) -> Bundle:
    """A bundle with other contents of ``task.py`` (``task``) and more Python files."""
    return Bundle.of({**FILES, **{f"{name}.py": data for name, data in changed.items()}})
