"""A federation on an example's folder: packed, trained in sandboxes under masks, audited."""

import shutil
from contextlib import ExitStack
from pathlib import Path

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.history import capture
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import STORE, chain_facts, write_archive
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.task_subject import TaskSubject
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.status.report import build_report

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def copied(name: str, tmp_path: Path) -> Path:
    """The example's folder, where a test may add files to it."""
    return Path(shutil.copytree(EXAMPLES / name, tmp_path / name))


def held(folder: Path, source: Path, named: dict, out: Path) -> dict:
    """Hold a federation, audit it, and leave it in ``out`` as ``fedgrove demo --out`` does; its report."""
    store, told = DiskStore(out / STORE), scenario(task=str(folder), data=str(source), **named)
    with embedded() as network, ExitStack() as stack:
        demo = Demo(told, TaskSubject(told, stack), network, store)
        demo.run()
        history = capture(network, demo.founded)
    assert Auditor(chain_facts(history), history.records(), store).run().verdict == "verified"
    report = build_report(history, store, demo.seconds)
    report["audit"] = {"verdict": "verified", "first_bad_record": None}
    write_archive(out, history, report)
    return report
