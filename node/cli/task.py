"""``fedgrove task``: make a task's folder, check it, pack it, read what others packed, and approve it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedgrove.chain.crypto.keys import load
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.options import JsonFlag, KeystoreFile, PasswordFile, TaskSource, group
from fedgrove.node.cli.output import CommandError, address, answer, note, print_json, read_password, report
from fedgrove.node.cli.reach import open_content, open_for_writing
from fedgrove.node.cli.task_check import check
from fedgrove.node.cli.task_new import new
from fedgrove.node.methods.training.suggestion import TERMS, suggested_by
from fedgrove.node.tasks.approval import Approvals, NotApproved, TaskApproval, sound_approvals
from fedgrove.node.tasks.base_content import content_of, publish_base
from fedgrove.node.tasks.bundle import Bundle, pack, publish
from fedgrove.node.tasks.difference import FileChange, changes
from fedgrove.node.tasks.fetching import fetch_bundle
from fedgrove.node.tasks.folder import write_folder
from fedgrove.node.tasks.reading_notes import reading_notes
from fedgrove.node.tasks.task_methods import task_classes

app = group(
    "Make a task, check it, pack it under one CID, read what others packed, approve it.\n\n"
    "Example: fedgrove task new mine"
)

StoreOption = Annotated[str | None, typer.Option("--store", help="disk:PATH, or the URL of a Kubo API.")]


ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A federation's TOML file, whose store is used if --store is not given.")
]


BundleName = Annotated[str, typer.Argument(metavar="BUNDLE", help="The bundle's CID, as `task pack` prints it.")]
Directory = Annotated[Path, typer.Option(help="The client's directory, in which approvals are kept.")]


app.command("new")(new)
app.command("check")(check)


@app.command("pack")
def pack_task(
    source: TaskSource,
    store: StoreOption = None,
    config: ConfigOption = None,
    relock: Annotated[bool, typer.Option("--relock", help="Note the installed packages' versions anew.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Compute the bundle's CID and put the bundle into a store if one is given.

    The same folder gives the same CID on any machine. The first time, packing writes task.lock into the folder: the
    packages that the code imports and their versions.

    Example: fedgrove task pack readmission --store disk:store
    """
    place = store_name(store, config, needed=False)
    _check_apart(place, source)
    shipped = suggested_by(source).task.name
    if shipped:
        raise CommandError(
            f"{source} has no code: it names the shipped task {shipped}, so there is nothing to pack; copy the tables "
            f"of its {TERMS} into the federation's terms"
        )
    bundle = pack(source, relock)
    if place:
        publish(bundle, open_for_writing(place))
    if as_json:
        print_json({**_described(bundle), "store": place})
    else:
        for path, data in bundle.contents.items():
            note(f"{len(data):>10}  {path}")
        for base in bases_of(bundle):
            note(base_line(base))
        note(f"{len(bundle.contents)} files, {bundle.size} bytes, {'in ' + place if place else 'not put into a store'}")
        _warn_of_versions(bundle)
        _warn_of_text(bundle)
        answer(str(bundle.cid))
    return 0


