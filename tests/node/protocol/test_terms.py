"""The configuration: one canonical form, unknown keys refused, one sentence for each mistake."""

import dataclasses
import re

import numpy as np
import pytest
from eth_utils import to_checksum_address

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.learning import settings, strategies
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.server_side import without_state
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.kmeans.exchange import exchange
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.terms import load_config, method_of, parse_config, with_first_model
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, StartSettings, StrategySettings

MINIMAL = """
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
"""

ACCOUNT = to_checksum_address("0x" + 20 * "a5")
NAMED = '[membership]\nmode = "named"\nmembers = [%s]\n'


def write(tmp_path, text):
    path = tmp_path / "federation.toml"
    path.write_text(text)
    return path


def test_a_minimal_file_gets_the_defaults(tmp_path):
    config, network = load_config(write(tmp_path, MINIMAL))
    assert config.network.input_shape == (1, 8, 8)
    assert config.masking.bound == 8.0 and config.rate_ppm(1) == 1_000_000
    assert network.rpc == ()


def test_the_network_table_is_not_part_of_the_terms(tmp_path):
    plain, _ = load_config(write(tmp_path, MINIMAL))
    placed, network = load_config(write(tmp_path, MINIMAL + '[network]\nrpc = "http://127.0.0.1:8545"\n'))
    assert plain.to_bytes() == placed.to_bytes()
    assert network.rpc == ("http://127.0.0.1:8545",)


def test_several_endpoints_are_a_list(tmp_path):
    urls = ["http://127.0.0.1:8545", "https://chain.example"]
    _, network = load_config(write(tmp_path, MINIMAL + f"[network]\nrpc = {urls}\n".replace("'", '"')))
    assert network.rpc == tuple(urls)


def test_canonical_bytes_round_trip(tmp_path):
    text = MINIMAL + '[strategy]\nname = "fedaom"\n[strategy.options]\nq = 4\n[masking]\nbound = 4\n'
    config, _ = load_config(write(tmp_path, text))
    assert parse_config(config.to_bytes()) == config


START = f"""
[start]
model = "{64 * "a"}"
continues = {{ chain_id = 1, ledger = "{ACCOUNT}", round = 3, head_block = 120, head_hash = "{64 * "b"}" }}
"""


def test_what_a_federation_continues_is_part_of_the_terms(tmp_path):
    config, _ = load_config(write(tmp_path, MINIMAL + START))
    assert str(config.start.continues) == f"round 3 of ledger {ACCOUNT} on chain 1"
    assert parse_config(config.to_bytes()) == config
    plain = dataclasses.replace(config, start=StartSettings(config.start.model))
    assert b"continues" not in plain.to_bytes() and parse_config(plain.to_bytes()) == plain


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('model = "aaaa', 'modal = "aaaa', "unknown key start.modal"),
        (f'model = "{64 * "a"}"', "", "start.model must be the digest of the model that it continues from, not ''"),
        (ACCOUNT, ACCOUNT.lower(), "start.continues.ledger must be a checksummed address"),
        ("round = 3, ", "", "start.continues.round is missing"),
        ("round = 3", "round = 0", "start.continues.round must be the number of a round, not 0"),
        ("chain_id = 1", "chain_id = -1", "start.continues.chain_id must be a chain's id, not -1"),
        (64 * "b", 63 * "b", "start.continues.head_hash must be 64 lower-case hexadecimal characters"),
        ("head_block = 120", "head_block = 120, head = 1", "unknown key start.continues.head"),
    ],
)
def test_a_mistake_in_what_is_continued_is_one_sentence(tmp_path, old, new, sentence):
    assert START.count(old) == 1
    with pytest.raises(InvalidConfig, match="^" + re.escape(sentence)):
        load_config(write(tmp_path, MINIMAL + START.replace(old, new)))


@pytest.mark.parametrize("name", ["kmeans", "procfl"])
def test_states_of_one_ledgers_clients_cannot_be_continued(tmp_path, name):
    text = {"kmeans": CLUSTERING, "procfl": CLUSTERS}[name]
    load_config(write(tmp_path, text))
    with pytest.raises(InvalidConfig, match=rf"^start.continues must be left out with a \[{name}\] table: its "):
        load_config(write(tmp_path, text + START))


