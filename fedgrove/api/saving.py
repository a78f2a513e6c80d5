"""A model on record as one safetensors file that says where it is on record."""

import json
from dataclasses import dataclass
from pathlib import Path

from fedgrove.api.history import History, ModelOrigin
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import InvalidModel, Tensors, dump, with_metadata
from fedgrove.node.learning.moments import second_moments

FORMAT = "fedgrove-model-1"


@dataclass(frozen=True)
class ModelFile:
    """A model's file, and what its header says.

    Attributes
    ----------
    data : bytes
        Safetensors.
    metadata : dict
        ``__metadata__`` of the header: where the model is on record, and which form the tensors have.
    tensors : int
        Number of tensors.
    """

    data: bytes
    metadata: dict[str, str]
    tensors: int


def model_file(history: History, number: int | None = None, as_state_dict: bool = False) -> ModelFile:
    """The file of the model that a round closed with; by default, of the model in force.

    Its tensors are those on record: without the metadata they are, to the byte, the content that ``cid`` names. With
    ``as_state_dict`` they are what ``load_state_dict`` takes, and ``cid`` names what they were computed from.

    Raises
    ------
    KeyError
        There is no such round, or it did not close.
    StoreError, InvalidModel
        The store does not have the model, its bytes are not those on record, or the rounds leave no one model.
    """
    origin, model = history.origin(number), history.model(number)
    if not isinstance(model, dict):
        raise InvalidModel("the rounds of this federation leave clusters, not one model: read them with fg.History")
    data = dump(model)
    if str(cid_of(data)) != origin.cid:
        raise InvalidModel(f"the model of round {origin.round} is not stored in its canonical form {origin.cid}")
    tensors = history.state_arrays(number) if as_state_dict else model
    if as_state_dict:
        data = dump(tensors)
    metadata = _metadata(history, origin, model, as_state_dict)
    return ModelFile(with_metadata(data, metadata), metadata, len(tensors))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist; FileExistsError if it does, and nothing is left of a write that fails."""
    with path.open("xb") as file:
        try:
            file.write(data)
        except BaseException:
            path.unlink()
            raise


def _metadata(history: History, origin: ModelOrigin, model: Tensors, as_state_dict: bool) -> dict[str, str]:
    moments = [] if as_state_dict else list(second_moments(model))
    return {
        "format": FORMAT,
        "form": "state dict" if as_state_dict else "as on record",
        "cid": origin.cid,
        "round": str(origin.round),
        "outcome": origin.outcome,
        "ledger": history.ledger.deployment.ledger,
        "chain_id": str(history.ledger.chain_id),
        "terms_digest": origin.terms_digest,
        "second_moments": json.dumps(moments),
    }
