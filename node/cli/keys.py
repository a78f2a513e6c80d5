"""``fedgrove keys``: make, show, back up, restore and rotate a member's keys, and change what it states of itself.

What talks to the ledger is imported by the two commands that do: it takes longer than all else in the others.
"""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.chain.crypto.keys import Keys, backup, load, restore, save
from fedgrove.node.base.files import exclusive, write_atomically
from fedgrove.node.cli.options import ConfigFile, JsonFlag, KeystoreFile, PasswordFile, group
from fedgrove.node.cli.output import CommandError, read_password, report

app = group("Create, show, back up, restore and rotate a member's keys.\n\nExample: fedgrove keys new alice.json")

Keystore = Annotated[Path, typer.Argument(help="The keystore file.")]


@app.command("new")
def new(keystore: Keystore, password_file: PasswordFile = None, as_json: JsonFlag = False) -> int:
    """Create a keystore with a fresh account, VRF, mailbox and storage key.

    Example: fedgrove keys new alice.json
    """
    if keystore.exists():
        raise CommandError(f"{keystore} already exists: it was not changed, give another file")
    keys = Keys.generate()
    save(keystore, keys, read_password(password_file, confirm=True))
    sentence = f"wrote {keystore} for account {keys.address}; back it up with `fedgrove keys backup`"
    report({"keystore": str(keystore), **_public(keys)}, sentence, as_json)
    return 0


@app.command("show")
def show(keystore: Keystore, password_file: PasswordFile = None, as_json: JsonFlag = False) -> int:
    """Show the public parts: account, VRF key, mailbox key.

    Example: fedgrove keys show alice.json
    """
    public = _public(load(keystore, read_password(password_file)))
    report(public, "\n".join(f"{name:8} {value}" for name, value in public.items()), as_json)
    return 0


def _public(keys: Keys) -> dict[str, str]:
    return {"account": keys.address, "vrf": keys.vrf_public.hex(), "mailbox": keys.mailbox_public.hex()}


@app.command("backup")
def back_up(
    keystore: Keystore,
    target: Annotated[Path, typer.Argument(help="The backup file to write.")],
    password_file: PasswordFile = None,
    backup_password_file: Annotated[Path | None, typer.Option(help="File with the backup's own password.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Write an encrypted backup under its own password.

    Example: fedgrove keys backup alice.json alice-backup.json
    """
    password = read_password(password_file)
    backup(keystore, password, target, read_password(backup_password_file, confirm=True, what="backup"))
    report({"backup": str(target)}, f"wrote {target}: keep it and its password in separate places", as_json)
    return 0


@app.command("restore")
def restore_keys(
    source: Annotated[Path, typer.Argument(help="The backup file.")],
    keystore: Annotated[Path, typer.Argument(help="The keystore file to write.")],
    password_file: PasswordFile = None,
    backup_password_file: Annotated[Path | None, typer.Option(help="File with the backup's own password.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Restore a keystore from a backup; an existing file is never replaced.

    Example: fedgrove keys restore alice-backup.json alice.json
    """
    keys = restore(
        source,
        read_password(backup_password_file, what="backup"),
        keystore,
        read_password(password_file, confirm=True),
    )
    sentence = f"restored account {keys.address} to {keystore}"
    report({"keystore": str(keystore), **_public(keys)}, sentence, as_json)
    return 0


@app.command("attest")
def attest(
    keystore: Keystore,
    config: ConfigFile,
    target: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("head.json"),
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Sign the head of the federation's chain as this node sees it, so that others can compare a history with it.

    Example: fedgrove keys attest alice.json --config federation.toml --out alice-head.json
    """
    from fedgrove.node.audit.pins import HeadStatement
    from fedgrove.node.cli.reach import open_ledger
    from fedgrove.node.methods.terms import load_config

    keys = load(keystore, read_password(password_file))
    with open_ledger(config, keys) as ledger:
        if ledger.client_of(keys.address).client == 0:
            raise CommandError(f"account {keys.address} is not registered: only members can attest")
        ledger.records()
        block = ledger.confirmed_block(load_config(config)[1].confirmations)
        statement = HeadStatement.sign(
            keys.account,
            chain_id=ledger.chain_id,
            ledger=ledger.address,
            block=block,
            block_hash=ledger.block_hash(block).hex(),
        )
    write_atomically(target, statement.to_bytes())
    sentence = f"wrote {target}: block {block}, hash 0x{statement.block_hash}"
    report({"file": str(target), "block": block, "hash": f"0x{statement.block_hash}"}, sentence, as_json)
    return 0


@app.command("weigh")
def weigh(
    weight: Annotated[int, typer.Argument(min=1, max=2**32 - 1, help="How much the member's updates count.")],
    keystore: KeystoreFile,
    directory: Annotated[Path, typer.Option(help="Folder of the client's journal.")] = Path("client"),
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Change the weight that a member states in its draws, on the ledger; stop its client first.

    It holds from the first round on that trains from another model than the member's last one.

    Example: fedgrove keys weigh 120 --keystore alice.json --directory alice
    """
    from fedgrove.node.protocol.journal import Journal
    from fedgrove.node.protocol.weight import OwnWeight

    keys, journal = load(keystore, read_password(password_file)), directory / "journal"
    if not journal.is_dir():
        raise CommandError(f"{directory} has no journal: give the folder of a client that has run (--directory)")
    with exclusive(directory):
        own = OwnWeight(Journal(journal, keys.storage))
        before = own.own
        own.change(weight)
    sentence = f"the weight of account {keys.address} is {weight}, from the next model on (before: {before or 'none'})"
    report({"account": keys.address, "weight": weight, "before": before}, sentence, as_json)
    return 0


@app.command("rotate")
def rotate(
    keystore: Keystore,
    config: ConfigFile,
    which: Annotated[str, typer.Option(help="vrf or mailbox.")],
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Replace the VRF or the mailbox key, in the keystore first and then on the ledger.

    A new VRF key can be drawn only from a later round on. A client that runs with this keystore goes on with the new
    key by itself. If the command is stopped between the two, run it again.

    Example: fedgrove keys rotate alice.json --config federation.toml --which mailbox
    """
    from fedgrove.node.cli.reach import open_ledger

    if which not in ("vrf", "mailbox"):
        raise CommandError(f"--which must be vrf or mailbox, not {which!r}")
    password = read_password(password_file)
    keys = load(keystore, password)
    with open_ledger(config, keys) as ledger:
        if ledger.client_of(keys.address).client == 0:
            raise CommandError(f"account {keys.address} is not registered: run `fedgrove register` first")
        fresh = keys.with_new_vrf() if which == "vrf" else keys.with_new_mailbox()
        save(keystore, fresh, password)
        rotate_on_ledger = ledger.rotate_vrf_key if which == "vrf" else ledger.rotate_mailbox_key
        rotate_on_ledger(fresh)
    report({"rotated": which, **_public(fresh)}, f"rotated the {which} key of account {keys.address}", as_json)
    return 0