def test_the_same_terms_written_otherwise_are_refused(tmp_path):
    config, _ = load_config(write(tmp_path, MINIMAL))
    with pytest.raises(InvalidConfig, match="canonical"):
        parse_config(config.to_bytes() + b" ")


@pytest.mark.parametrize(
    ("addition", "sentence"),
    [
        ("[masking]\nmood = 1\n", "unknown key masking.mood"),
        ("[mask]\n", "unknown key mask"),
        ('[masking]\nmode = "none"\n', "masking.mode must be one of bbtsa, pairwise"),
        ("[masking]\nbound = 0\n", "masking.bound"),
        ("[masking]\nbound = nan\n", "masking.bound"),
        ("[federation]\nrounds = 0\n", "federation.rounds"),
        ("[federation]\nrounds = 1.5\n", "federation.rounds must be of type int"),
        ("[federation]\nrounds = true\n", "federation.rounds must be of type int"),
        ("[federation]\nsampling_rate = 2\n", "federation.sampling_rate"),
        ('[federation]\nname = ""\n', "federation.name"),
        ('[shared]\ndigest = "xyz"\n', "shared.digest"),
        ("[training]\nlearning_rate = -1\n", "learning_rate"),
        ('[training]\nprecision = "fp16"\n', "training.precision must be one of fp32, bf16"),
        ('[training]\nprecision = "bf16"\nportable = true\n', "portable must be false where precision is bf16"),
        ('[training]\nprecision = "bf16"\n', "training.precision must be fp32 with the strategy fedaom"),
        ("federation = 3\n", "must be a table"),
        ("[ledger]\nquorum = 1\n", "quorum"),
        ("[ledger]\nreleases = 4\n", "ledger.releases must be at most the quorum of 3"),
        ("[ledger]\njudges = 4\n", "ledger.judges must be at most the quorum of 3"),
        ("[ledger]\nrecover_window = 79\n", "ledger.recover_window must be at least 80, four times"),
        (NAMED.replace("named", "open") % f'"{ACCOUNT}"', "membership.members must be left out if membership.mode is"),
        (NAMED.replace("named", "open") % "", "membership.mode must be named or approved unless federation.practice"),
        (NAMED % f'"{ACCOUNT.lower()}"', "membership.members must be checksummed addresses"),
        (NAMED % f'"{ACCOUNT}", "{ACCOUNT}"', "membership.members must be checksummed addresses"),
        ('[strategy]\nname = "best"\n', "strategy.name must be one of fedaom, fedaomsam, fedavg"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, addition, sentence):
    text = addition + MINIMAL if addition.startswith("federation") else MINIMAL + addition
    with pytest.raises(InvalidConfig, match=sentence) as mistake:
        load_config(write(tmp_path, text))
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize(
    "text",
    ["", "[model]\nname = 1", "not toml at all [", '[model]\nname = "small-cnn"\nclasses = 10\ninput_shape = [1]'],
)
def test_a_broken_file_is_refused(tmp_path, text):
    with pytest.raises(InvalidConfig):
        load_config(write(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match="cannot read"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b'{"model": null}', b"\xff"])
def test_hostile_bytes_from_the_store_are_refused(data):
    with pytest.raises(InvalidConfig):
        parse_config(data)


PRIVATE = '[masking]\nmasked = "delta"\n[privacy]\nmechanism = "client"\n'


def test_terms_without_privacy_have_the_bytes_that_they_always_had(tmp_path):
    plain, _ = load_config(write(tmp_path, MINIMAL))
    none, _ = load_config(write(tmp_path, MINIMAL + '[privacy]\nmechanism = "none"\n'))
    assert plain == none and plain.mechanism == "none" and b"privacy" not in plain.to_bytes()


def test_precision_and_portability_are_terms_only_where_they_have_an_effect(tmp_path):
    plain, _ = load_config(write(tmp_path, MINIMAL))
    said, _ = load_config(write(tmp_path, MINIMAL + '[training]\nprecision = "fp32"\nportable = false\n'))
    assert plain.to_bytes() == said.to_bytes() and b"precision" not in said.to_bytes()
    text = MINIMAL + '[training]\n{}\n[strategy]\nname = "fedavg"\n'
    for addition, written in (("portable = true", b'"portable":true'), ('precision = "bf16"', b'"precision":"bf16"')):
        config, _ = load_config(write(tmp_path, text.format(addition)))
        assert written in config.to_bytes() and parse_config(config.to_bytes()) == config


def test_privacy_is_part_of_the_terms(tmp_path):
    text = MINIMAL + PRIVATE + "epsilon = 4\nnoise_multipliers = [1.5, 1]\nphases = [3]\nsampling_rates = [0.5, 0.75]\n"
    config, _ = load_config(write(tmp_path, text))
    assert config.mechanism == "client" and config.privacy.epsilon == 4.0 and config.privacy.phases == (3,)
    assert [config.rate_ppm(number) for number in (1, 2, 3)] == [500_000, 500_000, 750_000]
    assert parse_config(config.to_bytes()) == config
    assert b'"mechanism":"client"' in config.to_bytes()


@pytest.mark.parametrize(
    ("addition", "sentence"),
    [
        ("privacy = 1\n", "privacy must be a table"),
        ("[privacy]\nepsilon = 1\n", "privacy.mechanism must be one of none, client"),
        ('[privacy]\nmechanism = ["client"]\n', "privacy.mechanism must be one of none, client"),
        ('[privacy]\nmechanism = "none"\nepsilon = 1\n', "privacy.epsilon is set, but privacy.mechanism is none"),
        ('[privacy]\nmechanism = "client"\n', "masking.masked must be delta if privacy.mechanism is client"),
        (PRIVATE + "sigma = 1\n", "unknown key privacy.sigma"),
        (PRIVATE + "epsilon = 0\n", "privacy.epsilon must be from 0.001"),
        (PRIVATE + "noise_multipliers = [0]\n", "noise_multipliers must be values, each from 0.01"),
        (PRIVATE + 'clipping = "median"\n', "privacy.clipping must be fixed or quantile"),
        ("[masking]\nkappa = 0.5\n" + PRIVATE.removeprefix("[masking]\n"), "masking.kappa must be 1"),
    ],
)
def test_a_mistake_about_privacy_is_one_sentence(tmp_path, addition, sentence):
    text = addition + MINIMAL if addition.startswith("privacy =") else MINIMAL + addition
    with pytest.raises(InvalidConfig, match=sentence) as mistake:
        load_config(write(tmp_path, text))
    assert "\n" not in str(mistake.value)


def weights_of(config):
    spec = config.network
    return initial_tensors(spec.name, spec.input_shape, spec.classes, config.federation.seed)


def test_terms_without_a_servers_step_have_the_bytes_that_they_always_had(tmp_path):
    plain, _ = load_config(write(tmp_path, MINIMAL))
    none, _ = load_config(write(tmp_path, MINIMAL + '[server]\nstep = "none"\n'))
    assert plain == none and b"server" not in plain.to_bytes()
    assert method_of(plain).first_model() == dump(weights_of(plain))


@pytest.mark.parametrize(
    ("table", "step"),
    [
        ('step = "momentum"\nlookahead = true', MomentumStep(lookahead=True)),
        ('step = "adam"\nrate = 1\ndecay = 0.5', AdamStep(rate=1.0, decay=0.5)),
    ],
)
def test_a_servers_step_is_part_of_the_terms_and_of_the_first_model(tmp_path, table, step):
    config, _ = load_config(write(tmp_path, f"{MINIMAL}[server]\n{table}\n"))
    assert config.server == step and parse_config(config.to_bytes()) == config
    assert f'"step":"{step.step}"'.encode() in config.to_bytes()
    first = load(method_of(config).first_model())
    assert dump(without_state(first)) == dump(weights_of(config)) and len(first) > len(weights_of(config))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (MINIMAL + "[server]\nrate = 1\n", "server.step must be one of none, momentum, adam"),
        (MINIMAL + '[server]\nstep = "momentum"\ntau = 1\n', "unknown key server.tau"),
        (MINIMAL + '[server]\nstep = "adam"\nrate = 0\n', "server.rate must be above 0 and at most 100, not 0.0"),
        (MINIMAL + '[server]\nstep = "none"\nrate = 1\n', "server.rate is set, but server.step is none"),
        (
            '[kmeans]\nk = 2\ndimensions = 2\nstep = 0.1\n[server]\nstep = "adam"\n',
            r"server must be left out with a \[kmeans\] table: its step is on one model",
        ),
        (
            MINIMAL + '[strategy]\nname = "fedspeed"\n[server]\nstep = "momentum"\n',
            "server must be left out where strategy.name is fedspeed, which has a step of its own",
        ),
    ],
)
def test_a_mistake_about_a_servers_step_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InvalidConfig, match=sentence) as mistake:
        load_config(write(tmp_path, text))
    assert "\n" not in str(mistake.value)


