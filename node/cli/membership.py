"""``fedgrove deploy``, ``register`` and ``approve``: found a federation and join it."""

import json
import re
import stat
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from fedgrove.chain.crypto.keys import load
from fedgrove.chain.face.networks import connect
from fedgrove.chain.records.deployment import PRACTICE_CHAINS
from fedgrove.node.audit.succession import Continuation
from fedgrove.node.base.files import write_atomically
from fedgrove.node.cli.histories import Continues, continued
from fedgrove.node.cli.options import BaseOptions, ConfigFile, JsonFlag, KeystoreFile, PasswordFile, given_bases
from fedgrove.node.cli.output import CommandError, address, note, read_password, report
from fedgrove.node.cli.reach import open_for_writing, open_ledger
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.terms import continuing, load_config, method_of, with_first_model
from fedgrove.node.methods.training.task_code import write_code
from fedgrove.node.methods.training.task_data import TaskData
from fedgrove.node.methods.training.task_process import open_process
from fedgrove.node.protocol.founding import found
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig, StartSettings
from fedgrove.node.protocol.window_times import BLOCK_SECONDS, check_recovery, written_in_blocks
from fedgrove.node.status.pace import pace
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import Bundle, pack, publish
from fedgrove.node.tasks.sandbox.modes import choose
from fedgrove.node.tasks.sandbox.settings import Visible

_NETWORK = re.compile(rb"^[ \t]*\[[ \t]*network[ \t]*\][^\r\n]*", re.MULTILINE)


