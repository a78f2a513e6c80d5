"""What can go wrong with a task's code: one exception and one sentence for each; the caller goes on."""

from fedgrove.common.errors import RunFailed


class SandboxUnavailable(RunFailed):
    """This system cannot contain a task's code as the owner asked; the message says what to do."""


class JobFailed(RunFailed):
    """A job of a task gave no result; the message is one printable sentence."""

    @property
    def brief(self) -> str:
        """The same for logs, which others may read."""
        return str(self)


class JobRaised(JobFailed):
    """The task's code raised an exception, whose text may quote the data.

    Parameters
    ----------
    brief : str
        Its kind and place.
    """

    def __init__(self, message: str, brief: str = "the task raised an exception") -> None:
        super().__init__(message)
        self._brief = brief

    @property
    def brief(self) -> str:
        return self._brief


class JobTimedOut(JobFailed):
    """The job took longer than it may."""


class JobOutOfMemory(JobFailed):
    """The job needed more memory than it may use."""
