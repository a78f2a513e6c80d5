"""Expulsion: what opened keys disprove of each member, and what opens next."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import G
from fedgrove.node.masking.bounds.equation import Vouched
from fedgrove.node.masking.bounds.expulsion import Lie, after_expulsion, disproven, outer_keys
from fedgrove.node.masking.bounds.vouching import Setting
from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.sealing import MaskingRefused
from tests.node.masking.bounds.games import MEMBERS, Game, small_sketch

__all__ = ["small_sketch"]
pytestmark = pytest.mark.usefixtures("small_sketch")


class Opened:
    """A round whose sum is open, and vouchers that may say anything."""

    def __init__(self, seed: int = 1, expelled=()) -> None:
        self.game = Game(seed)
        self.summed = frozenset((*self.game.honest, *self.game.colluders)) - set(expelled)
        secrets = self.game.round.secrets
        self.record = RecoveryRecord(
            bytes(32),
            {p: secrets[p].self_seed for p in (*self.game.honest, *self.game.colluders)},
            {p: secrets[p].mask_secret for p in range(MEMBERS) if p not in self.summed},
        )
        self.vouchers = {p: self.true(p) for p in self.summed}

    def true(self, position: int) -> Vouched:
        listed, masks = self.game.sketched(position)
        pairs = {key.pair[1]: mask.commitment for key, mask in zip(listed[1:], masks[1:], strict=True)}
        return Vouched(self.game.setting.sketch.of(self.game.uploads[position]), masks[0].commitment, pairs)

    def found(self) -> dict[int, Lie]:
        uploads = self.game.uploads
        return disproven(self.game.setting, self.vouchers, self.summed, self.record, lambda p: uploads[p])

    def lie(self, position: int, what: Lie, partner: int | None = None) -> None:
        own = self.vouchers[position]
        partner = self.game.never if partner is None else partner
        match what:
            case Lie.UPLOAD:
                changed = own.upload.copy()
                changed[3] += 1
                own = replace(own, upload=changed)
            case Lie.SELF_MASK:
                own = replace(own, own=own.own + G)
            case Lie.EDGE:
                own = replace(own, pairs={**own.pairs, partner: own.pairs[partner] + G})
        self.vouchers[position] = own


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_exactly_those_who_lie_about_what_is_open_are_found(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedgrove.node.masking.bounds.sketch._BUCKETS_1", 256)
        patch.setattr("fedgrove.node.masking.bounds.sketch.STRETCHING", 1)
        opened = Opened(data.draw(st.integers(0, 3)))
        lies = data.draw(st.dictionaries(st.sampled_from(sorted(opened.summed)), st.sampled_from(Lie)))
        for position, what in lies.items():
            opened.lie(position, what, data.draw(st.sampled_from([opened.game.never, opened.game.late])))
        assert opened.found() == lies


def test_a_lie_to_somebody_who_is_summed_is_found_once_that_one_is_expelled():
    liar, partner = Game(1).honest[0], Game(1).colluders[0]
    opened = Opened()
    opened.lie(liar, Lie.EDGE, partner)
    assert opened.found() == {}
    opened = Opened(expelled=[partner])
    opened.lie(liar, Lie.EDGE, partner)
    assert opened.found() == {liar: Lie.EDGE}


def test_outer_masks_are_a_members_own_and_those_with_partners_outside():
    opened = Opened()
    game = opened.game
    position = game.honest[0]
    keys = {key.pair and key.pair[1]: key for key in game.masks(position)}
    outer = outer_keys(game.setting, position, opened.summed, opened.record)
    assert outer == [keys[at] for at in (None, *sorted((game.never, game.late)))]


def test_the_next_stage_opens_mask_secrets_of_the_liars_and_nothing_else():
    opened = Opened()
    liars = opened.game.colluders[:2]
    needed = after_expulsion(opened.game.setting, opened.summed, liars)
    assert needed.keys == tuple(sorted(liars))
    assert needed.seeds == tuple(sorted(opened.summed - set(liars)))


def test_too_few_left_open_nothing():
    opened = Opened()
    with pytest.raises(MaskingRefused):
        after_expulsion(opened.game.setting, opened.summed, opened.game.honest[:5])


def test_if_the_rest_falls_apart_nothing_opens():
    """Self-masks are off: without the one that joins them both halves could be summed, each by itself."""
    opened = Opened()
    left, joint, right = range(0, 5), 5, range(6, 12)
    neighbours = [
        tuple(other for other in range(12) if other != p and (other == joint or (p in left) == (other in left)))
        for p in range(12)
    ]
    neighbours[joint] = tuple(other for other in range(12) if other != joint)
    graph = replace(
        opened.game.round.graph, neighbours=tuple(neighbours), groups=(Group(tuple(range(12)), 3, tuple(range(12))),)
    )
    setting = Setting(graph, frozenset(range(12)), opened.game.setting.sketch, {}, {})
    assert len(left) < len(right)
    assert after_expulsion(setting, range(12), [11]).keys == (11,)
    with pytest.raises(MaskingRefused, match="no masks connect"):
        after_expulsion(setting, range(12), [joint])
