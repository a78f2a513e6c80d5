"""Why a round left no model, as far as the ledger tells."""

from fedgrove.chain.records import Voided
from fedgrove.node.status.participation import fate
from tests.node.protocol.ledger_story import FIRST_MODEL, NOTHING, RIGHT_MODEL, Story, follows


def test_a_voided_round_counts_those_who_say_now_that_it_has_no_result():
    everybody = (1, 2, 3, 4, 5)
    story = Story(max_clients=5).joined(*everybody).to_drawn(*everybody).to_committed(*everybody).to_closed()
    assert fate(story.current, story.rounds.quorum) == ""
    story.add(story.judged(4, NOTHING), story.judged(5, RIGHT_MODEL), story.judged(4, RIGHT_MODEL))
    story.add(story.judged(1, NOTHING), story.judged(2, NOTHING))
    last = story.judged(3, NOTHING)
    story.add(last, follows(Voided, last, FIRST_MODEL))
    said = "the round was voided: 3 of its 5 clients judged that it has no result"
    assert fate(story.current, story.rounds.quorum) == said
