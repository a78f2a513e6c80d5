"""A member's data under a task that it has approved, or that ships with fedgrove, for the services."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.training.task_data import TaskData
from fedgrove.node.methods.training.task_process import open_process
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.tasks.approval import Approvals
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.modes import choose
from fedgrove.node.tasks.sandbox.settings import Visible

MODELS_OF_A_JOB = 3
"""The global model, MOON's model of the last round, and the tensors that stay at home."""


def job_limits(terms: FederationConfig, reach: NetworkSettings) -> JobLimits:
    """What a job may use: as many tensors as the terms let a model have, and what a member keeps with it.

    A GPU's driver reserves more addresses than any machine has memory, so there is no limit on these with one.
    """
    most = MODELS_OF_A_JOB * terms.max_blob_bytes
    limits = JobLimits(reach.task_seconds, request=most, reply=most)
    return limits if reach.device == "cpu" else replace(limits, memory=None)


def approved_data(
    stack: ExitStack,
    terms: FederationConfig,
    store: ContentReader,
    source: Path,
    directory: Path,
    account: str,
    reach: NetworkSettings,
    private: tuple[Path, ...],
    bases: Mapping[str, Path],
    part: tuple[int, int] | None = None,
    form: TableFormat | None = None,
) -> TaskData:
    """Open a source of data with the terms' task, in a sandbox.

    Parameters
    ----------
    reach : NetworkSettings
        How the task's code is contained, and how long it may take.
    private : tuple of Path
        Files that no task may be shown.
    bases : mapping
        Paths of frozen bases by name; others are those of the last start, or come from the store.

    Raises
    ------
    NotApproved, InvalidBundle, InvalidBundle, StoreError, SandboxUnavailable
    """
    task = terms.learned
    if task.name:  # a shipped task, whose code is fedgrove's own: there is nothing to approve, and no folder
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
    else:
        folder = Approvals(directory, account).open(CID.parse(task.bundle), store)
    shown = BaseShelf(directory).open_all(task.bases, BaseSources(bases, store))
    visible = Visible(folder, source, shown)
    process = open_process(choose(reach.sandbox), visible, job_limits(terms, reach), private, terms.training.portable)
    stack.callback(process.close)
    data = TaskData(terms, process, part, device=reach.device, form=form)
    stack.callback(data.close)
    return data