def test_every_term_changes_the_digest(tmp_path):
    config, _ = load_config(write(tmp_path, MINIMAL))
    changed = dataclasses.replace(config, federation=dataclasses.replace(config.federation, seed=1))
    assert changed.to_bytes() != config.to_bytes()


@pytest.mark.parametrize("name", settings.STRATEGIES)
def test_what_is_known_of_a_strategy_without_torch_is_so(name):
    strategy, traits = strategies.make_strategy(name), settings.STRATEGIES[name]
    assert strategy.name == name and strategy.needs_shared == traits.shares
    assert bool(strategy.initial_extras({"weight": np.zeros(1, np.float32)})) == traits.sends


CLUSTERING = "[kmeans]\nk = 4\ndimensions = 10\nstep = 0.01\n"


def test_clustering_takes_the_place_of_a_model(tmp_path):
    config, _ = load_config(write(tmp_path, CLUSTERING))
    assert config.task is None and config.method.k == 4 and config.mechanism == "none"
    assert parse_config(config.to_bytes()) == config
    assert set(config.to_tables()) == {"kmeans", "federation", "ledger", "masking", "membership", "start"}
    plain, _ = load_config(write(tmp_path, MINIMAL))
    assert b"kmeans" not in plain.to_bytes()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CLUSTERING + MINIMAL, "model or task must be left out with a"),
        (CLUSTERING + '[strategy]\nname = "fedavg"\n', "strategy must be left out"),
        (CLUSTERING + "[training]\nepochs = 3\n", "training must be left out"),
        (CLUSTERING + '[privacy]\nmechanism = "local"\n', "privacy must be left out"),
        (CLUSTERING + "[federation]\nsampling_rate = 0.5\n", "federation.sampling_rate must be 1"),
        (CLUSTERING + "[masking]\nkappa = 0.5\n", "masking.kappa must be 1"),
        (
            CLUSTERING.replace("10", "4000").replace("= 4\n", "= 400\n"),
            "max_blob_mib must be at least [0-9]+",
        ),
        (CLUSTERING.replace("0.01", "0.001"), "ledger.max_samples must be at most 225179 with this number of clients"),
        ("[kmeans]\nk = 0\ndimensions = 1\nstep = 1\n", "kmeans.k must be a whole number from 1 to 1000"),
        ("", "model is missing"),
    ],
)
def test_a_mistake_in_clustering_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize("dimensions", [2, 10, 52])
def test_no_round_has_larger_uploads_than_the_terms_provide_for(dimensions):
    terms = KMeansTerms(k=3, dimensions=dimensions, step=0.01)
    planned = exchange(terms, KMeansState.empty(dimensions), ((1, 2, 3),), dict.fromkeys((1, 2, 3), 64), (), bytes(32))
    assert planned.sums[0].code.upload_bytes == terms.largest_upload(3)


