"""What a script learns from an audit's exit code."""

import pytest

from fedgrove.node.audit.verdict import Verdict


@pytest.mark.parametrize(("word", "code"), [("verified", 0), ("bad record", 1), ("cannot tell", 2)])
def test_the_exit_code_is_zero_for_a_verified_history_alone(word, code):
    assert Verdict(word).exit_code == code
