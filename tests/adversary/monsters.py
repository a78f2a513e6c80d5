"""What colluders put under their masks, and what they say about it."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedgrove.common.errors import Refused
from fedgrove.node.masking.bounds.sketch import Sketch
from fedgrove.node.masking.bounds.vouching import Voucher
from tests.adversary.bounded_rounds import SELF, UPLOAD, WRAP, Lies, Played, cheat, forged, read
from tests.node.masking.bounds.games import BITS, METRIC, METRICS, NORM, WIDTH, WORDS, Game

# --- vectors: int64 of shape (d + μ,), added to an innocent update ------------------------------------------------

LIMIT = int(NORM * 2**BITS)


def _empty() -> np.ndarray:
    return np.zeros(WORDS + METRICS, np.int64)


def _at(places: np.ndarray, values) -> np.ndarray:
    vector = _empty()
    vector[places] = values
    return vector


def _places(game: Game, count: int) -> np.ndarray:
    return game.generator.choice(WORDS, count, replace=False)


def one_word(game: Game) -> np.ndarray:
    """2³¹ on one word: the half of the ring, where it is its own negative."""
    return _at(_places(game, 1), 1 << 31)


def quarter(game: Game) -> np.ndarray:
    return _at(_places(game, 1), 1 << 30)


def tenfold_word(game: Game) -> np.ndarray:
    return _at(_places(game, 1), 10 * LIMIT)


def opposite_words(game: Game) -> np.ndarray:
    return _at(_places(game, 2), [1 << 30, -(1 << 30)])


def halves(game: Game) -> np.ndarray:
    return _at(_places(game, 23), 1 << 31)


def all_halves(game: Game) -> np.ndarray:
    return _at(np.arange(WORDS), 1 << 31)


def dense(game: Game) -> np.ndarray:
    vector = game.generator.normal(size=WORDS)
    return _at(np.arange(WORDS), np.rint(vector * 20 * LIMIT / np.linalg.norm(vector)))


def shifted(game: Game) -> np.ndarray:
    return _at(np.arange(WORDS), LIMIT)


def replacement(game: Game) -> np.ndarray:
    """Takes all honest updates out and puts a model of its own in."""
    others = sum(np.where(q < WRAP // 2, q, q - WRAP) for p in game.honest for q in [game.clear[p].astype(np.int64)])
    vector = game.generator.normal(size=WORDS + METRICS) * LIMIT - others
    return np.append(vector[:WORDS].astype(np.int64), 0)


def uniform(game: Game) -> np.ndarray:
    return _at(np.arange(WORDS), game.generator.integers(0, WRAP, WORDS))


def round_numbers(game: Game) -> np.ndarray:
    """Multiples of 2¹⁶."""
    return _at(np.arange(WORDS), game.generator.integers(0, 1 << 16, WORDS) << 16)


def mass(game: Game) -> np.ndarray:
    """No word is above two limits, all together far above the ring."""
    return _at(np.arange(WORDS), game.generator.integers(-(1 << 23), 1 << 23, WORDS))


def large_metric(game: Game) -> np.ndarray:
    return _at(np.array([WORDS]), 20 * METRIC)


def negative_metric(game: Game) -> np.ndarray:
    return _at(np.array([WORDS]), -5 * METRIC)


VECTORS: dict[str, Callable[[Game], np.ndarray]] = {
    each.__name__: each
    for each in (
        one_word,
        quarter,
        tenfold_word,
        opposite_words,
        halves,
        all_halves,
        dense,
        shifted,
        replacement,
        uniform,
        round_numbers,
        mass,
        large_metric,
        negative_metric,
    )
}

# --- plans --------------------------------------------------------------------------------------------------------

Plan = Callable[[Game], Played]


def noise(game: Game) -> np.ndarray:
    """A lie that is anything."""
    return game.generator.integers(-WRAP // 2, WRAP // 2, WIDTH + METRICS)


def survivor(game: Game) -> int:
    return int(game.generator.choice(game.honest))


def obeys(game: Game) -> Played:
    """Asks the honest code for a voucher, which refuses."""
    a, *others = game.colluders
    try:
        game.vouched(a)
    except Refused:
        return Played({c: game.vouched(c) for c in others})
    raise AssertionError("a monster was vouched for")


def _filled(at: Callable[[Game], str | int]) -> Plan:
    def plan(game: Game) -> Played:
        lies, a = Lies(game), game.colluders[0]
        lies.fill(a, at(game))
        return Played(lies.vouchers(), {a})

    return plan


about_the_upload = _filled(lambda _: UPLOAD)
about_the_self_mask = _filled(lambda _: SELF)
about_an_edge_to_a_survivor = _filled(survivor)
about_an_edge_to_one_that_never_commits = _filled(lambda game: game.never)
about_an_edge_to_one_that_never_vouches = _filled(lambda game: game.late)


def about_edges_to_all_survivors(game: Game) -> Played:
    lies, a = Lies(game), game.colluders[0]
    for partner in game.honest[1:]:
        lies.say(a, partner, noise(game))
    lies.fill(a, game.honest[0])
    return Played(lies.vouchers(), {a})


def about_an_edge_to_a_silent_colluder(game: Game) -> Played:
    lies, (a, b, c) = Lies(game), game.colluders
    lies.fill(a, b)
    return Played({a: lies.voucher(a), c: lies.voucher(c)}, {a})


def a_little_everywhere(game: Game) -> Played:
    lies, a = Lies(game), game.colluders[0]
    for at in (UPLOAD, SELF, game.never):
        lies.say(a, at, noise(game))
    lies.fill(a, game.late)
    return Played(lies.vouchers(), {a})


def _chain(length: int, at: Callable[[Game], str | int]) -> Plan:
    """The gap is handed on from colluder to colluder, and the last one fills it."""

    def plan(game: Game) -> Played:
        lies, gang = Lies(game), game.colluders[:length]
        for giver, taker in itertools.pairwise(gang):
            lies.hand_on(giver, taker)
        lies.fill(gang[-1], at(game))
        return Played(lies.vouchers(), set(gang))

    return plan


pair_that_ends_at_an_upload = _chain(2, lambda _: UPLOAD)
pair_that_ends_at_a_self_mask = _chain(2, lambda _: SELF)
pair_that_ends_at_a_survivor = _chain(2, survivor)
chain_that_ends_at_an_upload = _chain(3, lambda _: UPLOAD)
chain_that_ends_at_a_dropout = _chain(3, lambda game: game.never)
chain_that_ends_at_a_survivor = _chain(3, survivor)


def ring(game: Game) -> Played:
    """Each hands anything on to the next, the first also to the last, and fills what is left."""
    lies, gang = Lies(game), game.colluders
    for giver, taker in zip(gang, gang[1:] + gang[:1], strict=True):
        lies.hand_on(giver, taker, noise(game))
    for giver, taker in zip(gang[1:], gang[2:] + gang[:1], strict=True):
        lies.hand_on(giver, taker)
    lies.fill(gang[0], SELF)
    return Played(lies.vouchers(), set(gang))


def clique(game: Game) -> Played:
    """Every two lie about their edge, and each about one to a dropout."""
    lies, gang = Lies(game), game.colluders
    for place, giver in enumerate(gang):
        for taker in gang[place + 1 :]:
            lies.hand_on(giver, taker, noise(game))
    for each in gang:
        lies.fill(each, game.late)
    return Played(lies.vouchers(), set(gang))


def spread(game: Game) -> Played:
    """The monster is the sum of three that are noise."""
    a, b, c = game.colluders
    for other in (b, c):
        part = game.generator.integers(0, WRAP, WORDS + METRICS)
        game.add(other, part)
        game.add(a, -part)
    lies = Lies(game)
    lies.hand_on(a, b)
    lies.hand_on(b, c)
    lies.fill(c, UPLOAD)
    return Played(lies.vouchers(), {a, b, c})


def cancelling(game: Game) -> Played:
    """Monsters whose sum is innocent, with lies that cancel as well: nobody is named, and nothing is spoilt."""
    a, b, _ = game.colluders
    game.add(b, game.innocent[a].astype(np.int64) - game.clear[a].astype(np.int64))
    lies = Lies(game)
    lies.hand_on(a, b)
    return Played(lies.vouchers())


def with_denials(game: Game) -> Played:
    """Colluders also say that they have nothing of any honest member."""
    return replace(about_the_upload(game), denied=set(game.honest))


def with_slander(game: Game) -> Played:
    """One contradicts all survivors so that both ends are out, while another lies about its self-mask."""
    lies, (a, b, _) = Lies(game), game.colluders
    for partner in game.honest:
        lies.say(b, partner, noise(game))
    lies.fill(b, SELF)
    lies.fill(a, SELF)
    return Played(lies.vouchers(), {a, b})


def misstated_sum(game: Game) -> Played:
    """The coordinator says of the outer masks what makes the sketches fit."""
    return replace(about_an_edge_to_one_that_never_commits(game), misstated=True)


def replayed(game: Game) -> Played:
    """The proofs were made for another sketch, under which the words were as innocent."""
    a, *others = game.colluders
    now = game.setting
    game.setting = replace(now, sketch=Sketch(game.random(32), WORDS, WIDTH, METRICS))
    lies = Lies(game)
    lies.fill(a, UPLOAD)
    old = lies.voucher(a)
    game.setting = now
    return Played({a: old} | {c: game.vouched(c) for c in others})


def copied(game: Game) -> Played:
    """Another's voucher as it is."""
    a, *others = game.colluders
    return Played({a: game.vouched(survivor(game))} | {c: game.vouched(c) for c in others})