KEY = "0f" * 32
SIGNER = f'signer = "0x{"a5" * 20}"\n'
APART = '[membership]\nmode = "approved"\n'
TERMS = MINIMAL + "[federation]\nrounds = 5\n[ledger]\nmax_clients = 100\n" + APART
CLUSTERS = TERMS + f'[procfl]\ncounter = "{KEY}"\n' + SIGNER


def test_clusters_are_part_of_the_terms_that_have_them(tmp_path):
    config, _ = load_config(write(tmp_path, CLUSTERS + 'seats = 3\n[procfl.rule]\ntest = "mean"\n'))
    assert config.method.counter_key.hex() == KEY and config.method.rule.test == "mean"
    assert config.method.first_rounds == 3
    assert parse_config(config.to_bytes()) == config
    plain, _ = load_config(write(tmp_path, MINIMAL))
    assert b"clusters" not in plain.to_bytes()


def test_what_committees_are_shown_is_part_of_the_terms_where_there_are_committees(tmp_path):
    watched, _ = load_config(write(tmp_path, CLUSTERS + "seats = 3\n"))
    assert watched.method.shown == "noised" and b'"shown":"noised"' in watched.to_bytes()
    bound, _ = load_config(write(tmp_path, CLUSTERS + 'seats = 3\nshown = "upload"\n'))
    assert parse_config(bound.to_bytes()).method.shown == "upload"
    without, _ = load_config(write(tmp_path, CLUSTERS))
    assert b'"shown"' not in without.to_bytes()  # terms from before it have the digest that they had


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CLUSTERS.replace(f'counter = "{KEY}"', ""), "procfl.counter must be the coordinator's mailbox key"),
        (
            CLUSTERS.replace(APART, NAMED.replace("named", "open") % "").replace(
                "rounds = 5", "rounds=5\npractice=true"
            ),
            "membership.mode must be named or approved with a",
        ),
        (CLUSTERS.replace(SIGNER, ""), "procfl.signer must be the address of the coordinator's account"),
        (CLUSTERS.replace("0xa5", "a5"), "procfl.signer must be the address of the coordinator's account"),
        (CLUSTERS + 'psi = "rsa"\n', "unknown key procfl.psi"),
        (CLUSTERS + 'shown = "nothing"\n', "procfl.shown must be one of upload, noised"),
        (CLUSTERS + "alpha = 2\n", "procfl.alpha must be above 0 and at most 1, not 2"),
        (CLUSTERS + "[masking]\nkappa = 0.5\n", "masking.kappa must be 1 with a"),
        (CLUSTERS + '[masking]\nmasked = "delta"\n', "masking.masked must be weights with a"),
        (CLUSTERS.replace("rounds = 5", "rounds = 2"), "federation.rounds must be at least 3 with a"),
        (CLUSTERS.replace("rounds = 5", "sampling_rate = 0.5"), "federation.sampling_rate must be 1 with a"),
        (CLUSTERS.replace("max_clients = 100", ""), "ledger.max_clients must be at most 400 with a"),
        (CLUSTERS + '[privacy]\nmechanism = "local"\nepsilon = 1\n', "privacy.mechanism must be none with a"),
        (CLUSTERS + '[server]\nstep = "adam"\n', "server must be left out with a [procfl] table: its step is on one"),
        (CLUSTERS.replace(MINIMAL, CLUSTERING), "give one of the tables [kmeans] and [procfl]"),
    ],
)
def test_a_mistake_in_clusters_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InvalidConfig, match="^" + re.escape(sentence)):
        load_config(write(tmp_path, text))


