"""Reading a federation's terms: one TOML file, or canonical JSON from the store; unknown keys are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import Malformed, parse_json
from fedgrove.ipfs.store import ContentReader
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig, build, build_tagged, check_value
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.learning.server_steps import SERVER_STEPS
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import MECHANISMS
from fedgrove.node.protocol.bounds_settings import WINDOWS
from fedgrove.node.protocol.content import MAX_JSON_BYTES
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import LIMITS, Continues, FederationConfig, MethodTerms, StartSettings
from fedgrove.node.protocol.window_times import in_blocks

MAX_CONFIG_BYTES = 1 << 20

_TAGGED: dict[str, tuple[str, Mapping[str, type]]] = {
    "privacy": ("mechanism", MECHANISMS),
    "server": ("step", SERVER_STEPS),
}
"""Tables of several kinds: the key that tells them apart, and the kinds by its value."""


def method_of(config: FederationConfig) -> Method[Any, Any, Any]:
    """The method that the terms ask for."""
    return METHODS[type(config.method)](config, read_terms)


def read_terms(data: bytes) -> Method[Any, Any, Any]:
    """The method of terms in their canonical bytes; InvalidConfig if they are not."""
    return method_of(parse_config(data))


def fetch_method(store: ContentReader, digest: bytes) -> Method[Any, Any, Any]:
    """Fetch and parse a federation's terms, and return their method; raises StoreError, InvalidConfig."""
    return method_of(parse_config(store.fetch(digest, MAX_JSON_BYTES)))


def with_first_model(config: FederationConfig, first: bytes | None = None) -> FederationConfig:
    """The terms, with the digest of the model that round 1 trains from.

    Parameters
    ----------
    first : bytes, optional
        The model, where it does not follow from the terms, as that of a task.

    Raises
    ------
    InvalidConfig
        They name another first model than follows from them, or no member would fetch one of its size.
    """
    model = method_of(config).first_model() if first is None else first
    if len(model) > config.max_blob_bytes:
        least = (len(model) - 1 >> 20) + 1
        raise InvalidConfig(f"federation.max_blob_mib must be at least {least}: members fetch no model that is larger")
    digest = cid_of(model).digest.hex()
    if config.start.model not in ("", digest):
        raise InvalidConfig(f"start.model must be {digest}, which follows from the terms; or leave the table out")
    return replace(config, start=replace(config.start, model=digest))


def continuing(config: FederationConfig, first: bytes, continues: Continues, model: bytes) -> FederationConfig:
    """The terms of a federation that continues another: round 1 trains from that one's model.

    Parameters
    ----------
    first : bytes
        The model that it would train from otherwise.
    model : bytes
        The model that it continues from, as an earlier federation's store has it.

    Raises
    ------
    InvalidConfig
        Models of the terms' kind cannot be continued, or this is no model of that kind.
    """
    founded = with_first_model(replace(config, start=StartSettings()), first)
    started = replace(founded, start=StartSettings(cid_of(model).digest.hex(), continues))
    method = method_of(started)
    layout = method.layout_of(method.read_model(first))
    try:
        if len(model) > config.max_blob_bytes:
            raise InvalidContent(f"it has {len(model)} bytes, and federation.max_blob_mib allows fewer")
        method.codec.check_model(method.read_model(model, layout), 1)
    except (InvalidInput, InvalidContent) as fault:
        kept = "keep the task, the strategy and the server's step, which decide what a model is made of"
        raise InvalidConfig(f"start.continues: these terms cannot go on from {continues}: {fault}; {kept}") from None
    return started


def parse_config(data: bytes) -> FederationConfig:
    """Parse what ``FederationConfig.to_bytes`` wrote; anything else, also the same terms written otherwise, is refused.

    Raises InvalidConfig.
    """
    if len(data) > MAX_CONFIG_BYTES:
        raise InvalidConfig(f"the configuration is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        tables = parse_json(data)
    except Malformed:
        raise InvalidConfig("the configuration in the store is not JSON") from None
    config = _parse(tables)
    if config.to_bytes() != data:
        raise InvalidConfig("the configuration in the store is not in canonical form")
    return config


def load_config(path: Path, block_seconds: float | None = None) -> tuple[FederationConfig, NetworkSettings]:
    """Read a federation's TOML file; its times are blocks of a chain with this many seconds between them.

    Raises
    ------
    InvalidConfig
        Missing file, bad TOML, an unknown key, a value of the wrong type or out of range.
    """
    return config_of(read_tables(path, "the federation's TOML file"), block_seconds)


def read_tables(path: Path, what: str) -> dict[str, Any]:
    """Read the tables of a TOML file; InvalidConfig, which asks for ``what``, if they cannot be read."""
    try:
        data = read_regular(path, MAX_CONFIG_BYTES)
    except OSError as fault:
        raise InvalidConfig(f"cannot read {path}: {fault.strerror}; give {what}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise InvalidConfig(f"{path} is larger than {MAX_CONFIG_BYTES} bytes: give {what}")
    try:
        return parse_toml(data)
    except InvalidContent as fault:
        raise InvalidConfig(f"{path} is not valid TOML: {fault}") from None


def config_of(
    tables: Mapping[str, Any], block_seconds: float | None = None
) -> tuple[FederationConfig, NetworkSettings]:
    """The terms and this member's ``[network]`` in the tables of a federation's file; InvalidConfig as above."""
    if isinstance(tables.get("ledger"), dict):
        tables = {**tables, "ledger": in_blocks(tables["ledger"], block_seconds)}
    network = tables.get("network", {})
    if isinstance(network, dict) and isinstance(network.get("rpc"), str):
        network = {**network, "rpc": [network["rpc"]] if network["rpc"] else []}
    settings = build(NetworkSettings, network, "network")
    return _parse({name: table for name, table in tables.items() if name != "network"}), settings


def _parse(tables: Any) -> FederationConfig:
    """All tables but ``[network]``; in some a key says what the others are, as ``mechanism`` in ``[privacy]``."""
    if not isinstance(tables, dict):
        raise InvalidConfig("the configuration must be a table")
    own = {kind.name: kind for kind in METHODS if kind is not TrainingTerms}
    method = _build_method(own, {name: table for name, table in tables.items() if name in own})
    others = {name: table for name, table in tables.items() if name not in own}
    given = others.get("ledger", {})
    if "bounds" in others and isinstance(given, dict):
        others["ledger"] = WINDOWS | given
    chosen: dict[str, Any] = {}
    if "model" in others:
        check_value("task" not in others, "model", "left out where [task] is given: the task brings the model")
        chosen["task"] = TaskSettings.of_network(build(ModelSpec, others.pop("model"), "model"))
    chosen |= {
        name: build_tagged(kinds, tag, others.pop(name), name)
        for name, (tag, kinds) in _TAGGED.items()
        if name in others
    }
    found = build(FederationConfig, others, "", method=method, **chosen)
    return found.with_limits({name for name in LIMITS if name not in given})


def _build_method(known: dict[str, type[MethodTerms]], given: dict[str, Any]) -> MethodTerms:
    """The table of a method; without one a federation trains one model."""
    if len(given) > 1:
        raise InvalidConfig(f"give one of the tables {_listed(given)}: a federation has one method")
    for name, table in given.items():
        return build(known[name], table, name)
    return TrainingTerms()


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"[{name}]" for name in sorted(names))
