"""The terms' table ``[task]``: a bundle, or a task that ships with fedgrove."""

import json

import pytest

from fedgrove.common.wire import canonical_json
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.terms import config_of, parse_config
from tests.node.learning.tables.tables import options

BUNDLE = "b" + 58 * "a"
NETWORK = {"name": "small-mlp", "input_shape": [1, 2, 2], "classes": 3}
TABULAR = {"name": "tabular", "options": options()}


def terms(task, **tables):
    return config_of({"strategy": {"name": "fedavg"}, "task": task, **tables})[0]


def test_terms_with_a_shipped_task_survive_their_canonical_form():
    config = terms(TABULAR)
    assert parse_config(config.to_bytes()) == config
    assert config.task is not None and config.task.table is not None and config.task.table.target == "ill"


def test_the_table_of_a_model_is_short_for_the_task_of_a_shipped_network():
    short, _ = config_of({"strategy": {"name": "fedavg"}, "model": NETWORK})
    config = terms({"name": "network", "options": NETWORK})
    assert config == short and config.network == ModelSpec("small-mlp", (1, 2, 2), 3) and config.contained is None
    assert parse_config(config.to_bytes()) == config and b'"model":{"name"' not in config.to_bytes()
    stored = json.loads(config.to_bytes())
    stored["model"] = stored.pop("task")["options"]
    with pytest.raises(InvalidConfig, match="not in canonical form"):
        parse_config(canonical_json(stored))


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
        (TABULAR | {"name": "forest"}, {}, r"task\.name must be one of images, network, tabular"),
        ({"name": "network", "options": {"name": "vgg"}}, {}, r"task\.options\.classes is missing"),
        (
            {"name": "network", "keep": ["*"], "options": NETWORK},
            {},
            r"task\.keep must be left out where task",
        ),
        (TABULAR, {"model": NETWORK}, r"model must be left out where \[task\] is given"),
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
