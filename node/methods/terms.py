"""Reading a federation's terms: one TOML file, or canonical JSON from the store; unknown keys are refused."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgrove.chain.regular_file import read_regular
from fedgrove.chain.strict_json import parse_json
from fedgrove.ipfs.store import ContentReader
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.strict_tables import InvalidConfig, build, join
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import MECHANISMS, PrivacySettings
from fedgrove.node.protocol.content import MAX_JSON_BYTES
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig, MethodTerms, StartSettings

MAX_CONFIG_BYTES = 1 << 20


def method_of(config: FederationConfig) -> Method:
    """The method that the terms ask for."""
    return METHODS[type(config.method)](config, lambda data: method_of(parse_config(data)))


def fetch_method(store: ContentReader, digest: bytes) -> Method:
    """Fetch and parse a federation's terms, and return their method.

    Raises
    ------
    StoreError, InvalidConfig
    """
    return method_of(parse_config(store.fetch(digest, MAX_JSON_BYTES)))


def with_first_model(config: FederationConfig) -> FederationConfig:
    """The terms, with the digest of the model that round 1 trains from.

    Raises
    ------
    InvalidConfig
        They name another first model than follows from them.
    """
    digest = cid_of(method_of(config).first_model()).digest.hex()
    if config.start.model not in ("", digest):
        raise InvalidConfig(f"start.model must be {digest}, which follows from the terms; or leave the table out")
    return replace(config, start=StartSettings(digest))


def parse_config(data: bytes) -> FederationConfig:
    """Parse what ``FederationConfig.to_bytes`` wrote; anything else, also the same terms written otherwise, is refused.

    Raises
    ------
    InvalidConfig
    """
    if len(data) > MAX_CONFIG_BYTES:
        raise InvalidConfig(f"the configuration is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        tables = parse_json(data)
    except ValueError:
        raise InvalidConfig("the configuration in the store is not JSON") from None
    config = _parse(tables)
    if config.to_bytes() != data:
        raise InvalidConfig("the configuration in the store is not in canonical form")
    return config


def load_config(path: Path) -> tuple[FederationConfig, NetworkSettings]:
    """Read a federation's TOML file.

    Raises
    ------
    InvalidConfig
        Missing file, bad TOML, an unknown key, a value of the wrong type or out of range.
    """
    try:
        data = read_regular(path, MAX_CONFIG_BYTES)
    except OSError as fault:
        raise InvalidConfig(f"cannot read {path}: {fault.strerror}; give the federation's TOML file") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise InvalidConfig(f"{path} is larger than {MAX_CONFIG_BYTES} bytes: it is no federation configuration")
    try:
        tables = parse_toml(data)
    except ValueError as fault:
        raise InvalidConfig(f"{path} is not valid TOML: {fault}") from None
    network = tables.pop("network", {})
    if isinstance(network, dict) and isinstance(network.get("rpc"), str):
        network["rpc"] = [network["rpc"]] if network["rpc"] else []
    network = build(NetworkSettings, network, "network")
    return _parse(tables), network


def _parse(tables: Any) -> FederationConfig:
    """All tables but ``[network]``: a method's own, and of ``[privacy]`` its ``mechanism`` says what the keys are."""
    if not isinstance(tables, dict):
        raise InvalidConfig("the configuration must be a table")
    own = {kind.name: kind for kind in METHODS if kind is not TrainingTerms}
    method = _build_method(own, {name: table for name, table in tables.items() if name in own})
    others = {name: table for name, table in tables.items() if name not in own}
    if "privacy" not in others:
        return build(FederationConfig, others, "", method=method)
    return build(FederationConfig, others, "", method=method, privacy=_build_privacy(others.pop("privacy")))


def _build_method(known: dict[str, type[MethodTerms]], given: dict[str, Any]) -> MethodTerms:
    """The table of a method; without one a federation trains one model."""
    if len(given) > 1:
        raise InvalidConfig(f"give one of the tables {_listed(given)}: a federation has one method")
    for name, table in given.items():
        return build(known[name], table, name)
    return TrainingTerms()


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"[{name}]" for name in sorted(names))


def _build_privacy(table: Any) -> PrivacySettings | None:
    """The ``[privacy]`` table."""
    if not isinstance(table, dict):
        raise InvalidConfig("privacy must be a table")
    known = ("none", *MECHANISMS)
    mechanism = table.get("mechanism")
    if not isinstance(mechanism, str) or mechanism not in known:
        raise InvalidConfig(f"privacy.mechanism must be one of {', '.join(known)}")
    values = {key: value for key, value in table.items() if key != "mechanism"}
    if mechanism != "none":
        return build(MECHANISMS[mechanism], values, "privacy")
    if values:
        raise InvalidConfig(f"{join('privacy', min(values))} is set, but privacy.mechanism is none: give a mechanism")
    return None
