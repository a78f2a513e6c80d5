"""The terms' table ``[task]``: a bundle, or a task that ships with fedgrove."""

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.terms import config_of, parse_config
from tests.node.learning.tables.tables import options

BUNDLE = "b" + 58 * "a"
TABULAR = {"name": "tabular", "options": options()}


def terms(task, **tables):
    return config_of({"strategy": {"name": "fedavg"}, "task": task, **tables})[0]


def test_terms_with_a_shipped_task_survive_their_canonical_form():
    config = terms(TABULAR)
    assert parse_config(config.to_bytes()) == config
    assert config.task is not None and config.task.table is not None and config.task.table.target == "ill"


def test_a_bundles_options_may_be_lists_and_tables():
    task = {"bundle": BUNDLE, "options": {"hidden": [4, 5], "columns": {"age": {"range": [0, 1.5]}}}}
    config = terms(task)
    assert parse_config(config.to_bytes()).task == config.task == TaskSettings(BUNDLE, options=task["options"])
    assert config.task is not None and config.task.table is None


def test_options_that_nest_too_deep_are_refused():
    deep: list = []
    for _ in range(9):
        deep = [deep]
    with pytest.raises(InvalidConfig, match=r"task\.options\.deep must be nested at most 8 levels deep"):
        terms({"bundle": BUNDLE, "options": {"deep": deep}})


@pytest.mark.parametrize(
    ("task", "tables", "sentence"),
    [
        ({}, {}, "task must be given a bundle, or the name of a shipped task"),
        (TABULAR | {"bundle": BUNDLE}, {}, "task must be given a bundle, or the name of a shipped task"),
        (TABULAR | {"name": "forest"}, {}, r"task\.name must be one of images, tabular"),
        (TABULAR | {"shared": "x.csv"}, {}, r"task\.shared must be left out where task\.name is given"),
        (TABULAR | {"options": options(target=1)}, {}, r"task\.options\.target must be of type str"),
        (
            TABULAR | {"options": options(scale="federated")},
            {"masking": {"bound": 0.5}},
            r'masking\.bound must be at least 1 where task\.options\.scale is "federated"',
        ),
    ],
)
def test_a_mistake_names_its_key(task, tables, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        terms(task, **tables)