def copied_commitment(game: Game) -> Played:
    """The commitment to another's sketch, with a proof of one's own."""
    theirs = survivor(game)
    stolen = Voucher.parse(game.vouched(theirs), game.setting, theirs).bounded
    return with_forgery(game, game.innocent[game.colluders[0]], bounded=stolen)


def too_long(game: Game) -> Played:
    """Claims what it sent, and proves that it is short."""
    return with_forgery(game, game.clear[game.colluders[0]])


def fractions(game: Game) -> Played:
    """Claims an innocent sketch; the carries that make up for it are no integers."""
    return with_forgery(game, game.innocent[game.colluders[0]])


def with_forgery(game: Game, claimed: np.ndarray, **options) -> Played:
    """True words, and a proof by somebody who does not care that it is wrong."""
    a, *others = game.colluders
    listed, masks = game.sketched(a)
    values = read(game.setting.sketch.of(claimed)).tolist()
    upload = game.setting.sketch.of(game.uploads[a])
    mine = forged(game, a, upload, listed, masks, values, **({"prover": cheat} | options))
    return Played({a: mine} | {c: game.vouched(c) for c in others})


PLANS: dict[str, Plan] = {
    "obeys": obeys,
    "about_the_upload": about_the_upload,
    "about_the_self_mask": about_the_self_mask,
    "about_an_edge_to_a_survivor": about_an_edge_to_a_survivor,
    "about_edges_to_all_survivors": about_edges_to_all_survivors,
    "about_an_edge_to_one_that_never_commits": about_an_edge_to_one_that_never_commits,
    "about_an_edge_to_one_that_never_vouches": about_an_edge_to_one_that_never_vouches,
    "about_an_edge_to_a_silent_colluder": about_an_edge_to_a_silent_colluder,
    "a_little_everywhere": a_little_everywhere,
    "pair_that_ends_at_an_upload": pair_that_ends_at_an_upload,
    "pair_that_ends_at_a_self_mask": pair_that_ends_at_a_self_mask,
    "pair_that_ends_at_a_survivor": pair_that_ends_at_a_survivor,
    "chain_that_ends_at_an_upload": chain_that_ends_at_an_upload,
    "chain_that_ends_at_a_dropout": chain_that_ends_at_a_dropout,
    "chain_that_ends_at_a_survivor": chain_that_ends_at_a_survivor,
    "ring": ring,
    "clique": clique,
    "spread": spread,
    "cancelling": cancelling,
    "with_denials": with_denials,
    "with_slander": with_slander,
    "misstated_sum": misstated_sum,
    "replayed": replayed,
    "copied": copied,
    "copied_commitment": copied_commitment,
    "too_long": too_long,
    "fractions": fractions,
}
