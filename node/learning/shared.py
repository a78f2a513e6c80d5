"""The shared set d_share: a few samples a class that volunteers give, on which FedAom measures a model's behaviour."""

import numpy as np
from safetensors.numpy import save as safetensors_save

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.arrays import arrays_of
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec

MAX_SHARED_BYTES = 64 << 20


def draw_shared(samples: Samples, per_class: int, rng: np.random.Generator) -> Samples:
    """Draw ``per_class`` samples of every label, sorted by label (FedAom section 4.2: 5 a class).

    Raises
    ------
    InvalidInput
        A class has fewer samples.
    """
    if per_class < 1:
        raise InvalidInput(f"the shared set needs at least 1 sample per class, not {per_class}")
    chosen = []
    for label in np.unique(samples.y):
        indices = np.flatnonzero(samples.y == label)
        if len(indices) < per_class:
            raise InvalidInput(f"class {label} has {len(indices)} samples, fewer than the {per_class} a class to share")
        chosen.append(np.sort(rng.choice(indices, per_class, replace=False)))
    return samples.take(np.concatenate(chosen))


def shared_to_bytes(shared: Samples) -> bytes:
    """Serialise as safetensors with ``x`` and ``y``; equal sets give equal bytes."""
    return safetensors_save({"x": np.ascontiguousarray(shared.x), "y": np.ascontiguousarray(shared.y)})


def shared_from_bytes(data: bytes, spec: ModelSpec) -> Samples:
    """Parse a shared set that came from the store.

    Raises
    ------
    DatasetError
        Not safetensors, other tensors than x and y, wrong types or shapes, values outside [0, 1], labels out of range.
    """
    if len(data) > MAX_SHARED_BYTES:
        raise DatasetError(f"the shared set has {len(data)} bytes, more than the {MAX_SHARED_BYTES} allowed")
    try:
        tensors = arrays_of(data)
    except InvalidContent as fault:
        raise DatasetError(f"the shared set {fault}") from None
    if set(tensors) != {"x", "y"}:
        raise DatasetError("the shared set must hold exactly the tensors x and y")
    x, y = tensors["x"], tensors["y"]
    if x.dtype != np.float32 or x.ndim != 4 or x.shape[1:] != spec.input_shape or len(x) == 0:
        raise DatasetError(f"x must be float32 images of shape {spec.input_shape}, not {x.dtype} {x.shape}")
    if y.dtype != np.int64 or y.shape != x.shape[:1]:
        raise DatasetError(f"y must be int64 ({len(x)},), not {y.dtype} {y.shape}")
    # The comparison is False for NaN, so this also refuses values that are not finite.
    if not ((x >= 0) & (x <= 1)).all():
        raise DatasetError("x holds a value outside [0, 1]")
    if int(y.min()) < 0 or int(y.max()) >= spec.classes:
        raise DatasetError(f"y holds a label outside 0 … {spec.classes - 1}")
    return Samples(x, y)
