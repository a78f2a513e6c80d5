"""One family of errors: what a person, a peer or a machine has done wrong is an ``Error``; anything else is a bug.

The message of an ``Error`` is one sentence that says what to do. Whoever catches one kind names one of the classes
below, or a class under it where that kind is handled in a way of its own.
"""


class Error(Exception):
    """Base of all errors that are not faults of fedgrove.

    Parameters
    ----------
    message : str
        What is wrong, in one clause or sentence.
    advice : str, optional
        What to do, where the message does not say it.

    Attributes
    ----------
    exit_code : int
        Of a command that ends with it.
    """

    exit_code: int = 2

    def __init__(self, message: str = "", advice: str = "") -> None:
        super().__init__(f"{message}: {advice}" if advice else message)


class InvalidInput(Error):
    """What a person gave cannot be used: an option, a setting, a file, data."""


class InvalidContent(Error):
    """Bytes from chain, store, a peer or a file are not what they should be."""


class Refused(Error):
    """A member, or a role, must not go on: it would say too much, or the round is not what it should be."""


class RunFailed(Error):
    """Work that was asked for rightly could not be done on this machine."""
