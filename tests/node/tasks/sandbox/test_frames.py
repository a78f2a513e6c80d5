"""Frames: what is packed comes back; what was not asked for is refused."""

import json

import numpy as np
import pytest

from fedgrove.common.text import one_line
from fedgrove.node.base.tensors import Layout, dump
from fedgrove.node.tasks.sandbox.faults import JobFailed
from fedgrove.node.tasks.sandbox.frames import SIZES, body_limit, pack, parse_header, parse_tensors

TENSORS = {"layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "süß\n": np.ones((1, 1, 1), np.float32)}
LAYOUT = Layout.of(TENSORS)


def test_a_frame_comes_back():
    front, *pieces = pack({"loss": 0.5, "names": ["a"]}, TENSORS)
    body = b"".join(pieces)
    sizes, text = SIZES.unpack(front[: SIZES.size]), front[SIZES.size :]
    assert sizes == (len(text), len(body))
    assert parse_header(text) == {"loss": 0.5, "names": ["a"]}
    found = parse_tensors(body, LAYOUT)
    assert all(np.array_equal(found[name], TENSORS[name]) for name in TENSORS)


def test_without_tensors_there_is_no_body():
    assert len(pack({}, {})) == 1
    assert parse_tensors(b"", None) == {}
    assert body_limit(None) == 0


def test_a_header_of_ours_is_finite():
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"loss": float("nan")}, {})


@pytest.mark.parametrize("shapes", [[(1,)], [(2**20,)], [(3,) * 8] * 100, [()]])
def test_the_limit_leaves_room_for_every_way_to_write_a_layout(shapes):
    tensors = {f"\x01ü{number}" * 9: np.zeros(shape, np.float32) for number, shape in enumerate(shapes)}
    layout, body = Layout.of(tensors), dump(tensors)
    head = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
    widest = json.dumps(head, ensure_ascii=True, indent=1)
    assert max(len(body), 8 + len(widest) + 4 * layout.length) <= body_limit(layout)
    assert body_limit(layout) < len(body) + 1024 + 2000 * len(shapes)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"1", b"\xff", b'{"a": NaN}', b'{"a": 1e400}', b"[" * 10**6, b'{"a": ' * 30 + b"1" + b"}" * 30),
        *(b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b'{"a": [{"b": "x\\ud800\\u0041"}]}'),
        *(b'{"a": 1' + b"0" * zeros + b"}" for zeros in (309, 4000, 10**5)),
    ],
)
def test_headers_that_are_no_flat_finite_object_are_refused(text):
    with pytest.raises(JobFailed):
        parse_header(text)


def test_pairs_of_surrogates_are_characters():
    assert parse_header(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_other_types_are_refused():
    from safetensors.numpy import save

    double = save({name: tensor.astype(np.float64) for name, tensor in TENSORS.items()})
    with pytest.raises(JobFailed, match="float32"):
        parse_tensors(double, LAYOUT)


def test_one_line_is_one_short_line():
    assert one_line("a\x1b[0m\n\tb  c", 50) == "a [0m b c"
    assert one_line("x" * 10**6, 10) == "x" * 9 + "…"
    assert one_line("\u202eevil\u0000", 20) == "evil"