@app.command("base")
def describe_base(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the task's code calls it.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, or a folder, with a pretrained model.")],
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Compute a frozen base's CID and size, as terms name it, and put it into a store if one is given.

    Prints the table for the task's terms.toml and for the federation's file.

    Example: fedgrove task base minilm models/minilm >> mine/terms.toml
    """
    place = store_name(store, config, needed=False)
    content = content_of(path)
    try:
        base = FrozenBase(name, str(content.cid), content.size)
    except InvalidInput as fault:
        raise CommandError(f"{name}: {fault}") from None
    if place:
        publish_base(path, base, open_for_writing(place))
    if as_json:
        print_json({**asdict(base), "store": place})
    else:
        note(f"{path}: {'in ' + place if place else 'not put into a store'}")
        answer(f'[[task.bases]]\nname = "{base.name}"\ncid = "{base.cid}"\nsize = {base.size}')
    return 0


@app.command("show")
def show(
    bundle: BundleName,
    store: StoreOption = None,
    config: ConfigOption = None,
    directory: Directory = Path("client"),
    account: Annotated[
        str | None, typer.Option(help="Compare with what this account approved; needed if there are several.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show a bundle's files, sizes and packages, whether you have approved it, and its text.

    If you approved another version of the bundle, the text is what changed since the last one. Characters that
    would hide something are escaped, and warnings name what is easily overlooked. Nothing of the bundle runs.

    Example: fedgrove task show bafybei… --store disk:store
    """
    content = _content(store, config)
    found = fetch_bundle(content, _cid(bundle))
    approvals = Approvals(directory, _account(directory, account))
    before = approvals.previous(found.cid)
    changed = changes(_earlier(approvals, before, content) if before else None, found)
    missing = _missing_approval(directory, approvals.account, found.cid)
    if as_json:
        approved_by = None if missing else approvals.account
        print_json({**_described(found), "approved_by": approved_by, **_compared(before, changed)})
    else:
        _print_bundle(found)
        answer(missing or f"account {approvals.account} has approved this bundle: its client in {directory} may run it")
        _print_changes(before, changed)
        for each in reading_notes(found):
            answer(f"warning: {each}")
    return 0


@app.command("approve")
def approve(
    bundle: BundleName,
    keystore: KeystoreFile,
    store: StoreOption = None,
    config: ConfigOption = None,
    directory: Directory = Path("client"),
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Allow your client to run a bundle, after you have read it: a statement signed with your account.

    Approved code can do what it likes with the data that it is shown.

    Example: fedgrove task approve bafybei… --keystore alice.json --store disk:store
    """
    content = _content(store, config)
    found = fetch_bundle(content, _cid(bundle))
    keys = load(keystore, read_password(password_file))
    approvals = Approvals(directory, keys.address)
    before = approvals.previous(found.cid)
    changed = changes(_earlier(approvals, before, content) if before else None, found)
    approvals.approve(keys.account, found)
    if as_json:
        print_json({**_described(found), **_compared(before, changed), "account": keys.address})
    else:
        since = f", {len(changed)} of them changed since {before.bundle}" if before else ""
        _warn_of_versions(found)
        _warn_of_text(found)
        answer(f"account {keys.address} approves {found.cid}: {len(found.contents)} files{since}")
    return 0


@app.command("fetch")
def fetch(
    bundle: BundleName,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make; it must not exist.")],
    store: StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Fetch a bundle, check it, and write its files, read-only, into a new folder.

    Example: fedgrove task fetch bafybei… received --store disk:store
    """
    found = fetch_bundle(_content(store, config), _cid(bundle))
    write_folder(folder, found.contents)
    report({**_described(found), "folder": str(folder)}, f"wrote {len(found.contents)} files to {folder}", as_json)
    if not as_json:
        _warn_of_versions(found)
    return 0


def _content(store: str | None, config: Path | None) -> ContentReader:
    return open_content(store_name(store, config, needed=True))


def _check_apart(store: str, source: Path) -> None:
    if store.startswith("disk:") and Path(store.removeprefix("disk:")).resolve().is_relative_to(source.resolve()):
        raise CommandError(f"{store} lies in {source} and would be a part of the next bundle: give a store elsewhere")


def _cid(text: str) -> CID:
    try:
        return CID.parse(text)
    except InvalidContent as fault:
        raise CommandError(f"BUNDLE must be the CID that `fedgrove task pack` prints: {fault}") from None


def _account(directory: Path, given: str | None) -> str:
    """The account whose approvals count: the one given, or the only one in the directory; empty where there is none."""
    if given is not None:
        return address(given, "--account")
    accounts = {each.account for each in sound_approvals(directory)}
    if len(accounts) > 1:
        raise CommandError(f"{directory} has approvals of several accounts: name yours with --account")
    return accounts.pop() if accounts else ""


def _missing_approval(directory: Path, account: str, cid: CID) -> str:
    """Why the account's client in this directory would not run the bundle; empty where it would."""
    if not account:
        return f"nobody has approved this bundle in {directory}"
    try:
        Approvals(directory, account).check(cid)
    except NotApproved as fault:
        return fault.reason
    return ""


def _earlier(approvals: Approvals, before: TaskApproval, content: ContentReader) -> Bundle:
    """The bundle that was approved before, as it was kept then, or else from the store."""
    cid = CID.parse(before.bundle)
    return approvals.kept(cid) or fetch_bundle(content, cid)


def _described(bundle: Bundle) -> dict[str, Any]:
    return {
        "bundle": str(bundle.cid),
        "bytes": bundle.size,
        "files": [{"path": path, "bytes": len(data)} for path, data in bundle.contents.items()],
        "packages": bundle.lock.packages,
        "bases": [asdict(base) for base in bases_of(bundle)],
        "classes": [asdict(each) for each in task_classes(bundle.contents)],
        "versions": list(bundle.lock.differences()),
        "warnings": list(reading_notes(bundle)),
    }


def _compared(before: TaskApproval | None, changed: tuple[FileChange, ...]) -> dict[str, Any]:
    table = [
        {"path": each.path, "change": each.kind, "before": each.before, "after": each.after, "lines": list(each.lines)}
        for each in changed
    ]
    earlier = before and {"bundle": before.bundle, "account": before.account}
    return {"approved_before": earlier, "changes": table}


def _print_bundle(bundle: Bundle) -> None:
    answer(f"bundle {bundle.cid}: {len(bundle.contents)} files, {bundle.size} bytes")
    for path, data in bundle.contents.items():
        answer(f"{len(data):>10}  {path}")
    for each in task_classes(bundle.contents):
        answer(f"{each.path}: {each}")
    for base in bases_of(bundle):
        answer(base_line(base))
    for name, version in sorted(bundle.lock.packages.items()):
        answer(f"package {name} {version}")
    _warn_of_versions(bundle)


def _print_changes(before: TaskApproval | None, changed: tuple[FileChange, ...]) -> None:
    if before is None:
        answer("no other version was approved before, so all of its text follows")
    else:
        answer(f"compared with {before.bundle}, which account {before.account} approved:")
    for each in changed:
        answer(f"{each.kind} {each.path}: {each.before} bytes before, {each.after} now")
        for line in each.lines:
            answer(line)


def _warn_of_versions(bundle: Bundle) -> None:
    warning = bundle.lock.warning()
    if warning:
        note(f"versions differ: {warning}")


def _warn_of_text(bundle: Bundle) -> None:
    for each in reading_notes(bundle):
        note(f"warning: {each}")


def bases_of(bundle: Bundle) -> tuple[FrozenBase, ...]:
    """The frozen bases that the bundle's author names in its terms; none where these cannot be read."""
    from fedgrove.node.methods.training.suggestion import TERMS, read_suggestion  # brings every method

    try:
        return read_suggestion(bundle.contents.get(TERMS), f"{TERMS} of the task").task.bases
    except InvalidConfig as fault:
        note(f"no federation can take the terms that the task suggests: {fault}")
        return ()


def base_line(base: FrozenBase) -> str:
    """A base in one line."""
    return f"base {base.name} {base.cid}: {base.size} bytes"


def store_name(store: str | None, config: Path | None, needed: bool) -> str:
    """What ``--store`` says, or the store of the federation's file; empty where there is neither."""
    name = store or ""
    if not store and config is not None:
        from fedgrove.node.methods.terms import load_config  # brings every method, which the other options do without

        name = load_config(config)[1].store
    if needed and not name:
        raise CommandError("give --store (disk:PATH or the URL of a Kubo API), or --config with a file that has one")
    return name
