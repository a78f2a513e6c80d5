"""What can go wrong with a task's code: one exception and one sentence for each; the caller goes on."""


class SandboxUnavailable(RuntimeError):
    """This system cannot contain a task's code as the owner asked; the message says what to do."""


class JobFailed(RuntimeError):
    """A job of a task gave no result; the message is one printable sentence."""


class JobRaised(JobFailed):
    """The task's code raised an exception."""


class JobCrashed(JobFailed):
    """The process of the job ended before it answered."""


class JobTimedOut(JobFailed):
    """The job took longer than it may."""


class JobOutOfMemory(JobFailed):
    """The job needed more memory than it may use."""


class JobReplyInvalid(JobFailed):
    """What came back is not what was asked for: too large, malformed, other tensors, or numbers that are not finite."""
