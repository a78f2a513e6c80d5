// Search in exported pages: the index lies in small files by the first two hexadecimal digits.

const NUMBERED = /^(?:(round|client|member|block)s?\s*#?\s*|#?)([0-9]{1,18})$/;
const NAMES = { round: "Round", client: "Client", member: "Client", block: "Block" };

/** Fill the results of the search page from its query; a single page opens at once. */
export async function search(root) {
  const words = (new URLSearchParams(location.search).get("q") ?? "").trim().slice(0, 200);
  const say = document.querySelector("[data-search]");
  const results = document.querySelector("[data-results]");
  document.getElementById("find").value = words;
  if (!words) {
    say.textContent =
      "Enter “round 3”, “member 5”, “block 80” or just the number; the first eleven letters of a CID, " +
      "or the first four digits of a digest, transaction or address.";
    return;
  }
  const found = await find(root, words.toLowerCase());
  if (found.length === 1) location.replace(target(root, found[0][2]));
  say.textContent = `${found.length} result${found.length === 1 ? "" : "s"} for ${words}`;
  results.replaceChildren(...found.slice(0, 50).map(line(root)));
}

async function find(root, words) {
  const numbered = words.match(NUMBERED);
  const found = [];
  if (numbered) {
    const [, kind, text] = numbered;
    const number = String(BigInt(text));
    const name = kind ? NAMES[kind] : "";
    for (const shard of ["numbers", "blocks"]) {
      found.push(...(await entries(root, shard, (key, what) => key === number && what.startsWith(name))));
    }
    if (kind) return found;
  }
  const bits = digestBits(words);
  if (bits) {
    const shard = parseInt(bits.slice(0, 8), 2).toString(16).padStart(2, "0");
    return entries(root, shard, (key, what) => key.length === 64 && !what.startsWith("Transaction") && binary(key).startsWith(bits));
  }
  const start = words.replace(/^0x/, "");
  if (/^[0-9a-f]{4,64}$/.test(start)) found.push(...(await entries(root, start.slice(0, 2), (key) => key.startsWith(start))));
  return found;
}

async function entries(root, shard, fits) {
  const answer = await fetch(target(root, `search/${shard}.json`));
  if (!answer.ok) return [];
  return (await answer.json()).filter(([key, what]) => fits(key, what));
}

function target(root, path) {
  return root.replace(/index\.html$/, "") + path;
}

function line(root) {
  return ([key, what, path]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = target(root, path);
    link.textContent = what;
    const code = document.createElement("code");
    code.className = "long";
    code.textContent = key.length > 20 ? key : "";
    item.append(link, " ", code);
    return item;
  };
}

/** The first bits of the digest in a CIDv1 or in its first letters; empty for anything else. */
function digestBits(text) {
  if (!/^b[a-z2-7]{10,58}$/.test(text)) return "";
  const alphabet = "abcdefghijklmnopqrstuvwxyz234567";
  const bits = [...text.slice(1)].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const head = parseInt(bits.slice(0, 32), 2);
  return head === 0x01551220 || head === 0x01701220 ? bits.slice(32, 288) : "";
}

function binary(digits) {
  return [...digits].map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0")).join("");
}
