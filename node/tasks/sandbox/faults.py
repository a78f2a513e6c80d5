"""What can go wrong with a task's code: one exception and one sentence for each; the caller goes on."""

from fedgrove.common.errors import RunFailed


class SandboxUnavailable(RunFailed):
    """This system cannot contain a task's code as the owner asked; the message says what to do."""


class JobFailed(RunFailed):
    """A job of a task gave no result; the message is one printable sentence."""


class JobRaised(JobFailed):
    """The task's code raised an exception."""


class JobTimedOut(JobFailed):
    """The job took longer than it may."""


class JobOutOfMemory(JobFailed):
    """The job needed more memory than it may use."""
