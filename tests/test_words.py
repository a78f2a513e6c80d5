"""The check of the English: what it reads, and what it finds there."""

from pathlib import Path

import pytest

from scripts import words


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module below the root that the check sees."""
    monkeypatch.setattr(words, "ROOT", tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "module.py"
        path.write_text(text)
        return path

    return write


def found(path: Path) -> list[str]:
    read = [*words.documentation(path)]
    return [fault for each in read for fault in words.phrases(*each, words.FORBIDDEN_IN_CODE)]


def test_docstrings_and_comments_are_read_and_code_is_not(module):
    path = module('"""It lies beside it."""\nbeside = "beside"  # so many\n\n\ndef f():\n    """Come to nothing."""\n')
    assert [fault.split(": ")[1].split(" →")[0] for fault in found(path)] == ["beside", "Come to nothing", "so many"]


def test_the_name_of_a_parameter_is_no_prose(module):
    path = module(
        'def f(beside):\n    """Do it.\n\n    Parameters\n    ----------\n    beside : str or None\n    """\n'
    )
    assert found(path) == []


def test_an_exact_such_may_stay_in_code_and_not_in_prose(module):
    path = module('"""Such a key keeps no secret, and no such key is kept; all of which is checked."""\n')
    assert found(path) == []
    assert list(words.faults("page", "Such a key keeps no secret."))


def test_phrases_of_figures_are_named_with_what_to_write():
    said = list(words.faults("page", "4 bytes a parameter, surely above FedAvg. Look whether all is there."))
    assert [each.split(" → ")[0] for each in said] == [
        "page:1: bytes a parameter",
        "page:1: surely above",
        "page:1: Look whether",
    ]


@pytest.mark.parametrize("line", ["def of_company(): ...", "class NoSuch: ...", "x.wantOf = 1", "lambda stead: 0"])
def test_identifiers_are_read_word_by_word(module, line):
    named = [fault for each in words.identifiers(module(line)) for fault in words.named_badly(*each)]
    assert len(named) == 1


def test_words_that_only_contain_a_listed_one_are_fine(module):
    path = module("wanted = instead = unwanted = 1\n")
    assert [fault for each in words.identifiers(path) for fault in words.named_badly(*each)] == []
