"""Load the adapter with transformers and peft alone, and say how many texts it puts into their section.

python examples/text/use.py adapter BASE data/teams/test.tsv
"""

import argparse
import csv
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AutoModel

SECTIONS = ("admin", "fonts", "games", "graphics", "mail", "math", "net", "science", "sound", "web")
BATCH, TOKENS, SCALE = 250, 24, 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("base", type=Path, help="folder of the sentence encoder")
    parser.add_argument("texts", type=Path, help="rows of section and description, with a tab between")
    given = parser.parse_args()
    with given.texts.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    encoder = PeftModel.from_pretrained(AutoModel.from_pretrained(given.base), given.adapter).eval()
    tokenizer = Tokenizer.from_file(str(given.base / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding()
    head = load_file(given.adapter / "head.safetensors")
    right = 0
    for start in range(0, len(rows), BATCH):
        sections, texts = zip(*rows[start : start + BATCH], strict=True)
        logits = SCALE * embed(encoder, tokenizer, list(texts)) @ head["weight"].T + head["bias"]
        right += sum(SECTIONS[label] == section for label, section in zip(logits.argmax(1), sections, strict=True))
    print(f"{right} of {len(rows)} right: {right / len(rows):.4f}")


@torch.no_grad()
def embed(encoder: torch.nn.Module, tokenizer: Tokenizer, texts: list[str]) -> torch.Tensor:
    """The mean of each text's units, of length 1."""
    found = tokenizer.encode_batch(texts)
    mask = torch.tensor([each.attention_mask for each in found])
    units = encoder(torch.tensor([each.ids for each in found]), attention_mask=mask).last_hidden_state
    present = mask[..., None].to(units.dtype)
    return functional.normalize((units * present).sum(1) / present.sum(1), dim=1)


if __name__ == "__main__":
    main()
