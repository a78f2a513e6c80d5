// What pages do beyond what the server rendered: theme, live updates, copying, the tree's partners, keys, verification.
import { fileNames } from "./content.js";

const body = document.body;
const root = body.dataset.root;

// --- theme ---------------------------------------------------------------------------------------------------------

const themeButton = document.querySelector("[data-theme-button]");
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", dark ? "light" : "dark");
  } catch {
    // Then it is forgotten with the page.
  }
});

// --- copying -------------------------------------------------------------------------------------------------------

function offerCopies(part) {
  if (!navigator.clipboard) return;
  for (const button of part.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const said = button.firstChild;
      await navigator.clipboard.writeText(button.dataset.copy);
      said.textContent = "Copied";
      setTimeout(() => (said.textContent = "Copy"), 1500);
    });
  }
}

// --- tables that become cards on a phone: what they are is said, as a browser no longer sees it then ------------------

const ROLES = { THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell" };

function nameTables(part) {
  for (const table of part.querySelectorAll("table.stack")) {
    table.setAttribute("role", "table");
    for (const each of table.querySelectorAll("thead, tbody, tr, td")) each.setAttribute("role", ROLES[each.tagName]);
    for (const each of table.querySelectorAll("th")) each.setAttribute("role", each.scope === "row" ? "rowheader" : "columnheader");
  }
}

// --- the cooperation tree: a leaf shows its partners ---------------------------------------------------------------

function livenTree(part) {
  for (const tree of part.querySelectorAll("svg.tree")) {
    for (const place of tree.querySelectorAll(".place")) {
      const position = place.dataset.position;
      const choose = () => {
        const shown = new Set([position]);
        for (const arc of tree.querySelectorAll(".arc")) {
          const ends = arc.dataset.ends.split(" ");
          const on = ends.includes(position);
          arc.classList.toggle("on", on);
          if (on) ends.forEach((end) => shown.add(end));
        }
        for (const other of tree.querySelectorAll(".place")) {
          other.classList.toggle("on", shown.has(other.dataset.position));
        }
        tree.classList.add("chosen");
      };
      const leave = () => tree.classList.remove("chosen");
      place.addEventListener("pointerenter", choose);
      place.addEventListener("pointerleave", leave);
      place.addEventListener("focus", choose);
      place.addEventListener("blur", leave);
    }
  }
}

// --- charts: a crosshair reads out the values of a round, in all charts of the page at once ---------------------------

const SVG = "http://www.w3.org/2000/svg";

/** Charts as sliders over their rounds: by pointer, by finger, and by the arrow keys. */
function livenCharts(part) {
  for (const chart of part.querySelectorAll("[data-chart]")) {
    const readings = JSON.parse(chart.dataset.chart);
    if (!readings.length) continue;
    const range = { "aria-valuemin": readings[0][0], "aria-valuemax": readings.at(-1)[0] };
    for (const [name, value] of Object.entries({ role: "slider", tabindex: 0, ...range })) chart.setAttribute(name, value);
    chart.readings = readings;
    readOut(chart, readings.length - 1, false);
    const plot = chart.querySelector(".plot");
    const point = (event) => {
      const box = plot.getBoundingClientRect();
      const at = (100 * (event.clientX - box.left)) / box.width;
      readRound(readings.reduce((best, each) => (Math.abs(each[1] - at) < Math.abs(best[1] - at) ? each : best))[0]);
    };
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && readRound(null));
    chart.addEventListener("focus", () => readRound(readings[chart.place][0]));
    chart.addEventListener("blur", () => readRound(null));
    chart.addEventListener("keydown", (event) => moveChart(chart, event));
  }
}

function moveChart(chart, event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const last = chart.readings.length - 1;
  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -last, End: last };
  if (event.key === "Escape") readRound(null);
  if (!(event.key in steps)) return;
  event.preventDefault();
  const place = Math.min(last, Math.max(0, chart.place + steps[event.key]));
  readRound(chart.readings[place][0]);
}

/** Show a round in every chart that has it; null: the last round that each chart has, without a crosshair. */
function readRound(number) {
  for (const chart of document.querySelectorAll("[data-chart]")) {
    if (!chart.readings) continue;
    const place = chart.readings.findLastIndex((each) => number === null || each[0] === number);
    if (place >= 0) readOut(chart, place, number !== null);
  }
}

function readOut(chart, place, crossed) {
  const [number, x, values] = chart.readings[place];
  chart.place = place;
  chart.setAttribute("aria-valuenow", number);
  chart.setAttribute("aria-valuetext", `Round ${number}: ${values.map(([, name, text]) => `${name} ${text}`.trim()).join(", ")}`);
  const shown = values.map(([kind, name, text]) => {
    const value = element("span");
    if (name) value.append(element("span", "", `key ${kind}`), `${name} `);
    value.append(element("b", text));
    return value;
  });
  chart.querySelector(".readout").replaceChildren(element("span", `Round ${number}`), ...shown);
  const plot = chart.querySelector(".plot");
  plot.querySelectorAll(".cross, .mark").forEach((old) => old.remove());
  if (!crossed) return;
  plot.append(drawn("line", { x1: `${x}%`, x2: `${x}%`, y1: 0, y2: plot.getAttribute("height") - 6, class: "cross" }));
  for (const [kind, , , y] of values) plot.append(drawn("circle", { cx: `${x}%`, cy: y, r: 4.5, class: `mark ${kind}` }));
}

