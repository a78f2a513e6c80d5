// Makes ECVRF proofs with the hints that ECVRF.sol checks, from RFC 9381 and with BigInt arithmetic. For tests only.
"use strict";

const { createHash } = require("node:crypto");

const P = 2n ** 256n - 2n ** 32n - 977n;
const N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const G = {
  x: 0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
  y: 0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n,
};

const mod = (a, m = P) => ((a % m) + m) % m;

function power(base, exponent) {
  let result = 1n;
  for (base = mod(base); exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) result = (result * base) % P;
    base = (base * base) % P;
  }
  return result;
}

const inverse = (a) => power(a, P - 2n);
const root = (a) => power(a, (P + 1n) / 4n);

function add(a, b) {
  if (a === null) return b;
  if (b === null) return a;
  if (a.x === b.x && a.y !== b.y) return null;
  const slope = a.x === b.x ? mod(3n * a.x * a.x * inverse(2n * a.y)) : mod((b.y - a.y) * inverse(b.x - a.x));
  const x = mod(slope * slope - a.x - b.x);
  return { x, y: mod(slope * (a.x - x) - a.y) };
}

function multiply(scalar, point) {
  let sum = null;
  for (; scalar > 0n; scalar >>= 1n) {
    if (scalar & 1n) sum = add(sum, point);
    point = add(point, point);
  }
  return sum;
}

const word = (value) => Buffer.from(value.toString(16).padStart(64, "0"), "hex");
const number = (bytes) => BigInt("0x" + bytes.toString("hex"));
const compressed = (point) => Buffer.concat([Buffer.from([point.y & 1n ? 3 : 2]), word(point.x)]);
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();
const bytes = (...values) => Buffer.from(values);

function hashToCurve(key, alpha) {
  const roots = [];
  for (let counter = 0; ; counter++) {
    const x = number(sha256(bytes(0xfe, 1), compressed(key), alpha, bytes(counter, 0)));
    const square = mod(x * x * x + 7n);
    const y = root(square);
    if (mod(y * y) === square) return { h: { x, y: y & 1n ? P - y : y }, roots: [...roots, y] };
    roots.push(root(P - square));
  }
}

/**
 * @param {bigint} secret the VRF secret key
 * @param {Buffer} alpha 32 bytes
 * @returns {{message: Buffer, beta: Buffer}} the message for the contract, and the VRF output
 */
function prove(secret, alpha) {
  const key = multiply(secret, G);
  const { h, roots } = hashToCurve(key, alpha);
  const gamma = multiply(secret, h);
  const nonce = mod(number(sha256(word(secret), alpha)), N);
  const u = multiply(nonce, G);
  const points = [key, h, gamma, u, multiply(nonce, h)].map(compressed);
  const c = number(sha256(bytes(0xfe, 2), ...points, bytes(0)).subarray(0, 16));
  const s = mod(nonce + c * secret, N);
  const a = multiply(s, h);
  const b = multiply(c, gamma);
  const slope = mod((a.y + b.y) * inverse(a.x - b.x));
  const head = [gamma.x, s, u.x, u.y, a.x, a.y, slope, b.x].map(word);
  const message = Buffer.concat([...head, compressed(gamma).subarray(0, 1), ...roots.map(word)]);
  return { message, beta: sha256(bytes(0xfe, 3), compressed(gamma), bytes(0)) };
}

const publicKey = (secret) => multiply(secret, G);

module.exports = { prove, publicKey };