def deploy(
    config: ConfigFile,
    keystore: KeystoreFile,
    rpc: Annotated[str, typer.Option(help="URL of an EVM JSON-RPC endpoint.")],
    coordinator: Annotated[str | None, typer.Option(help="The coordinator's address; default: your account.")] = None,
    admin: Annotated[str | None, typer.Option(help="The address that approves members; default: your account.")] = None,
    task: Annotated[Path | None, typer.Option(help="The task's folder, where the terms have a [task].")] = None,
    store: Annotated[
        str, typer.Option(help="disk:PATH or URL of a Kubo API, for a task and the model that training starts from.")
    ] = "",
    continues: Continues = None,
    base: BaseOptions = None,
    one_account: Annotated[bool, typer.Option(help="Let one account be both admin and coordinator.")] = False,
    practice: Annotated[
        bool, typer.Option("--practice", help="Deploy terms for practice, which let anybody in.")
    ] = False,
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Deploy a federation's contracts and write their addresses into its TOML file.

    Example: fedgrove deploy --config federation.toml --keystore founder.json --rpc http://127.0.0.1:8545

    Example: fedgrove deploy --config new.toml --keystore founder.json --rpc http://127.0.0.1:8545 --continues old.toml
    --store disk:store
    """
    terms, reach = load_config(config, BLOCK_SECONDS)
    if reach.ledger:
        raise CommandError(
            f"{config} already names the ledger {reach.ledger}: remove its [network] table to deploy again"
        )
    written = ("rpc", "chain_id", "registry", "ledger", "block", *(["store"] if store else []))
    stated = [name for name in written if getattr(reach, name) != getattr(NetworkSettings(), name)]
    if stated:
        raise CommandError(f"{config} already has network.{stated[0]}, which deploy writes: remove it")
    if terms.federation.practice and not practice:
        raise CommandError("the terms are for practice (federation.practice), which lets anybody in: give --practice")
    keys = load(keystore, read_password(password_file))
    roles = {"coordinator": coordinator or keys.address, "admin": admin or keys.address}
    _check_roles(terms, roles, one_account)
    terms = _with_windows(config, rpc)
    earlier, has_start = _earlier(config, terms, continues, store), bool(terms.start.model)
    if earlier is not None:
        terms = replace(terms, start=StartSettings())
    if terms.contained is None:
        founded, first = with_first_model(terms), method_of(terms).first_model()
    else:
        founded, first = _with_task(terms, terms.contained, task, store, given_bases(base), reach.sandbox)
    if earlier is not None:
        founded = continuing(terms, first, earlier.continues, earlier.model)
        open_for_writing(store).put(earlier.model)
    with connect(rpc) as network:
        deployment = found(network, keys.account, founded, **roles)
    addresses = {
        "rpc": rpc,
        "chain_id": deployment.chain_id,
        "registry": deployment.registry,
        "ledger": deployment.ledger,
        "block": deployment.block,
    }
    if store:
        addresses["store"] = store
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in addresses.items()]
    start = [] if has_start else ["", "[start]", *_toml_lines(founded.start)]
    mode = stat.S_IMODE(config.stat().st_mode)  # an address may hold a key to the endpoint: no more see it than before
    try:
        text = written_in_blocks(config.read_bytes(), asdict(terms.ledger))
        write_atomically(config, _with_addresses(text, start, lines), mode)
    except OSError as fault:
        note("\n".join([*start, "", "[network]", *lines, ""]))
        raise CommandError(
            f"the contracts are deployed, but {config} cannot be written ({fault.strerror}): add the lines above to it"
        ) from None
    sentence = f"ledger {deployment.ledger}, registry {deployment.registry}; written to {config}"
    if earlier is not None:
        addresses["continues"] = asdict(earlier.continues)
        sentence += f"; it continues {earlier.continues}"
    report(addresses, sentence, as_json)
    return 0


def _with_windows(config: Path, rpc: str) -> FederationConfig:
    """The terms with the times in them as blocks of the chain."""
    with connect(rpc) as network:
        speed, earnest = pace(network), network.chain_id not in PRACTICE_CHAINS
    terms, _ = load_config(config, speed.seconds if speed else BLOCK_SECONDS)
    if earnest and speed and not terms.federation.practice:
        check_recovery(terms.ledger.recover_window, speed.seconds)
    return terms


def _earlier(config: Path, terms: FederationConfig, continues: str | None, store: str) -> Continuation | None:
    """What the federation continues from: what the option names, or else the terms, whose model is in the store."""
    stated = terms.start
    if continues is None and stated.continues is None:
        return None
    if continues is not None and stated.model:
        raise CommandError(f"{config} already has a [start] table, which --continues writes: remove it")
    if not store:
        raise CommandError("give --store, where all members can read the model that training goes on from")
    if continues is not None:
        return continued(continues, store)
    model = open_for_writing(store).fetch(bytes.fromhex(stated.model), terms.max_blob_bytes)
    return Continuation(stated.continues, model) if stated.continues is not None else None


def _toml_lines(start: StartSettings) -> list[str]:
    """The keys of ``[start]``, a line each."""
    lines = [f'model = "{start.model}"']
    if start.continues is not None:
        keys = (f"{name} = {json.dumps(value)}" for name, value in asdict(start.continues).items())
        lines.append(f"continues = {{ {', '.join(keys)} }}")
    return lines


def _with_addresses(text: bytes, start: list[str], lines: list[str]) -> bytes:
    """The federation's file with the addresses in its ``[network]``, which a founder may have begun."""
    found = _NETWORK.search(text)
    if found is None:
        return text + "\n".join([*start, "", "[network]", *lines, ""]).encode()
    added = "\n".join(["", *lines]).encode()
    return text[: found.end()] + added + text[found.end() :] + "\n".join(["", *start, ""]).encode()


def _with_task(
    terms: FederationConfig, task: TaskSettings, folder: Path | None, store: str, bases: dict[str, Path], sandbox: str
) -> tuple[FederationConfig, bytes]:
    """The terms with the digest of the task's first model, and the model: it goes to the store with the bundle."""
    if not store or (folder is None and not task.name):
        raise CommandError(
            "the terms have a [task]: give its folder with --task (not for a shipped task), and with --store where all "
            "can read it and its first model"
        )
    bundle = None if folder is None or task.name else _packed(folder, task.bundle)
    content = open_for_writing(store)
    if bundle is not None:
        publish(bundle, content)
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as place, ExitStack() as stack:
        code = Path(place) / "task"
        write_code(code, bundle)
        shown = BaseShelf(Path(place)).open_all(task.bases, BaseSources(bases, content))
        process = open_process(choose(sandbox), Visible(code, bases=shown))
        stack.callback(process.close)
        data = TaskData(terms, process)
        first = method_of(terms).first_from(data.first_model())
    content.put(first)
    return with_first_model(terms, first), first


def _packed(folder: Path, named: str) -> Bundle:
    bundle = pack(folder)
    if str(bundle.cid) != named:
        raise CommandError(f"{folder} packs to {bundle.cid}, and the terms name {named}: correct task.bundle")
    return bundle


def _check_roles(terms: FederationConfig, roles: dict[str, str], one_account: bool) -> None:
    for role, given in roles.items():
        address(given, f"--{role}")
    same = int(roles["admin"], 16) == int(roles["coordinator"], 16)
    if terms.membership.mode == "approved" and same and not one_account:
        raise CommandError(
            "the admin, who approves members, would also be the coordinator, who opens and closes rounds: name another "
            "account with --coordinator or --admin, or give --one-account to allow both roles"
        )


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
    document = {"account": keys.address, "client": client.client, "active_from": client.active_from}
    sentence = f"account {keys.address} is client {client.client}, active from block {client.active_from}"
    report(document, sentence, as_json)
    return 0


def approve(
    account: Annotated[str, typer.Argument(help="The member's account.")],
    config: ConfigFile,
    keystore: KeystoreFile,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the approval instead.")] = False,
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Approve a member, where membership is approved by the federation's admin; before or after it registers.

    Example: fedgrove approve 0x… --config federation.toml --keystore founder.json
    """
    address(account, "ACCOUNT")
    keys = load(keystore, read_password(password_file))
    with open_ledger(config, keys) as ledger:
        act = ledger.revoke if revoke else ledger.approve
        act(account)
    report({"account": account, "approved": not revoke}, f"{'revoked' if revoke else 'approved'} {account}", as_json)
    return 0
