"""The law of rounds with bounds: what members record of a sketch, and in which stages they release shares."""

from fedgrove.chain.records import MOST_REVEALS, Affirmed, Released, Revealed, Vouched
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import Deadlines
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.rounds import RoundRecords


def check_sketch(
    record: Vouched | Affirmed | Revealed | Released, current: RoundRecords, deadlines: Deadlines, facts: ChainFacts
) -> None:
    """Raise RuleBroken if the record was made for another sketch than that of the round.

    The first voucher shows which block the sketch follows from; as long as there is none, other records name zeros.
    """
    number, client, known = record.round, record.client, current.sketch_hash
    if isinstance(record, Vouched):
        if record.at.block <= deadlines.sketch_block:
            raise bad(f"{record.FIELD}.block", "the block of the sketch was not past", number, client)
        known = facts.block_hash(deadlines.sketch_block)
    if record.block_hash != known:
        raise bad(f"{record.FIELD}.block hash", "it is not the hash of the block of the sketch", number, client)


def check_reveal(record: Revealed, current: RoundRecords, deadlines: Deadlines, settings: LedgerSettings) -> None:
    """Raise RuleBroken if the client may not reveal points now; that it signed the record is checked before."""
    number, client, block = record.round, record.client, record.at.block
    if client not in current.commits:
        raise bad(record.FIELD, "the client did not commit in the round", number, client)
    if not settings.is_bounded or current.sealed is None or block <= deadlines.vouch_end:
        raise bad(f"{record.FIELD}.block", f"block {block} is outside its window", number, client)
    if len(current.reveals.get(client, ())) >= MOST_REVEALS:
        raise bad(record.FIELD, f"the client had revealed {MOST_REVEALS} times", number, client)


def check_stage(record: Released, current: RoundRecords, settings: LedgerSettings) -> None:
    """Raise RuleBroken if shares may not be released in this stage, or the client released some in it before.

    Stage 0 is everybody's who drew. In the others those release who did in stage 0; the next stage begins with its
    first release, once as many have released in the one before as a closing needs.
    """
    number, client, stage = record.round, record.client, record.stage
    if client in current.releases_in(stage):
        raise bad(record.FIELD, "the client had released", number, client)
    if stage == 0:
        return
    if current.end is not None or client not in current.releases:
        raise bad(f"{record.FIELD}.stage", "the round had ended, or the client had not released", number, client)
    latest = current.stage
    enough = len(current.releases_in(latest)) >= settings.releases
    if stage > latest and not (enough and stage == latest + 1 and stage <= settings.stages):
        raise bad(f"{record.FIELD}.stage", f"stage {stage} could not follow stage {latest}", number, client)


def left_for_sum(current: RoundRecords, deadlines: Deadlines, block: int) -> int:
    """How many may be summed: those who committed and, once the vouchers are over where there are some, vouched."""
    bounded = deadlines.vouch_end > deadlines.commit_end
    return len(current.vouches if bounded and block > deadlines.vouch_end else current.commits)
