"""Write the model of a run as a peft adapter, with its head beside it; needs peft's format only, not fedgrove.

    fedgrove model save runs/text/masked model.safetensors
    python examples/text/export.py model.safetensors adapter

The model is what ``fedgrove model save`` writes, or a simulation's ``checkpoint.safetensors``. ``use.py`` loads the
adapter.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ENCODER, HEAD = "encoder.", "head."
A, B = ".lora_A.default.weight", ".lora_B.default.weight"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("adapter", type=Path, help="the folder to write; made when missing")
    parser.add_argument("--base", default="sentence-transformers/all-MiniLM-L6-v2", help="the base's name, for peft")
    given = parser.parse_args()
    tensors = load_file(given.model)
    matrices = {name.removeprefix(ENCODER): each for name, each in tensors.items() if name.startswith(ENCODER)}
    matrices |= frozen_a([name for name in matrices if name.endswith(B)], matrices)
    given.adapter.mkdir(parents=True, exist_ok=True)
    named = {name.replace(".default.", "."): each.contiguous() for name, each in matrices.items()}
    save_file(named, given.adapter / "adapter_model.safetensors")
    head = {name.removeprefix(HEAD): each for name, each in tensors.items() if name.startswith(HEAD)}
    save_file(head, given.adapter / "head.safetensors")
    rank = next(each.shape[1] for name, each in matrices.items() if name.endswith(B))
    config = json.dumps(configuration(given.base, rank), indent=2) + "\n"
    (given.adapter / "adapter_config.json").write_text(config)


def configuration(base: str, rank: int) -> dict:
    """What peft reads of an adapter, as the task has it."""
    return {
        "peft_type": "LORA",
        "task_type": "FEATURE_EXTRACTION",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "target_modules": ["query", "value"],
        "bias": "none",
    }


def frozen_a(names: list[str], present: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All A of a run that froze them, drawn as the task draws them (``share_a``); none where they were trained."""
    if any(name.endswith(A) for name in present):
        return {}
    generator = torch.Generator().manual_seed(0)
    drawn = {}
    for name in sorted(names, key=_place):
        size, rank = present[name].shape
        weight = torch.empty(rank, size)
        drawn[name.replace(B, A)] = torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    return drawn


def _place(name: str) -> tuple[int, str]:
    """Where a matrix stands in the encoder: its layer, and query before value."""
    parts = name.split(".")
    return int(parts[parts.index("layer") + 1]), name


if __name__ == "__main__":
    main()
