"""What those that committed in a round say of it, and what follows where more than half of them say the same.

Before its closing they say that nothing may be summed: the round fails. After it they say what it should have come to,
or nothing: that result takes its place, or it is void; the round that runs on a model that fell ends with it.
"""

from fedgrove.chain.records import Closed, Failed, Judged, Phase, Replaced, RoundRecord, Voided
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.clock import phase_of
from fedgrove.node.protocol.rounds import Rounds


def check_judgement(record: Judged, rounds: Rounds, settings: LedgerSettings) -> None:
    """Raise RuleBroken if the client may not say this; that it signed it is checked before."""
    number, client, says_nothing = record.round, record.client, not any(record.model_digest)
    if says_nothing == any(record.metrics_digest):
        raise bad(record.FIELD, "it names a model without metrics, or metrics without a model", number, client)
    current = rounds.rounds.get(number)
    if current is None or client not in current.commits:
        raise bad(record.FIELD, "the client did not commit in the round", number, client)
    judged = current.judgements(record.asked)
    alike = [each for each in judged.values() if result_of(each) == result_of(record)]
    # who saw no result, or less of one, may take that back for a result that others put into its reach
    if client in judged and (says_nothing or judged[client] in alike or not alike):
        raise bad(record.FIELD, "the client had already judged the round", number, client)
    # once the last closing is void, the one before it, which stands, is judged no more
    closed = (each for each in reversed(rounds.rounds.values()) if isinstance(each.end, Closed))
    if record.asked is Phase.RECOVER:
        deadlines, block = current.deadlines(settings), record.at.block
        in_recovery = phase_of(current, deadlines, block) is Phase.RECOVER
        # where the clock does not fail a round, they may once the window of its latest stage is over
        may_be_summed = len(current.releases) >= settings.releases and block <= deadlines.recover_end
        if not in_recovery or may_be_summed or not says_nothing:
            reason = "the round was not in recovery, enough had released shares, or it names a result"
            raise bad(record.FIELD, reason, number, client)
    elif record.asked is not Phase.CLOSED or next(closed, None) is not current or not current.stands:
        raise bad(record.FIELD, "it is not of the closing that stands", number, client)


def consequences(record: Judged, rounds: Rounds, settings: LedgerSettings) -> list[RoundRecord]:
    """The records that a lawful judgement brings with it, in the same transaction."""
    at, number, current = record.at, record.round, rounds.rounds[record.round]
    verdict = result_of(record)
    said = current.judgements(record.asked) | {record.client: record}
    count = sum(result_of(each) == verdict for each in said.values())
    if count < settings.judges or 2 * count <= len(current.commits):
        return []
    if record.asked is Phase.RECOVER:
        return [Failed(at, number)]
    before = current.result
    if verdict == (before.model_digest, before.metrics_digest):
        return []
    void = Voided(at, number, current.opened.model_digest)
    outcome = Replaced(at, number, *verdict) if any(record.model_digest) else void
    running = rounds.last
    falls = running.end is None and record.model_digest != before.model_digest
    return [outcome, Voided(at, running.number, outcome.model_digest)] if falls else [outcome]


def result_of(record: Judged) -> tuple[bytes, bytes]:
    """The digests of model and metrics that a judgement is for; zeros for no result."""
    return record.model_digest, record.metrics_digest
