"""The configuration: one canonical form, unknown keys refused, one sentence for each mistake."""

import dataclasses

import pytest

from node.config import FederationConfig, InvalidConfig, load_config
from node.learning import settings, strategies

MINIMAL = """
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
"""


def write(tmp_path, text):
    path = tmp_path / "federation.toml"
    path.write_text(text)
    return path


def test_a_minimal_file_gets_the_defaults(tmp_path):
    config, network = load_config(write(tmp_path, MINIMAL))
    assert config.model.input_shape == (1, 8, 8)
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
    assert FederationConfig.from_bytes(config.to_bytes()) == config


def test_the_same_terms_written_otherwise_are_refused(tmp_path):
    config, _ = load_config(write(tmp_path, MINIMAL))
    with pytest.raises(InvalidConfig, match="canonical"):
        FederationConfig.from_bytes(config.to_bytes() + b" ")


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
        ("federation = 3\n", "must be a table"),
        ("[ledger]\nquorum = 1\n", "quorum"),
        ('[strategy]\nname = "best"\n', "strategy.name must be one of fedaom, fedavg"),
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
        FederationConfig.from_bytes(data)


def test_every_term_changes_the_digest(tmp_path):
    config, _ = load_config(write(tmp_path, MINIMAL))
    changed = dataclasses.replace(config, federation=dataclasses.replace(config.federation, seed=1))
    assert changed.to_bytes() != config.to_bytes()


def test_the_names_known_without_torch_are_those_of_the_strategies():
    assert set(settings.STRATEGIES) == set(strategies.STRATEGIES)
