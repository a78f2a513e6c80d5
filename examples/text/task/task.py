"""Sections of Debian's packages by their descriptions: a pretrained sentence encoder, fine-tuned with LoRA."""

import csv
from pathlib import Path

import fedgrove as fg
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional
from transformers import AutoModel

SECTIONS = {
    "admin": "system administration",
    "fonts": "fonts",
    "games": "games",
    "graphics": "graphics",
    "mail": "mail",
    "math": "mathematics",
    "net": "network",
    "science": "science",
    "sound": "sound and music",
    "web": "web",
}
LABELS = {section: label for label, section in enumerate(SECTIONS)}
SCALE = 10.0  # of the logits: embeddings have length 1


class Sections(fg.Task):
    """Which section a package is in.

    Parameters
    ----------
    rank : int
        Of the LoRA matrices.
    freeze_a : bool
        Whether only B is trained (FFA-LoRA): then the mean of the members' BA is exactly (mean of B)·A.
    tokens : int
        Longer texts are cut.
    """

    def __init__(self, rank: int = 8, freeze_a: bool = False, tokens: int = 24) -> None:
        self.rank, self.freeze_a = rank, freeze_a
        self.tokenizer = Tokenizer.from_file(str(self.base("minilm") / "tokenizer.json"))
        self.tokenizer.enable_truncation(tokens)
        self.tokenizer.enable_padding()

    def model(self) -> nn.Module:
        encoder = AutoModel.from_pretrained(self.base("minilm"))
        head = nn.Linear(encoder.config.hidden_size, len(SECTIONS))
        with torch.no_grad():  # untrained, the head compares a text with the sections' names
            head.weight.copy_(embed(encoder.eval(), **self.encode(list(SECTIONS.values()))))
            head.bias.zero_()
        wanted = {"r": self.rank, "lora_alpha": 2 * self.rank, "target_modules": ["query", "value"]}
        encoder = get_peft_model(encoder, LoraConfig(task_type="FEATURE_EXTRACTION", **wanted))
        if self.freeze_a:
            share_a(encoder)
        return Classifier(encoder, head)

    def data(self, source: Path) -> fg.Data:
        with source.open(encoding="utf-8", newline="") as file:
            texts = [(text, LABELS[section]) for section, text in csv.reader(file, delimiter="\t")]
        return fg.Data(texts, held_out=texts if source.stem.startswith("test") else None)

    def batch(self, items):
        texts, labels = zip(*items, strict=True)
        return self.encode(texts), torch.tensor(labels)

    def encode(self, texts) -> dict[str, torch.Tensor]:
        """Tokens of texts, and which of them are no padding."""
        found = self.tokenizer.encode_batch(list(texts))
        ids, mask = torch.tensor([each.ids for each in found]), torch.tensor([each.attention_mask for each in found])
        return {"input_ids": ids, "attention_mask": mask}


class Classifier(nn.Module):
    """An encoder with LoRA, and a linear head on the embeddings of texts."""

    def __init__(self, encoder: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.head(SCALE * embed(self.encoder, input_ids, attention_mask))


def embed(encoder: nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """The mean of a text's units, of length 1: what the encoder was trained for."""
    units = encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
    present = attention_mask[..., None].to(units.dtype)
    return functional.normalize((units * present).sum(1) / present.sum(1), dim=1)


def share_a(encoder: nn.Module) -> None:
    """Freeze all A, which every member draws alike, as they are not sent."""
    generator = torch.Generator().manual_seed(0)
    for name, weight in encoder.named_parameters():
        if "lora_A" in name:
            nn.init.kaiming_uniform_(weight, a=5**0.5, generator=generator)
            weight.requires_grad_(False)
