"""``python kubo_folder.py REPO BLOCKS ROOT FOLDER TARGET``: what Kubo itself makes of a directory.

Gives the node of a repository the blocks of a ``DiskStore``, lets it write the directory ROOT to TARGET, and prints the
CID that it would give to FOLDER (its defaults: profile unixfs-v0-2015). A process of its own, as Kubo ends with it.
"""

import os
import sys
from pathlib import Path

from fedgrove.ipfs.cid import CID
from fedgrove.node.devnet.kubo.library import Kubo


def main(repo: Path, blocks: Path, root: CID, folder: Path, target: Path) -> None:
    kubo = Kubo(repo)
    for block in blocks.iterdir():
        place = kubo.block_path(bytes.fromhex(block.name))
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(block.read_bytes())
    kubo.open()
    if kubo.download(root, target) != 0:
        sys.exit("Kubo did not write the directory")
    print(kubo.name_file(folder), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), CID.parse(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5]))
