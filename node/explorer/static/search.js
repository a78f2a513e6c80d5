// Search in exported pages: the index lies in small files by the first two hexadecimal digits.

/** Fill the results of the search page from its query. */
export async function search(root) {
  const words = (new URLSearchParams(location.search).get("q") ?? "").trim().slice(0, 200);
  const say = document.querySelector("[data-search]");
  const results = document.querySelector("[data-results]");
  document.getElementById("find").value = words;
  if (!words) {
    say.textContent = "Enter a CID, a number, or at least the first four digits of a digest, transaction or address.";
    return;
  }
  const text = digestOf(words) ?? words.toLowerCase().replace(/^0x/, "");
  const found = [];
  if (/^[0-9]{1,18}$/.test(text)) found.push(...(await entries(root, "numbers", text, true)));
  if (/^[0-9a-f]{4,64}$/.test(text)) found.push(...(await entries(root, text.slice(0, 2), text, false)));
  say.textContent = `${found.length} result${found.length === 1 ? "" : "s"} for ${words}`;
  results.replaceChildren(...found.slice(0, 50).map(line(root)));
}

async function entries(root, shard, text, whole) {
  const answer = await fetch(`${root.replace(/index\.html$/, "")}search/${shard}.json`);
  if (!answer.ok) return [];
  const all = await answer.json();
  return all.filter(([key]) => (whole ? key === text : key.startsWith(text)));
}

function line(root) {
  return ([key, what, path]) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = root.replace(/index\.html$/, "") + path;
    link.textContent = what;
    const code = document.createElement("code");
    code.className = "long";
    code.textContent = key.length > 20 ? key : "";
    item.append(link, " ", code);
    return item;
  };
}

/** The digest (hex) in a CIDv1, or null. */
function digestOf(text) {
  if (!/^b[a-z2-7]{58}$/.test(text)) return null;
  const alphabet = "abcdefghijklmnopqrstuvwxyz234567";
  const bytes = [];
  let value = 0;
  let bits = 0;
  for (const letter of text.slice(1)) {
    value = (value << 5) | alphabet.indexOf(letter);
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((value >>> bits) & 255);
      value &= (1 << bits) - 1;
    }
  }
  return bytes.slice(4).map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
