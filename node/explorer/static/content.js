// The names of content: SHA-256 digest and CID of a file, as IPFS makes them (UnixFS, CIDv1, raw leaves, chunks of 1 MiB,
// up to 1,024 links a node; the same as fedgrove's ipfs/unixfs.py). Only the browser's own SHA-256 is used.

const CHUNK = 1 << 20;
const LINKS = 1024;
const RAW = 0x55;
const DAG_PB = 0x70;

/** Digest (hex) and CID (text) of a whole file. */
export async function fileNames(data) {
  let level = [];
  for (let start = 0; start < Math.max(data.length, 1); start += CHUNK) {
    const piece = data.subarray(start, start + CHUNK);
    level.push({ digest: await sha256(piece), codec: RAW, size: piece.length, total: piece.length });
  }
  while (level.length > 1) {
    const parents = [];
    for (let start = 0; start < level.length; start += LINKS) {
      const links = level.slice(start, start + LINKS);
      const node = encodeNode(links);
      const total = node.length + sum(links.map((link) => link.total));
      parents.push({ digest: await sha256(node), codec: DAG_PB, size: sum(links.map((link) => link.size)), total });
    }
    level = parents;
  }
  return { digest: hex(level[0].digest), cid: cidText(level[0]) };
}

/** The dag-pb bytes of a file node with these children. */
function encodeNode(links) {
  const parts = links.map((link) => {
    const inner = join([field(0x0a, cidBytes(link)), [0x12, 0x00], [0x18], varint(link.total)]);
    return field(0x12, inner);
  });
  const sizes = links.flatMap((link) => [0x20, ...varint(link.size)]);
  const file = join([[0x08, 0x02], [0x18], varint(sum(links.map((link) => link.size))), sizes]);
  return join([...parts, field(0x0a, file)]);
}

function cidBytes({ digest, codec }) {
  return join([[1, codec, 0x12, 0x20], digest]);
}

function cidText(link) {
  const alphabet = "abcdefghijklmnopqrstuvwxyz234567";
  let text = "b";
  let bits = 0;
  let value = 0;
  for (const byte of cidBytes(link)) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += alphabet[(value >>> bits) & 31];
      value &= (1 << bits) - 1;
    }
  }
  return bits ? text + alphabet[(value << (5 - bits)) & 31] : text;
}

function field(tag, value) {
  return join([[tag], varint(value.length), value]);
}

/** Unsigned LEB128; sizes may be beyond 32 bits, so no bit operators. */
function varint(number) {
  const bytes = [];
  while (number > 0x7f) {
    bytes.push((number % 128) + 128);
    number = Math.floor(number / 128);
  }
  return [...bytes, number];
}

function join(parts) {
  const joined = new Uint8Array(sum(parts.map((part) => part.length)));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

async function sha256(data) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}

function hex(bytes) {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
