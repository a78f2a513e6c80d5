"""Vouchers: what they say in integers, one encoding, and what they are bound to."""

from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import ORDER
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds import proof
from fedgrove.node.masking.bounds.group import commit
from fedgrove.node.masking.bounds.vouching import (
    Setting,
    Voucher,
    check_vouchers,
    statement_of,
    valid_vouchers,
    vouch,
    voucher_bytes,
)
from fedgrove.node.masking.sealing import MaskingRefused
from tests.node.masking.bounds.games import METRIC, METRICS, WIDTH, Game, small_sketch
from tests.node.masking.rounds import seeded

__all__ = ["small_sketch"]
pytestmark = pytest.mark.usefixtures("small_sketch")


@pytest.fixture
def game(small_sketch):
    return Game(1)


def opened(game: Game, position: int, monkeypatch) -> tuple[list[int], list[int], int, int]:
    """What an honest member proves: v, c and both blindings."""
    found = []

    def prove(statement, values, blinding, carries, carry_blinding, random):
        assert statement.bounded == commit(values, blinding)
        assert statement.carry == commit(carries, carry_blinding)
        found.append((values, carries, blinding, carry_blinding))
        return proof.prove(statement, values, blinding, carries, carry_blinding, random)

    monkeypatch.setattr("fedgrove.node.masking.bounds.vouching.prove", prove)
    game.vouched(position)
    return found[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_voucher_says_what_plain_integers_give(seed, monkeypatch):
    """v = S·q, and carries that are whole and small: the commitments open to both, as an independent sum shows."""
    game = Game(seed)
    position = game.honest[seed]
    values, carries, _, _ = opened(game, position, monkeypatch)
    clear = game.setting.sketch.of(game.clear[position]).tolist()
    assert values == [w - 2**32 if at < WIDTH and w >= 2**31 else w for at, w in enumerate(clear)]
    listed, masks = game.sketched(position)
    upload = game.setting.sketch.of(game.uploads[position]).tolist()
    for at in range(WIDTH + METRICS):
        laid = sum((-1 if key.subtract else 1) * int(mask.values[at]) for key, mask in zip(listed, masks, strict=True))
        assert values[at] + laid - upload[at] == carries[at] << 32
        assert abs(carries[at]) <= len(listed)


def test_both_ends_of_an_edge_publish_the_same_commitment(game):
    vouchers = valid_vouchers(game.setting, game.honest_vouchers())
    assert vouchers.keys() == set(game.honest)
    for low in game.honest:
        for high in game.honest:
            if low != high:
                assert vouchers[low].pairs[high] == vouchers[high].pairs[low]


def test_a_voucher_is_read_as_it_was_written(game):
    position = game.honest[0]
    data = game.vouched(position)
    assert len(data) == voucher_bytes(game.setting, position)
    parsed = Voucher.parse(data, game.setting, position)
    assert parsed.to_bytes() == data and list(parsed.pairs) == list(game.setting.partners(position))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_no_changed_voucher_is_valid(data):
    game, position, voucher = _kept()
    at = data.draw(st.integers(0, len(voucher) - 1))
    changed = bytearray(voucher)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert not valid_vouchers(game.setting, {position: bytes(changed)})


@lru_cache
def _kept() -> tuple[Game, int, bytes]:
    game = Game(2)
    return game, game.honest[0], game.vouched(game.honest[0])


def test_vouchers_of_another_length_are_refused(game):
    position = game.honest[0]
    data = game.vouched(position)
    for wrong in (b"", data[:-1], data + b"\0"):
        with pytest.raises(InvalidContent):
            Voucher.parse(wrong, game.setting, position)


def test_one_bad_voucher_in_a_batch_is_found_and_the_others_count(game):
    vouchers = valid_vouchers(game.setting, game.honest_vouchers())
    first, second = game.honest[:2]
    swapped = vouchers | {first: replace(vouchers[first], proof=vouchers[second].proof)}
    assert check_vouchers(game.setting, swapped) == {first}
    assert check_vouchers(game.setting, {}) == frozenset()


def changed(setting: Setting, position: int, what: str) -> Setting:
    graph = setting.graph
    match what:
        case "round":
            return replace(setting, graph=replace(graph, context=replace(graph.context, round=8)))
        case "chain":
            return replace(setting, graph=replace(graph, context=replace(graph.context, chain_id=1)))
        case "ledger":
            return replace(setting, graph=replace(graph, context=replace(graph.context, ledger="0x" + "11" * 20)))
        case "sketch":
            return replace(setting, sketch=replace(setting.sketch, seed=bytes(32)))
        case "upload":
            return replace(setting, uploads={**setting.uploads, position: bytes(32)})
        case "norm":
            bounds = setting.bounds[position]
            return replace(setting, bounds={position: replace(bounds, norm_squared=bounds.norm_squared + 1)})
        case _:
            return replace(setting, bounds={position: replace(setting.bounds[position], metrics=(METRIC + 1,))})


@pytest.mark.parametrize("what", ["round", "chain", "ledger", "sketch", "upload", "norm", "metric"])
def test_a_voucher_holds_under_its_own_setting_only(game, what):
    position = game.honest[0]
    blobs = {position: game.vouched(position)}
    assert valid_vouchers(game.setting, blobs)
    assert not valid_vouchers(changed(game.setting, position, what), blobs)


def test_a_voucher_of_one_member_does_not_hold_for_another(game):
    first, second = game.honest[:2]
    assert not valid_vouchers(game.setting, {second: game.vouched(first)})


@pytest.mark.parametrize("over", ["norm", "metric"])
def test_an_update_above_its_bounds_is_refused(game, over):
    position = game.honest[0]
    game.clear[position] = game.clear[position].copy()
    game.clear[position][0 if over == "norm" else -1] = 1 << 25
    with pytest.raises(MaskingRefused, match="larger than its limit"):
        game.vouched(position)


def test_a_member_that_did_not_share_does_not_vouch(game):
    position = game.honest[0]
    setting = replace(game.setting, sharers=game.setting.sharers - {position})
    with pytest.raises(MaskingRefused):
        vouch(setting, position, game.round.secrets[position], game.uploads[position], seeded(1))


def test_the_carry_is_bound_to_every_word_that_is_published(game):
    """C moves by 2⁻³² of whatever is added to a part of the voucher, with the sign of the mask."""
    position = game.honest[3]
    voucher = Voucher.parse(game.vouched(position), game.setting, position)
    base, step, unshift = statement_of(game.setting, position, voucher).carry, commit([1], 7), pow(2**32, -1, ORDER)
    for partner in voucher.pairs:
        moved = replace(voucher, pairs={**voucher.pairs, partner: voucher.pairs[partner] + step})
        sign = 1 if position < partner else -1
        assert statement_of(game.setting, position, moved).carry == base + step * (sign * unshift)
    moved = replace(voucher, own=voucher.own + step)
    assert statement_of(game.setting, position, moved).carry == base + step * unshift
