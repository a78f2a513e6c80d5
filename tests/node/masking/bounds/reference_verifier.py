"""A verifier of vouchers that was written from docs/bounded-sums.md alone, section "Formats".

Plain integers, hashlib, AES from ``cryptography``, and a curve of its own; no code of fedgrove.
"""

import hashlib
import hmac
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

# --- the curve secp256k1 ----------------------------------------------------------------------------------------------

FIELD = 2**256 - 2**32 - 977
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
BASE = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


class Invalid(Exception):
    """Bytes that are not what they must be."""


def even_point(x):
    """The point with this x coordinate and an even y."""
    if x >= FIELD:
        raise Invalid("no x coordinate")
    square = (x**3 + 7) % FIELD
    y = pow(square, (FIELD + 1) // 4, FIELD)
    if y * y % FIELD != square:
        raise Invalid("no point has this x coordinate")
    return (x, y if y % 2 == 0 else FIELD - y)


def parse_point(data):
    """33 bytes; None is the neutral element."""
    if data == bytes(33):
        return None
    if data[0] not in (2, 3):
        raise Invalid("no point")
    x, y = even_point(int.from_bytes(data[1:], "big"))
    return (x, y) if data[0] == 2 else (x, FIELD - y)


def encode_point(point):
    if point is None:
        return bytes(33)
    return bytes([2 + point[1] % 2]) + point[0].to_bytes(32, "big")


def negative(point):
    return point and (point[0], FIELD - point[1])


def doubled(point):
    """In Jacobian coordinates; z = 0 is the neutral element."""
    x, y, z = point
    s, m = 4 * x * y * y % FIELD, 3 * x * x % FIELD
    found = (m * m - 2 * s) % FIELD
    return found, (m * (s - found) - 8 * y**4) % FIELD, 2 * y * z % FIELD


def added(left, right):
    """A point in Jacobian coordinates and one in affine coordinates."""
    x, y, z = left
    if z == 0:
        return (*right, 1)
    u, s = right[0] * z * z % FIELD, right[1] * z**3 % FIELD
    h, r = (u - x) % FIELD, (s - y) % FIELD
    if h == 0:
        return doubled(left) if r == 0 else (1, 1, 0)
    found = (r * r - h**3 - 2 * x * h * h) % FIELD
    return found, (r * (x * h * h - found) - y * h**3) % FIELD, z * h % FIELD


def combination(*terms):
    """Σ factor · point, over pairs (factor, point)."""
    used = [(factor % ORDER, point) for factor, point in terms if point is not None]
    total = (1, 1, 0)
    for bit in reversed(range(256)):
        total = doubled(total)
        for factor, point in used:
            if factor >> bit & 1:
                total = added(total, point)
    x, y, z = total
    if z == 0:
        return None
    inverse = pow(z, -1, FIELD)
    return x * inverse**2 % FIELD, y * inverse**3 % FIELD


def hashed_point(label):
    counter = 0
    while True:
        digest = sha256(b"fedgrove point 1" + label + number(counter, 4))
        try:
            return even_point(int.from_bytes(digest, "big"))
        except Invalid:
            counter += 1


def generators(name, count):
    return [hashed_point(b"bounded sums " + name + number(index, 4)) for index in range(count)]


# --- bytes ------------------------------------------------------------------------------------------------------------


def sha256(data):
    return hashlib.sha256(data).digest()


def shake256(data, size):
    return hashlib.shake_256(data).digest(size)


def number(value, size):
    return value.to_bytes(size, "big")


def listed(positions):
    return number(len(positions), 4) + b"".join(number(each, 4) for each in positions)


def split(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def numbers(data, size):
    return [int.from_bytes(each, "big") for each in split(data, size)]


def scalars(data):
    found = numbers(data, 32)
    if any(each >= ORDER for each in found):
        raise Invalid("a number is not below the order")
    return found


# --- public figures ---------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    """The public figures of a round, by their names on the page."""

    chain: int
    ledger: bytes
    round: int
    participants: list  # (client number, samples, mask key, sealing key) by position
    partners: list
    holders: list
    threshold: int
    groups: list  # (quota, positions, those that count)
    sharers: set
    uploads: dict  # digests by position, in the order of the ledger
    block_hash: bytes
    norm: float
    width: int
    bound: float
    colluders_ppm: int
    length: int
    limits: list

    @property
    def context(self):
        return number(self.chain, 32) + self.ledger + number(self.round, 8)

    @property
    def graph_digest(self):
        parts = [b"fedgrove mask graph 3", self.context, number(len(self.participants), 4), number(self.threshold, 4)]
        parts.append(listed([quota for quota, _, _ in self.groups]))
        for client, samples, mask_key, seal_key in self.participants:
            parts.append(number(client, 4) + number(samples, 4) + mask_key + seal_key)
        parts += [listed(own) for own in self.partners]
        parts += [listed(own) for own in self.holders]
        for _, positions, counted in self.groups:
            parts += [listed(positions), listed(counted)]
        return sha256(b"".join(parts))

    @property
    def words(self):
        """k."""
        colluders = self.colluders_ppm * len(self.participants) // 1_000_000
        needed = 256
        while needed - 16 < colluders + 80:
            needed *= 2
        return max(self.width, needed)

    def norm_squared(self, position):
        """τ² of a member."""
        bits = 30
        while 2 ** (30 - bits) < Fraction(self.bound):
            bits -= 1
        while 2 ** Fraction(29 - bits) >= Fraction(self.bound):
            bits += 1
        total = sum(samples for _, samples, _, _ in self.participants)
        exact = Fraction(self.norm) * self.participants[position][1] * 2**bits / total
        g = -(-exact.numerator // exact.denominator) + isqrt(self.length) // 2 + 1
        return 3456 * g * g // 25

    def masked_with(self, position):
        """p(i)."""
        return sorted(set(self.partners[position]) & self.sharers)

    @property
    def seed(self):
        return sha256(b"fedgrove sketch 1" + self.context + self.block_hash + b"".join(self.uploads.values()))


# --- the sketch -------------------------------------------------------------------------------------------------------


def choices(key, row, count):
    counter = number(row << 64, 16)
    stream = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(bytes(2 * count))
    return [int.from_bytes(each, "little") for each in split(stream, 2)]


def stage(key, rows, vector, buckets):
    found = []
    for row in rows:
        own = [0] * buckets
        for word, u in zip(vector, choices(key, row, len(vector)), strict=True):
            own[u % buckets] += -word if u // buckets % 2 else word
        found += own
    return found


def sketch(figures, upload):
    """ŷ of an upload's bytes."""
    key = figures.seed
    for _ in range(2**20):
        key = sha256(key)
    words = [int.from_bytes(each, "little") for each in split(upload, 4)]
    vector, metrics = words[: figures.length], words[figures.length :]
    middle = stage(key, range(6), vector, 2**14)
    return [word % 2**32 for word in stage(key, range(6, 22), middle, figures.words // 16) + metrics]


# --- the voucher ------------------------------------------------------------------------------------------------------


def sketch_in(figures, voucher):
    """ŷ as a voucher says it."""
    return [int.from_bytes(each, "little") for each in split(voucher[4 : 4 + 4 * width(figures)], 4)]


def width(figures):
    """K."""
    return figures.words + len(figures.limits)


def is_valid(figures, position, voucher):
    """Whether a member's voucher proves what it must."""
    try:
        return proves(figures, position, voucher)
    except Invalid:
        return False


def proves(figures, position, voucher):
    partners, words, metrics = figures.masked_with(position), width(figures), len(figures.limits)
    roots = 4 + 3 * metrics
    hidden = 2 * words + roots
    body_size = 4 + 4 * words + 33 * (2 + len(partners))
    if len(voucher) != body_size + 64 + 33 * 6 + 14 * 128 + 32 * (1 + hidden + 132) or voucher[:4] != b"FGU1":
        return False
    body, knowledge, proof = voucher[:body_size], voucher[body_size : body_size + 64], voucher[body_size + 64 :]
    v_point, b_point, *edges = map(parse_point, split(body[4 + 4 * words :], 33))
    client, _, mask_key, _ = figures.participants[position]
    context = b"fedgrove voucher 1" + figures.context + figures.graph_digest + figures.seed + number(client, 4)
    context += figures.uploads[position] + sha256(listed(partners)) + sha256(body)
    if not knows(mask_key, context, knowledge):
        return False

    w_points, h = generators(b"words", words), hashed_point(b"bounded sums blinding" + number(0, 4))
    signed = [edge if position < partner else negative(edge) for partner, edge in zip(partners, edges, strict=True)]
    unshift = pow(2**32, -1, ORDER)
    terms = [(1, point) for point in (v_point, b_point, *signed)]
    terms += [(-word, point) for word, point in zip(sketch_in(figures, voucher), w_points, strict=True)]
    c_point = combination(*((unshift * factor, point) for factor, point in terms))

    tau_squared = figures.norm_squared(position)
    statement = number(len(context), 4) + number(figures.words, 4) + number(metrics, 4)
    statement += b"".join(number(limit, 4) for limit in figures.limits) + number(tau_squared, 8)
    statement += encode_point(v_point) + encode_point(c_point) + context

    first, rest = proof[: 33 * 4], proof[33 * 4 :]
    second, rest = rest[: 14 * 128 + 33 * 2], rest[14 * 128 + 33 * 2 :]
    third, last = rest[:32], rest[32:]
    a_point, m_v, m_c, m_a = map(parse_point, split(first, 33))
    z = numbers(second[: 14 * 128], 14)
    t_1, t_0 = map(parse_point, split(second[14 * 128 :], 33))
    (w,), responses = scalars(third), scalars(last)

    state = sha256(sha256(b"fedgrove bounded sums: proof 1" + statement) + first)
    stream = shake256(state, 16 * hidden + 48)
    bits = [byte >> place & 1 for byte in stream[:-48] for place in range(7, -1, -1)]
    delta = int.from_bytes(stream[-48:], "big") % ORDER
    state = sha256(state + second)
    gammas = numbers(shake256(state, 128 * 16), 16)
    e = int.from_bytes(shake256(sha256(state + third), 48), "big") % ORDER

    v, c, a = responses[:words], responses[words : 2 * words], responses[2 * words : hidden]
    y, (r_v, r_c, r_a, r_t) = responses[hidden : hidden + 128], responses[hidden + 128 :]
    condition = sum(x * x for x in v[: figures.words]) + sum(x * x for x in a[:4]) - e * e * tau_squared
    for metric, limit in enumerate(figures.limits):
        x, squares = v[figures.words + metric], a[4 + 3 * metric : 7 + 3 * metric]
        condition += delta ** (metric + 1) * (sum(s * s for s in squares) - 4 * x * (e * limit - x) - e * e)
    rows = split(bits, hidden)
    totals = [sum(u for u, bit in zip(responses, row, strict=False) if bit) + y[t] for t, row in enumerate(rows)]
    fit = sum(gamma * (total - e * z_t) for gamma, total, z_t in zip(gammas, totals, z, strict=True)) - w

    a_points, j_points = generators(b"squares", roots), generators(b"projections", 128)
    g_0 = hashed_point(b"bounded sums value" + number(0, 4))
    return (
        combination(*zip(v, w_points, strict=True), (r_v, h)) == combination((e, v_point), (1, m_v))
        and combination(*zip(c, w_points, strict=True), (r_c, h)) == combination((e, c_point), (1, m_c))
        and combination(*zip(a, a_points, strict=True), *zip(y, j_points, strict=True), (r_a, h))
        == combination((e, a_point), (1, m_a))
        and combination((condition, g_0), (r_t, h)) == combination((e, t_1), (1, t_0))
        and fit % ORDER == 0
    )


def knows(mask_key, context, knowledge):
    """Whether the author knows the secret of its mask key."""
    c, s = scalars(knowledge)
    first = combination((s, BASE), (-c, even_point(int.from_bytes(mask_key, "big"))))
    label = b"fedgrove known secret 1"
    return c == int.from_bytes(sha256(label + sha256(context) + mask_key + encode_point(first)), "big") % ORDER


# --- other blobs ------------------------------------------------------------------------------------------------------


def hkdf(secret, info, size):
    """RFC 5869 with SHA-256 and no salt."""
    extracted, block, found = hmac.digest(bytes(32), secret, "sha256"), b"", b""
    for counter in range(1, -(-size // 32) + 1):
        block = hmac.digest(extracted, block + info + bytes([counter]), "sha256")
        found += block
    return found[:size]


def mask_commitment(figures, key, label):
    """B or W of the mask with an AES key."""
    size = 4 * (figures.length + len(figures.limits))
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))
    blinding = int.from_bytes(hkdf(key, label + figures.seed, 48), "big") % ORDER
    points = generators(b"words", width(figures))
    terms = list(zip(sketch(figures, stream), points, strict=True))
    return encode_point(combination(*terms, (blinding, hashed_point(b"bounded sums blinding" + number(0, 4)))))


def self_key(figures, seed, position):
    """The AES key of a self-mask."""
    client = figures.participants[position][0]
    return hkdf(seed, b"fedgrove self mask 1" + figures.context + number(client, 4), 32)


def revealed_keys(figures, position, deposition):
    """The AES keys of the pair masks that a member's deposition proves, by partner."""
    head = b"FGT1" + sha256(b"fedgrove deposition 1" + figures.graph_digest + number(position, 4) + figures.seed)
    if deposition[: len(head)] != head:
        raise Invalid("a deposition of another round, member or sketch")
    missing = int.from_bytes(deposition[len(head) : len(head) + 4], "big")
    client, _, own_key, _ = figures.participants[position]
    found = {}
    for entry in split(deposition[len(head) + 4 + 4 * missing :], 4 + 33 + 64):
        partner = int.from_bytes(entry[:4], "big")
        other, _, other_key, _ = figures.participants[partner]
        (c, s), common = scalars(entry[37:]), parse_point(entry[4:37])
        own_point, base = (even_point(int.from_bytes(key, "big")) for key in (own_key, other_key))
        first, second = combination((s, BASE), (-c, own_point)), combination((s, base), (-c, common))
        context = b"fedgrove reveal 1" + figures.graph_digest + number(client, 4) + number(other, 4)
        hashed = b"fedgrove shared point 1" + sha256(context) + own_key + other_key + encode_point(common)
        challenge = sha256(hashed + encode_point(first) + encode_point(second))
        if c == int.from_bytes(challenge, "big") % ORDER:
            ends = b"".join(number(each, 4) for each in sorted((client, other)))
            found[partner] = hkdf(entry[5:37], b"fedgrove pair mask 2" + figures.context + ends, 32)
    return found
