"""What terms may say of a table, each mistake in one sentence that names the key."""

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from tests.node.learning.tables.tables import OPTIONS, settings


def column(**keys):
    return {"columns": {"age": keys}}


AGE = OPTIONS["columns"]["age"]


def test_features_are_numbers_by_name_and_then_categories_by_name():
    columns = {
        "b": {"kind": "category", "values": ["x", "y"]},
        "z": {"kind": "number", "range": [0, 1]},
        "a": {"kind": "category", "values": ["x", "y", "z"]},
        "k": {"kind": "number", "range": [0, 1]},
    }
    found = settings(columns=columns)
    assert (found.numbers, found.categories, found.features, found.outputs) == (("k", "z"), ("a", "b"), 7, 2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"columns": {}}, r"task\.options\.columns must be a table for each column"),
        (column(kind="text"), r"task\.options\.columns\.age\.kind must be one of number, category"),
        (column(kind="number"), r'columns\.age\.range must be \[least, largest\] where scale is "ranges"'),
        (column(kind="number", range=[5, 5]), r"columns\.age\.range must be \[least, largest\]"),
        (column(kind="number", range=[5]), r"columns\.age\.range must be \[least, largest\]"),
        (column(kind="number", values=["a"]), r"columns\.age\.values must be left out where kind is number"),
        (column(kind="category"), r"columns\.age\.values must be a list of different texts"),
        (column(kind="category", values=["a", "a"]), r"columns\.age\.values must be a list of different texts"),
        (column(kind="category", values=["a"], range=[0, 1]), r"columns\.age\.range must be left out"),
        (
            {"columns": {"\u00fc": AGE, "u\u0308": AGE}},
            "columns with different names",
        ),
        ({"target": "u\u0308", "columns": {"\u00fc": AGE}}, "a column that is not in columns"),
        ({"classes": ["\u00fc", "u\u0308"]}, r"task\.options\.classes must be a list of at least two"),
        ({"target": "age"}, r"task\.options\.target must be a column that is not in columns"),
        ({"classes": ["one"]}, r"task\.options\.classes must be a list of at least two"),
        ({"target_range": [0, 1]}, r"task\.options\.target_range must be left out"),
        ({"kind": "regression"}, r"task\.options\.classes must be left out"),
        ({"kind": "regression", "classes": None}, r"task\.options\.target_range must be \[least, largest\]"),
        ({"model": "forest"}, r"task\.options\.model must be one of linear, mlp"),
        ({"norm": "batch"}, r"task\.options\.norm must be none where model is linear"),
        ({"hidden": []}, r"task\.options\.hidden must be 1 to 16 widths"),
        ({"separator": ", "}, r"task\.options\.separator must be one character"),
        ({"colums": {}}, r"unknown key task\.options\.colums"),
        (
            {"scale": "federated", "columns": {"sex": OPTIONS["columns"]["sex"]}},
            r"task\.options\.scale must be ranges or none where no column is a number",
        ),
    ],
)
def test_a_mistake_names_its_key(changes, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        settings(**changes)
