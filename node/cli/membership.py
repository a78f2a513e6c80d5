"""``fedgrove deploy``, ``register`` and ``approve``: found a federation and join it."""

import stat
from pathlib import Path
from typing import Annotated

import typer
from eth_utils import is_address

from chain.deployment import deploy as deploy_contracts
from chain.keys import load
from chain.networks import connect
from node.cli.output import CommandError, console, print_json, read_password
from node.cli.reach import open_ledger
from node.config import load_config
from node.files import write_atomically

ConfigFile = Annotated[Path, typer.Option("--config", help="The federation's TOML file.")]
KeystoreFile = Annotated[Path, typer.Option("--keystore", help="Your keystore file.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File with the password; else FEDGROVE_PASSWORD, else typed.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")]


def deploy(
    config: ConfigFile,
    keystore: KeystoreFile,
    rpc: Annotated[str, typer.Option(help="URL of an EVM JSON-RPC endpoint.")],
    coordinator: Annotated[str | None, typer.Option(help="The coordinator's address; default: your account.")] = None,
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Deploy a federation's contracts and write their addresses into its TOML file.

    Example: fedgrove deploy --config federation.toml --keystore founder.json --rpc http://127.0.0.1:8545
    """
    terms, reach = load_config(config)
    if reach.ledger:
        raise CommandError(
            f"{config} names the ledger {reach.ledger} already: remove its [network] table to deploy anew"
        )
    keys = load(keystore, read_password(password_file))
    with connect(rpc) as network:
        deployment = deploy_contracts(
            network,
            keys.account,
            coordinator or keys.address,
            terms.ledger,
            open_membership=terms.membership.mode == "open",
            admin=keys.address,
            activation_delay=terms.membership.activation_delay,
        )
    addresses = {
        "rpc": rpc,
        "chain_id": deployment.chain_id,
        "registry": deployment.registry,
        "ledger": deployment.ledger,
        "block": deployment.block,
    }
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in addresses.items()]
    mode = stat.S_IMODE(config.stat().st_mode)  # an address may hold a key to the endpoint: no more see it than before
    write_atomically(config, config.read_bytes() + "\n".join(["", "[network]", *lines, ""]).encode(), mode)
    if as_json:
        print_json(addresses)
    else:
        console.print(f"ledger {deployment.ledger}, registry {deployment.registry}; written to {config}")
    return 0


def register(
    config: ConfigFile, keystore: KeystoreFile, password_file: PasswordFile = None, as_json: JsonFlag = False
) -> int:
    """Register your keys with the federation; a second time changes nothing.

    Example: fedgrove register --config federation.toml --keystore alice.json
    """
    keys = load(keystore, read_password(password_file))
    with open_ledger(config, keys) as ledger:
        ledger.register(keys)
        client = ledger.client_of(keys.address)
    if as_json:
        print_json({"account": keys.address, "client": client.client, "active_from": client.active_from})
    else:
        console.print(f"account {keys.address} is client {client.client}, drawable from block {client.active_from}")
    return 0


def approve(
    account: Annotated[str, typer.Argument(help="The member's account.")],
    config: ConfigFile,
    keystore: KeystoreFile,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take the approval back instead.")] = False,
    password_file: PasswordFile = None,
) -> int:
    """Approve a member, where membership is approved by the federation's admin; before or after it registers.

    Example: fedgrove approve 0x… --config federation.toml --keystore founder.json
    """
    if not is_address(account):
        raise CommandError(f"{account!r} is not an account's address (0x and 40 hexadecimal digits)")
    keys = load(keystore, read_password(password_file))
    with open_ledger(config, keys) as ledger:
        act = ledger.revoke if revoke else ledger.approve
        act(account)
    console.print(f"{'revoked' if revoke else 'approved'} {account}", soft_wrap=True)
    return 0
