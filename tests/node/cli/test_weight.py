"""``fedgrove keys weigh``, and what ``fedgrove client`` shows of a member's weight."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto.keys import load
from fedgrove.node.base.files import exclusive
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.services import _say_weight
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import SignDsSettings
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.terms import FederationConfig, StrategySettings
from fedgrove.node.protocol.weight import OwnWeight
from fedgrove.node.roles.logs import ServiceLog
from tests.node.cli.test_bad_input import fedgrove

PASSWORD = "secret password"
NETWORK = FederationConfig(
    TrainingTerms(),
    task=TaskSettings.of_network(ModelSpec("small-mlp", (1, 8, 8), 10)),
    strategy=StrategySettings("fedavg"),
)
OWN_CODE = replace(NETWORK, task=TaskSettings("bafybei" + "a" * 52))


@pytest.fixture
def alice(tmp_path):
    """A keystore, and the folder of a client that has run with the weight 7."""
    assert fedgrove("keys", "new", "alice.json", cwd=tmp_path).returncode == 0
    keys = load(tmp_path / "alice.json", PASSWORD)
    OwnWeight(Journal(tmp_path / "alice" / "journal", keys.storage)).change(7)
    return SimpleNamespace(root=tmp_path, keys=keys)


def weigh(alice, *line):
    return fedgrove("keys", "weigh", *line, "--keystore", "alice.json", "--json", cwd=alice.root)


def test_it_changes_what_the_journal_has_and_says_what_was_there(alice):
    said = json.loads(weigh(alice, "9", "--directory", "alice").stdout)
    assert said == {"account": alice.keys.address, "weight": 9, "before": 7}
    assert OwnWeight(Journal(alice.root / "alice" / "journal", alice.keys.storage)).own == 9


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("0",), "greater than or equal to 1"),
        (("4294967296",), "less than or equal to 4294967295"),
        (("9", "--directory", "other"), "has no journal"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(alice, line, said):
    result = weigh(alice, *line)
    assert result.returncode == 2 and said in result.stderr and "Traceback" not in result.stderr
    assert not (alice.root / "other").exists()


def test_the_client_must_not_run(alice):
    with exclusive(alice.root / "alice"):
        result = weigh(alice, "9", "--directory", "alice")
    assert result.returncode != 0 and "another process is using" in result.stderr


# --- what a client shows when it starts -------------------------------------------------------------------------------


def shown(tmp_path, terms, data, given=None, kept=0):
    journal, stream = Journal(tmp_path, bytes(32)), io.StringIO()
    if kept:
        OwnWeight(journal).change(kept)
    _say_weight(ServiceLog("client", stream), terms, data, given, journal)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("terms", "given", "kept", "weight"),
    [(NETWORK, None, 0, 60), (NETWORK, 5, 0, 5), (NETWORK, 5, 5, 5), (OWN_CODE, None, 0, 1), (OWN_CODE, 60, 0, 60)],
)
def test_the_log_shows_the_weight(tmp_path, terms, given, kept, weight):
    (line,) = shown(tmp_path, terms, range(60), given, kept)
    assert f"its draws state {weight}, for all to see" in line["message"]


def test_the_log_warns_when_there_are_other_samples_than_at_first(tmp_path):
    _, warning = shown(tmp_path, NETWORK, range(75), kept=60)
    assert warning["level"] == "warning" and "its weight stays 60, with 75 samples now" in warning["event"]


def test_a_weight_that_the_terms_do_not_take_is_refused(tmp_path):
    few = replace(NETWORK, ledger=replace(NETWORK.ledger, max_samples=50))
    with pytest.raises(CommandError, match="weight is 60, but this federation takes at most 50"):
        shown(tmp_path, few, range(60))
    alike = replace(NETWORK, privacy=SignDsSettings(epsilon=2.0))
    assert shown(tmp_path, alike, range(60)) == []
    with pytest.raises(CommandError, match="leave it out in this federation"):
        shown(tmp_path, alike, range(60), given=5)
