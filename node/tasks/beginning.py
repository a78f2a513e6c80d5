"""A folder to begin with: a model, a reader of data, a test and a README, for one kind of data."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from fedgrove.common.errors import InvalidInput

KINDS = ("tabular", "text", "images")


def begin(folder: Path, kind: str) -> list[str]:
    """Write the files of a kind (one of ``KINDS``) into a folder, made when missing, and return their names.

    Raises
    ------
    InvalidInput
        The folder is not empty, or cannot be written to.
    """
    source = resources.files("fedgrove.node.tasks") / "templates" / kind
    # A module of a template is text as long as it lies here: no part of the product.
    files = {each.name.removesuffix(".txt"): each.read_bytes() for each in source.iterdir() if each.is_file()}
    return write_new(folder, files)


def write_new(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write files by name into a folder, made when missing, all or none; return the names. Raises as ``begin``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput(f"{folder} is not empty and was not changed: give another folder")
        try:
            for name, data in files.items():
                (folder / name).write_bytes(data)
        except BaseException:
            for name in files:
                (folder / name).unlink(missing_ok=True)
            raise
    except OSError as fault:
        raise InvalidInput(f"cannot write to {folder}: {fault.strerror}; give another folder") from None
    return sorted(files)