function element(name, text = "", kind = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = kind;
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// --- live updates: the server says that something changed, and the page's live parts are taken anew -----------------

async function renew() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if ("unsettled" in body.dataset && !("unsettled" in fresh.body.dataset)) {
    location.reload(); // all is known now: also what is in no live part, such as the page's name and links
    return;
  }
  nameTables(fresh);
  const before = [...document.querySelectorAll("[data-live]")];
  const after = new Map([...fresh.querySelectorAll("[data-live]")].map((part) => [part.dataset.live, part]));
  if (before.some((part) => !after.has(part.dataset.live)) || after.size !== before.length) {
    const main = document.getElementById("main");
    if (!main.contains(document.activeElement)) replace(main, fresh.getElementById("main"));
    return;
  }
  for (const part of before) {
    const next = after.get(part.dataset.live);
    if (next.innerHTML === part.innerHTML && next.className === part.className) continue;
    if (part.contains(document.activeElement) && part !== document.activeElement) continue; // nobody's focus is taken
    part.className = next.className;
    replace(part, next);
  }
}

function replace(part, next) {
  const opened = [...part.querySelectorAll("details")].map((each) => each.open);
  part.replaceChildren(...next.childNodes);
  part.querySelectorAll("details").forEach((each, place) => (each.open = opened[place] ?? each.open)); // as readers left them
  offerCopies(part);
  nameTables(part);
  livenTree(part);
  livenCharts(part);
}

function followEvents() {
  const events = new EventSource(body.dataset.events);
  let due = false;
  let busy = false;
  const work = async () => {
    if (busy || !due) return;
    due = false;
    busy = true;
    try {
      await renew();
    } catch {
      // The server may be going; EventSource connects again by itself.
    }
    setTimeout(() => {
      busy = false;
      work();
    }, 700);
  };
  events.addEventListener("change", () => {
    due = true;
    work();
  });
}

// --- keys ----------------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, .scroll, .chart")) return;
  const link = { ArrowLeft: "[rel=prev]", ArrowRight: "[rel=next]" }[event.key];
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find")?.focus();
  } else if (link) {
    document.querySelector(link)?.click();
  }
});

// --- verification --------------------------------------------------------------------------------------------------

const MAX_BYTES = 256 * 1024 * 1024;

async function verify(button) {
  const outcome = document.querySelector("[data-outcome]");
  const blobs = new Map([...document.querySelectorAll("[data-digest]")].reverse().map((blob) => [blob.dataset.digest, blob.dataset]));
  if (!globalThis.crypto?.subtle) {
    outcome.textContent = "Browsers offer cryptography only to pages from this machine or over HTTPS.";
    return;
  }
  button.disabled = true;
  const bar = document.createElement("progress");
  bar.max = blobs.size;
  bar.value = 0;
  bar.setAttribute("aria-label", "Blobs verified");
  outcome.replaceChildren(bar);
  const right = [];
  const faults = [];
  const left = [];
  let bytes = 0;
  for (const blob of blobs.values()) {
    const expected = Number(blob.size || 0);
    if (bytes + expected > MAX_BYTES) {
      left.push(`${blob.name}: more than 256 MiB in all`);
    } else {
      try {
        bytes += await verifyOne(blob);
        right.push(blob);
      } catch (fault) {
        (fault.missing ? left : faults).push(`${blob.name}: ${fault.message}`);
      }
    }
    bar.value += 1;
  }
  tell(outcome, right.length, bytes, faults, left);
  button.disabled = false;
}

async function verifyOne(blob) {
  const answer = await fetch(blob.raw);
  if (!answer.ok) {
    const fault = new Error(answer.status === 404 ? "not in the store" : "the store did not give it whole");
    fault.missing = answer.status === 404;
    throw fault;
  }
  const data = new Uint8Array(await answer.arrayBuffer());
  const { digest, cid } = await fileNames(data);
  if (digest !== blob.digest) throw new Error(`its digest is ${digest}, not ${blob.digest}`);
  if (blob.cid && cid !== blob.cid) throw new Error(`its CID is ${cid}, not ${blob.cid}`);
  return data.length;
}

function tell(outcome, count, bytes, faults, left) {
  const paragraph = (words, kind) => {
    const made = document.createElement("p");
    made.textContent = words;
    made.className = kind;
    return made;
  };
  const list = (items) => {
    const made = document.createElement("ul");
    for (const item of items) {
      const line = document.createElement("li");
      line.textContent = item;
      made.append(line);
    }
    return made;
  };
  const parts = [];
  if (count) {
    const size = bytes.toLocaleString("en");
    parts.push(paragraph(`${count} blob${count === 1 ? "" : "s"}, ${size} bytes: digests and CIDs are as shown.`, "good"));
  }
  if (faults.length) parts.push(paragraph(`${faults.length} wrong:`, "bad"), list(faults));
  if (left.length) parts.push(paragraph(`${left.length} could not be fetched:`, ""), list(left));
  outcome.replaceChildren(...parts);
}

// --- search in exported pages --------------------------------------------------------------------------------------

async function searchExport() {
  const { search } = await import("./search.js");
  await search(root);
}

offerCopies(document);
nameTables(document);
livenTree(document);
livenCharts(document);
for (const button of document.querySelectorAll("[data-verify]")) {
  button.hidden = false;
  button.addEventListener("click", () => verify(button));
}
if (body.dataset.events) followEvents();
if ("static" in body.dataset && document.querySelector("[data-results]")) searchExport();
