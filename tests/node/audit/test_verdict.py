"""What a script learns from an audit's exit code."""

import pytest

from fedgrove.node.audit.verdict import NONE_CLOSED, Verdict


@pytest.mark.parametrize(("word", "code"), [("verified", 0), ("bad record", 1), ("cannot tell", 2), (NONE_CLOSED, 2)])
def test_the_exit_code_is_zero_for_a_verified_history_alone(word, code):
    assert Verdict(word).exit_code == code


@pytest.mark.parametrize("word", ["verified", "bad record", "cannot tell", NONE_CLOSED])
def test_practice_is_said_beside_the_word_verified_alone_and_kept_apart_from_it(word):
    found = Verdict(word, practice=True)
    assert found.word == word + " (practice)" * (word == "verified")
    assert (found.entry()["verdict"], found.entry()["practice"]) == (word, True)
    assert Verdict(word).word == word and Verdict(word).entry()["practice"] is False
