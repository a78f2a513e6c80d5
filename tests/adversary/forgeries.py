"""What forgers try: a catalogue of changes to a kept run, each made consistent as far as it goes without a key."""

from tests.adversary.forged_facts import of_blobs, of_facts, of_headers, of_report
from tests.adversary.forged_records import of_fields, of_structure
from tests.adversary.forged_runs import of_histories
from tests.adversary.forged_transactions import of_transactions
from tests.adversary.forgery import Forgery
from tests.adversary.kept_runs import Kept


def catalogue(kept: Kept) -> list[Forgery]:
    """Everything, in a fixed order."""
    groups = (of_fields, of_transactions, of_structure, of_headers, of_facts, of_report, of_blobs, of_histories)
    return [forgery for group in groups for forgery in group(kept)]
