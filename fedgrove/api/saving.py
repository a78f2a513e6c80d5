"""A model on record as one safetensors file that says where it is on record."""

import json
from dataclasses import dataclass
from pathlib import Path

from fedgrove.api.history import History
from fedgrove.common.errors import InvalidContent
from fedgrove.common.regular_file import read_regular
from fedgrove.common.text import one_line
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensor_views import metadata
from fedgrove.node.base.tensors import dump, load, with_metadata
from fedgrove.node.learning.moments import second_moments
from fedgrove.node.protocol.prediction import ModelChoice

FORMAT = "fedgrove-model-1"
ON_RECORD, STATE_DICT, ONE_OF = "as on record", "state dict", "one of several"
MAX_MODEL_BYTES = 4 << 30


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


def model_file(
    history: History,
    number: int | None = None,
    as_state_dict: bool = False,
    choice: ModelChoice = ModelChoice(),  # noqa: B008 (frozen)
) -> ModelFile:
    """The file of the model that a round closed with; by default, of the model in force.

    Its tensors are those on record: without the metadata they are, to the byte, the content that ``cid`` names. With
    ``as_state_dict`` they are what ``load_state_dict`` takes, and ``cid`` names what they were computed from. Where
    rounds leave more than one model they are those of the chosen one, and ``cid`` names the content that has them all.

    Raises
    ------
    InvalidInput
        There is no such round, or it did not close.
    StoreError, InvalidContent
        The store does not have the model, its bytes are not those on record, or the rounds leave no one model.
    InvalidConfig
        The rounds leave no model; or several, and the choice names none of them.
    """
    origin, model = history.origin(number), history.model(number)
    if as_state_dict:
        tensors, form = history.state_arrays(number), STATE_DICT
    elif isinstance(model, dict) and not choice:
        tensors, form = model, ON_RECORD
    else:
        tensors, form = history.predicting(number, choice), ONE_OF
    data = dump(tensors)
    if form == ON_RECORD and str(cid_of(data)) != origin.cid:
        raise InvalidContent(f"the model of round {origin.round} is not stored in its canonical form {origin.cid}")
    stated = origin.to_metadata() | {
        "format": FORMAT,
        "form": form,
        "second_moments": json.dumps([] if form == STATE_DICT else list(second_moments(tensors))),
        "terms": history.terms_bytes(number).decode(),
    }
    return ModelFile(with_metadata(data, stated), stated, len(tensors))


def read_model_file(path: Path) -> ModelFile:
    """Read a file that ``model_file`` gave, from whomever; what it says of itself must fit together.

    That the model is on the ledger that it names, only that ledger can say.

    Raises
    ------
    OSError
    InvalidContent
        It is none, lacks the terms, or its tensors or terms are not those that it names.
    """
    data = read_regular(path, MAX_MODEL_BYTES)
    if len(data) > MAX_MODEL_BYTES:
        raise InvalidContent(f"{path.name} is larger than {MAX_MODEL_BYTES >> 30} GiB")
    try:
        about = metadata(data)
        tensors = load(data)
    except InvalidContent as fault:
        raise InvalidContent(f"{path.name} is not a saved model: {fault}") from None
    if not all(_is_text(value) for value in about.values()):
        raise InvalidContent(f"{path.name} has metadata that are not all text")
    if about.get("format") != FORMAT:
        raise InvalidContent(f"{path.name} is not a model that `fedgrove model save` wrote")
    if "terms" not in about:
        raise InvalidContent(f"{path.name} lacks its federation's terms: save it again with this version of fedgrove")
    if about.get("form") not in (ON_RECORD, ONE_OF):
        raise InvalidContent(f"{path.name} holds a state dict, for code of your own: save it without --state-dict")
    if cid_of(about["terms"].encode()).digest.hex() != about.get("terms_digest"):
        raise InvalidContent(f"{path.name} holds other terms than it names")
    if about["form"] == ON_RECORD and str(cid_of(dump(tensors))) != about.get("cid"):
        raise InvalidContent(
            f"{path.name} was altered: its tensors are not those of {one_line(about.get('cid', ''), 100)}"
        )
    return ModelFile(data, about, len(tensors))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist; FileExistsError if it does, and nothing is left of a write that fails."""
    with path.open("xb") as file:
        try:
            file.write(data)
        except BaseException:
            path.unlink()
            raise


def _is_text(value: str) -> bool:
    """Whether a text can be written: JSON may name halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
