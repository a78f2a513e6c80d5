"""Pages that only histories with one method have."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnPage:
    """A page on what a method makes of all rounds.

    Attributes
    ----------
    key, path, name : str
        Of the section, as pages' navigation has it.
    says : str
        What it says, behind its name.
    """

    key: str
    path: str
    name: str
    says: str


OWN_PAGES = {"procfl": OwnPage("clusters", "clusters/", "Clusters", "says who trains which model.")}
"""By the method's name."""
