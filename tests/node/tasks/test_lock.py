"""The packages that code imports, by its text alone, and the versions that they have here."""

import importlib.metadata

import pytest

from fedgrove.node.tasks.imports import foreign_imports
from fedgrove.node.tasks.lock import PackageLock, check_lock, make_lock
from fedgrove.node.tasks.names import InvalidBundle

NUMPY = importlib.metadata.version("numpy")


def imports(text: str) -> set[tuple[str, bool]]:
    return {(each.name, each.optional) for each in foreign_imports({"task.py": text.encode()})}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch.nn as nn, os, json", {("torch.nn", False)}),
        ("from sklearn.linear_model import Ridge", {("sklearn.linear_model", False)}),
        ("from . import block\nfrom .layers import x", set()),
        ("def f():\n    import scipy\n", {("scipy", False)}),
        ("try:\n    import pandas\nexcept ImportError:\n    pandas = None", {("pandas", True)}),
        ("try:\n    import pandas\nexcept (KeyError, ModuleNotFoundError):\n    pass", {("pandas", True)}),
        ("try:\n    import pandas\nexcept KeyError:\n    pass", {("pandas", False)}),
        ("try:\n    import json\nexcept ImportError:\n    import pandas", {("pandas", False)}),
        ("import typing\nif typing.TYPE_CHECKING:\n    import pandas", {("pandas", True)}),
        ("x = 'import torch'  # import torch", set()),
        pytest.param("x = " + " + ".join(["1"] * 800) + "\nimport torch", {("torch", False)}, id="a long sum"),
    ],
)
def test_imports_are_found_in_the_text(text, found):
    assert imports(text) == found


def test_own_modules_and_tests_do_not_count():
    files = {
        "task.py": b"import block, helpers.deep, numpy",
        "block.py": b"import torch",
        "helpers/deep.py": b"",
        "test_task.py": b"import pytest",
        "conftest.py": b"import hypothesis",
        "tests/more.py": b"import scipy",
        "notes.txt": b"import captum",
    }
    assert sorted(each.name for each in foreign_imports(files)) == ["numpy", "torch"]


@pytest.mark.parametrize("text", [b"def f(:", b"\xff\xfe", b"x = '\0'", b"(" * 5000 + b")" * 5000])
def test_what_is_no_python_is_one_sentence(text):
    with pytest.raises(InvalidBundle, match=r"task\.py"):
        foreign_imports({"task.py": text})


def test_the_lock_names_distributions_and_versions():
    lock = make_lock({"task.py": b"import sklearn.linear_model, numpy as np, fedgrove as fg\nfrom yaml import load\n"})
    assert sorted(lock.packages) == ["fedgrove", "numpy", "pyyaml", "scikit-learn"]
    assert lock.packages["numpy"] == NUMPY
    assert PackageLock.from_bytes(lock.to_bytes()) == lock and not lock.warning()


def test_of_a_shared_namespace_only_the_packages_with_the_module_count(monkeypatch):
    class Fake:
        def __init__(self, *files):
            self.files = files

    packages = {"space-one": Fake("space/one/__init__.py"), "space-two": Fake("space/two.py")}
    monkeypatch.setattr("fedgrove.node.tasks.lock.providers", lambda: {"space": list(packages)})
    monkeypatch.setattr("fedgrove.node.tasks.lock.distribution", packages.__getitem__)
    monkeypatch.setattr("fedgrove.node.tasks.lock.version", lambda package: "3")
    for module, found in [("space.one", ["space-one"]), ("space.two", ["space-two"]), ("space", [*packages])]:
        assert sorted(make_lock({"task.py": f"import {module}".encode()}).packages) == found


def test_a_module_that_nobody_installed_is_named_with_file_and_line():
    with pytest.raises(InvalidBundle, match=r"task\.py, line 2 imports nowhere_at_all.*install it"):
        make_lock({"task.py": b"import os\nimport nowhere_at_all.below\n"})
    assert make_lock({"task.py": b"try:\n    import nowhere_at_all\nexcept ImportError:\n    pass\n"}).packages == {}


def test_other_versions_are_one_sentence():
    lock = PackageLock({"no-package-has-this-name": "2", "numpy": "0.0.1"})
    assert lock.differences() == ("no-package-has-this-name 2 is missing", f"numpy {NUMPY} in place of 0.0.1")
    assert lock.warning().count("\n") == 0 and "install the versions" in lock.warning()


def test_builds_of_one_version_for_other_hardware_are_the_same(monkeypatch):
    monkeypatch.setattr("fedgrove.node.tasks.lock.version", lambda package: "2.13.0+cu130")
    assert make_lock({"task.py": b"import numpy"}).packages == {"numpy": "2.13.0"}
    assert not PackageLock({"numpy": "2.13.0"}).differences()


def test_a_lock_that_leaves_out_what_the_code_imports_is_refused():
    check_lock(PackageLock({"numpy": "0.1"}), {"task.py": b"import numpy, nowhere_at_all"})
    with pytest.raises(InvalidBundle, match=r"line 1 imports torch.*--relock"):
        check_lock(PackageLock({"numpy": "0.1"}), {"task.py": b"import numpy, torch"})


GOOD = PackageLock({"numpy": "1"}).to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        GOOD[:-1],
        GOOD + b" ",
        GOOD.replace(b"  ", b""),
        GOOD.replace(b"lock-1", b"lock-2"),
        GOOD.replace(b'"1"', b"1"),
        GOOD.replace(b'"1"', b'"1\\u001b[2J"'),
        GOOD.replace(b"numpy", b"Numpy"),
        GOOD.replace(b"numpy", b"../numpy"),
        GOOD.replace(b'"numpy": "1"', b'"numpy": "1", "numpy": "2"'),
        GOOD.replace(b'"packages"', b'"more": 1, "packages"'),
        b"[" * 5000,
        b" " * (PackageLock.max_bytes + 1),
        b"\xff",
    ],
)
def test_a_lock_in_another_form_is_refused(data):
    with pytest.raises(InvalidBundle, match="lock"):
        PackageLock.from_bytes(data)
