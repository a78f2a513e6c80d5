"""Predictions of a federation's model, out of its history or of a file of ``fedgrove model save``."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrove.api.describing import paths_by_name
from fedgrove.api.history import History
from fedgrove.api.running import Run
from fedgrove.api.saving import ON_RECORD, read_model_file
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.base.tensors import load as load_tensors
from fedgrove.node.learning.scores import Scores, class_scores, number_scores
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.terms import read_terms
from fedgrove.node.methods.training.method import Training
from fedgrove.node.methods.training.task_code import read_code, write_code
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.prediction import ModelChoice, Predictions
from fedgrove.node.tasks.approval import Approvals, NotApproved, sound_approvals
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.modes import AUTO, choose
from fedgrove.node.tasks.sandbox.settings import Visible

if TYPE_CHECKING:
    from fedgrove.node.methods.training.task_data import TaskProcess

_HEADER_BYTES = 1 << 25  # of a job's reply, with the names of files


@dataclass(frozen=True)
class TaskAccess:
    """Where the code of a task of the members' own is taken from, and how it runs.

    Attributes
    ----------
    folder : Path or None
        The task's folder, which is yours; it must be the bundle that the terms name.
    directory, account : Path or None, str
        Otherwise a member's directory, with its account's approval of the bundle.
    bases : mapping
        Paths of frozen bases by name.
    sandbox : str
        How the code is contained.
    """

    folder: Path | None = None
    directory: Path | None = None
    account: str = ""
    bases: Mapping[str, Path] = field(default_factory=dict[str, Path])
    sandbox: str = AUTO


class Predictor:
    """Predicts by one model of a federation; ``fedgrove.load`` makes it.

    Attributes
    ----------
    about : dict of str to str
        Where the model is on record: the metadata of its file, or ``round``, ``cid``, ``ledger`` and the like.
    """

    def __init__(
        self,
        method: Method[Any, Any, Any],
        tensors: Tensors,
        about: Mapping[str, str],
        access: TaskAccess,
        store: ContentReader | None,
        form: TableFormat | None,
    ) -> None:
        self.about = dict(about)
        self._config, self._access, self._store = method.config, access, store
        self._predictor = method.predictor(tensors, self._opened, form)

    @property
    def terms(self) -> dict[str, Any]:
        """The federation's terms: the tables of its TOML file."""
        return self._config.to_tables()

    def predict(self, source: str | PathLike[str]) -> Predictions:
        """Predict for what a source holds: what training reads, without the column, or the labels, to predict.

        Returns
        -------
        Predictions
            Probabilities of the classes by name, or numbers in the target's unit; a row for each sample.

        Raises
        ------
        InvalidInput
            The source is not what the terms ask for, as training would say.
        """
        return self._predictor.predict(Path(source))

    def labelled(self, source: str | PathLike[str]) -> Predictions:
        """As ``predict``, of a source that says what is true, which is in ``truth``."""
        return self._predictor.predict(Path(source), True)

    def evaluate(self, source: str | PathLike[str]) -> Scores:
        """Score the predictions for a labelled source; raises as ``predict``.

        Returns
        -------
        ClassScores or NumberScores
            AUC, balanced accuracy, confusion matrix and calibration; of numbers R², mean absolute and root mean squared
            error, in the target's unit.
        """
        return scores_of(self.labelled(source))

    @contextmanager
    def _opened(self, source: Path) -> "Iterator[TaskProcess]":
        """The process that shows the task's code a source."""
        from fedgrove.node.methods.training.task_process import open_process

        if not source.exists():
            raise InvalidConfig(f"there is no {source}: give the data to predict for")
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
            folder, private = self._code(place), ()
            if self._access.directory is not None:
                private = (self._access.directory / "journal",)
            bases = BaseSources(self._access.bases, self._store)
            shown = BaseShelf(place).open_all(self._config.learned.bases, bases)
            limits = JobLimits(header=_HEADER_BYTES)
            visible = Visible(folder, source, shown)
            portable = self._config.training.portable
            process = open_process(choose(self._access.sandbox), visible, limits, private, portable)
            stack.callback(process.close)
            yield process

    def _code(self, place: Path) -> Path:
        """The folder of the task's code: empty for a shipped task, else the user's own or an approved one."""
        task, access = self._config.learned, self._access
        if task.name:
            return place
        if access.folder is not None:
            code = read_code(access.folder)
            if code.name != task.bundle:
                raise InvalidConfig(f"{access.folder} is another task than the model's: it is {code.name}")
            write_code(place / "task", code.bundle)
            return place / "task"
        if access.directory is None:
            raise InvalidConfig(
                f"the model is of the task {task.bundle}: give its folder (--task), or the directory of a client that "
                "has approved it (--directory)"
            )
        return self._approved(access.directory, CID.parse(task.bundle))

    def _approved(self, directory: Path, cid: CID) -> Path:
        accounts = {each.account for each in sound_approvals(directory) if each.bundle == str(cid)}
        account = self._access.account or next(iter(accounts), "")
        if not account:
            raise NotApproved(cid, f"nobody has approved this task in {directory}")
        if len(accounts) > 1 and not self._access.account:
            raise InvalidConfig(f"{directory} has approvals of several accounts: name yours (--account)")
        approvals = Approvals(directory, account)
        approvals.check(cid)
        if self._store is not None:
            return approvals.open(cid, self._store)
        if approvals.kept(cid) is None:
            raise InvalidConfig(f"the files of the approved task {cid} are not in {directory} as they were: approve it")
        return approvals.folder / str(cid)


