"""Lines that a trained model writes: ``python examples/generation/write.py model.safetensors python3- lib game``."""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parent / "task"))
from task import Lines


def main() -> None:
    model = Lines().model()
    model.load_state_dict(load_file(sys.argv[1]))
    generator = torch.Generator().manual_seed(0)
    for begin in sys.argv[2:]:
        print(model.write(begin, generator))


if __name__ == "__main__":
    main()