def test_a_model_that_no_member_would_fetch_is_refused_where_it_is_founded():
    terms = FederationConfig(
        TrainingTerms(),
        task=TaskSettings("b" + "a" * 58),
        strategy=StrategySettings("fedavg"),
        federation=FederationSettings(max_blob_mib=1),
    )
    assert with_first_model(terms, bytes(1 << 20)).start.model
    with pytest.raises(InvalidConfig, match="max_blob_mib must be at least 2"):
        with_first_model(terms, bytes((1 << 20) + 1))


@pytest.mark.parametrize(("n", "quorum", "judges"), [(3, 3, 1), (8, 5, 3), (20, 13, 7), (100, 67, 34)])
def test_limits_that_a_file_does_not_state_suit_the_members_that_it_names(tmp_path, n, quorum, judges):
    members = ", ".join(f'"{to_checksum_address(number.to_bytes(20))}"' for number in range(1, n + 1))
    config, _ = load_config(write(tmp_path, MINIMAL + NAMED % members))
    assert (config.ledger.quorum, config.ledger.judges) == (quorum, judges)
    assert 2 <= config.ledger.releases <= quorum
    assert parse_config(config.to_bytes()) == config  # what it says is all there
    stated, _ = load_config(write(tmp_path, MINIMAL + NAMED % members + "[ledger]\nquorum = 3\n"))
    assert stated.ledger.quorum == 3 and max(stated.ledger.releases, stated.ledger.judges) <= 3