def load(
    source: "str | PathLike[str] | History | Run",
    *,
    number: int | None = None,
    cluster: int | None = None,
    client: int | None = None,
    task: str | PathLike[str] | None = None,
    directory: str | PathLike[str] | None = None,
    account: str = "",
    bases: Mapping[str, str | PathLike[str]] | None = None,
    sandbox: str = AUTO,
    table_format: Mapping[str, str] | None = None,
) -> Predictor:
    """Load a model to predict with.

    Parameters
    ----------
    source : path, str, History or Run
        A file of ``fedgrove model save``, which needs no ledger; a run's directory or CAR file; or a history.
    number : int, optional
        The round that closed with the model; by default the last. Not with a file.
    cluster, client : int, optional
        Where rounds leave a model for each cluster: the cluster's number from 1, or a member's index.
    task : path, optional
        Folder of a task of your own, whose code runs in the sandbox. It must be the one that the terms name.
    directory, account : path, str, optional
        In place of ``task``: a client's directory in which its account has approved the task.
    bases : mapping, optional
        Paths of the task's frozen bases by name.
    sandbox : str
        How the task's code is contained: auto, strict, contained, or off.
    table_format : mapping, optional
        How tables are written, where that is not found: ``delimiter``, ``decimal``, ``encoding``, ``dates``, ``sheet``.

    Raises
    ------
    OSError, InvalidContent, InvalidConfig, InvalidInput, StoreError
        There is no such model, or it is damaged; the message says what to do.
    """
    access = TaskAccess(
        None if task is None else Path(task),
        None if directory is None else Path(directory),
        account,
        paths_by_name(bases),
        sandbox,
    )
    form = TableFormat.of(table_format) if table_format else None
    choice = ModelChoice(cluster, client)
    history = _history(source)
    if history is None:
        assert isinstance(source, str | PathLike)
        if choice or number is not None:
            raise InvalidConfig("a file holds one model: choose round and cluster when you save it")
        return _of_file(Path(source), access, form)
    about = history.origin(number).to_metadata()
    method = read_terms(history.terms_bytes(number))
    return Predictor(method, history.predicting(number, choice), about, access, history.store, form)


def scores_of(found: Predictions) -> Scores:
    """Score predictions that have their truth."""
    if found.truth is None:
        raise InvalidInput("these predictions have no truth to compare them with")
    if found.classes:
        return class_scores(found.values, found.truth, found.classes)
    return number_scores(found.values, found.truth)


def _history(source: "str | PathLike[str] | History | Run") -> History | None:
    """The history of a run; None of a model's file."""
    if isinstance(source, History):
        return source
    if isinstance(source, Run):
        return source.history
    return None if is_model_file(Path(source)) else History(source)


def is_model_file(path: Path) -> bool:
    """Whether a path names a saved model rather than a run."""
    return path.suffix == ".safetensors" and not path.is_dir()


def _of_file(path: Path, access: TaskAccess, form: TableFormat | None) -> Predictor:
    found = read_model_file(path)
    method = read_terms(found.metadata["terms"].encode())
    tensors = load_tensors(found.data)
    if found.metadata["form"] == ON_RECORD:
        if not isinstance(method, Training):  # rounds of others leave more than tensors
            raise InvalidContent(f"{path.name} does not hold what rounds by its terms leave")
        tensors = method.one_model(tensors, ModelChoice())
    about = {name: value for name, value in found.metadata.items() if name != "terms"}
    return Predictor(method, tensors, about, access, None, form)
