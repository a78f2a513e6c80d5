"""Model bytes: deterministic, and hostile bytes are refused by name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load as safetensors_load
from safetensors.numpy import save

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout, add, dump, flatten, largest, load, unflatten, with_metadata

shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)
arrays = hnp.arrays(np.float32, shapes, elements=st.floats(-8, 8, width=32))
models = st.dictionaries(st.text("abc.", min_size=1, max_size=5), arrays, min_size=1, max_size=4)


@given(models)
def test_bytes_and_vector_round_trip(model):
    data = dump(model)
    again = load(data, Layout.of(model))
    assert dump(dict(reversed(again.items()))) == data
    for name, tensor in unflatten(flatten(model), Layout.of(model)).items():
        np.testing.assert_array_equal(tensor, model[name])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_by_name(value):
    with pytest.raises(InvalidContent, match=r"'w'.*finite"):
        load(dump({"w": np.array([1, value], np.float32)}))


def test_another_type_is_refused():
    with pytest.raises(InvalidContent, match="float64"):
        load(save({"w": np.zeros(2)}))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"a": np.zeros(2, np.float32)}, "missing"),
        ({"w": np.zeros(2, np.float32), "x": np.zeros(1, np.float32)}, "unexpected"),
        ({"w": np.zeros(3, np.float32)}, "shape"),
    ],
)
def test_another_layout_is_refused(found, sentence):
    with pytest.raises(InvalidContent, match=sentence):
        load(dump(found), Layout.of({"w": np.zeros(2, np.float32)}))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_parsed_never_more(data):
    try:
        load(data)
    except InvalidContent:
        return
    assert dump(load(data)) is not None


def test_a_truncated_model_is_refused():
    with pytest.raises(InvalidContent, match="safetensors"):
        load(dump({"w": np.zeros(5, np.float32)})[:-1])


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(InvalidContent, match="2 parameters"):
        unflatten(np.zeros(3, np.float32), Layout.of({"w": np.zeros(2, np.float32)}))


def test_metadata_leave_the_tensors_as_they_are_and_are_read_by_safetensors(tmp_path):
    tensors = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.ones(1, np.float32)}
    metadata = {"round": "3", "cid": "bafy"}
    data = with_metadata(dump(tensors), metadata)
    assert data == with_metadata(dump(tensors), dict(reversed(metadata.items())))
    (tmp_path / "model").write_bytes(data)
    with safe_open(tmp_path / "model", "np") as file:
        assert file.metadata() == metadata
    assert dump(load(data)) == dump(tensors) and load(data).keys() == {"a", "b"}


@given(models)
def test_the_bytes_are_those_of_the_safetensors_package(model):
    names = {name + 'é\n"': value for name, value in model.items()}
    assert dump(names) == save(names)


@given(models, st.integers(0, 400), st.integers(0, 255))
def test_what_is_read_is_what_the_safetensors_package_reads(model, place, value):
    data = bytearray(dump(model))
    data[place % len(data)] = value
    try:
        found = load(bytes(data))
    except InvalidContent:
        return
    other = safetensors_load(bytes(data))
    assert found.keys() == other.keys()
    assert all(np.array_equal(found[name], other[name]) and found[name].dtype == np.float32 for name in found)


MORE = ',"x":1'


def described(offsets, shape=(2,), dtype="F32", more=""):
    return f'{{"dtype":"{dtype}","shape":{list(shape)},"data_offsets":{list(offsets)}{more}}}'


@pytest.mark.parametrize(
    "entries",
    [
        f'"a":{described((0, 8))},"a":{described((0, 8))}',
        f'"a":{described((0, 8))},"b":{described((0, 8))}',
        f'"a":{described((0, 8))},"b":{described((16, 24))}',
        f'"a":{described((0, 12))}',
        f'"a":{described((-8, 0))}',
        f'"a":{described((0, 8), (-1, -2))}',
        f'"a":{described((0, 8), (True, 2))}',
        f'"a":{described((0, 0), (1 << 62, 0))},"b":{described((0, 1 << 64), (1 << 62,))}',
        f'"a":{described((0, 8), (1,) * 70 + (2,))}',
        f'"a":{described((0, 8), more=MORE)}',
        '"a":[]',
        '"a":{}',
        "[" * 100_000,
    ],
)
def test_a_header_that_lies_is_refused(entries):
    text = f"{{{entries}}}".encode()
    text += b" " * (-len(text) % 8)
    with pytest.raises(InvalidContent):
        load(len(text).to_bytes(8, "little") + text + bytes(24))


def test_tensors_are_added_to_a_vector_in_place_by_their_layout():
    tensors = {"b": np.array([[1, 2], [3, 4]], np.float32), "a": np.array([-5], np.float32)}
    vector = np.arange(5, dtype=np.float32)
    add(vector, tensors)
    assert vector.tolist() == [-5, 2, 4, 6, 8]
    add(vector, tensors, -1)
    assert vector.tolist() == [0, 1, 2, 3, 4] and largest(tensors) == 5
    assert np.isnan(largest({"a": np.array([np.nan, 1], np.float32), "b": tensors["b"]}))


def test_a_model_that_is_read_shares_the_bytes_it_came_in():
    data = bytearray(dump({"w": np.zeros(5, np.float32)}))
    load(data)["w"][0] = 1
    assert load(data)["w"][0] == 1
    assert not load(bytes(data))["w"].flags.writeable
