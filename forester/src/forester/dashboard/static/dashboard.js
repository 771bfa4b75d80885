// Keeps the page live: polls one document of panels, replaces those that changed, and writes running times.
"use strict";

const POLL_MS = 2000;
const LOST_AFTER = 3;
const panels = new Map();
const live = document.getElementById("live");
const form = document.getElementById("choice");
let order = { key: form.elements.sort.value, descending: form.elements.sort.value !== "tree" };
let failures = 0;
let tag = null;
let skew = 0;

// As texts.duration on the server does.
function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function tick() {
  const now = Date.now() / 1000 + skew;
  for (const element of document.querySelectorAll("time[data-at]")) {
    const at = Number(element.dataset.at);
    let text = null;
    if (element.dataset.as === "left") text = duration(at - now);
    if (element.dataset.as === "ago") text = `${duration(now - at)} ago`;
    if (element.dataset.as === "for") text = duration(now - at);
    if (text !== null && element.textContent !== text) element.textContent = text;
  }
}

function replace(id, html) {
  if (panels.get(id) === html) return;
  panels.set(id, html);
  const panel = document.getElementById(id);
  const open = [...panel.querySelectorAll("details[open]")].map((item) => item.id);
  const scrolled = [...panel.querySelectorAll(".scroll")].map((item) => item.scrollLeft);
  const focusable = "a[href], button, summary, [tabindex]";
  const focused = [...panel.querySelectorAll(focusable)].indexOf(document.activeElement);
  panel.innerHTML = html;
  for (const name of open) document.getElementById(name)?.setAttribute("open", "");
  panel.querySelectorAll(".scroll").forEach((item, index) => { item.scrollLeft = scrolled[index] ?? 0; });
  if (id === "trees") arrange();
  if (focused >= 0) panel.querySelectorAll(focusable)[focused]?.focus({ preventScroll: true });
}

async function poll() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/dashboard/live", {
      headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", signal: AbortSignal.timeout(10000),
    });
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const content = await answer.json();
      tag = answer.headers.get("ETag");
      for (const [id, html] of Object.entries(content.panels)) replace(id, html);
      document.title = `${content.fit ? "Fit" : `${content.problems} open`} · Forester`;
    }
    const told = Date.parse(answer.headers.get("Date")) / 1000;
    if (Math.abs(told - Date.now() / 1000) > 5) skew = told - Date.now() / 1000;
    failures = 0;
    show("live", "on");
  } catch (error) {
    failures += 1;
    if (failures >= LOST_AFTER) show("no answer from the forester; figures are old", "lost");
  }
  tick();
}

function show(text, state) {
  if (live.textContent !== text) live.textContent = text;
  live.className = `live ${state}`;
}

// Filter and order of the trees. Rows with a remedy take it along.
function arrange() {
  const table = document.getElementById("tree-table");
  if (!table) return;
  for (const head of table.querySelectorAll("th[data-sort]")) {
    if (!head.querySelector("button")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const key = head.dataset.sort;
        order = { key, descending: order.key === key ? !order.descending : key !== "tree" };
        form.elements.sort.value = key;
        arrange();
      });
    }
    if (head.dataset.sort === order.key) head.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const kind = form.elements.kind.value;
  const text = form.elements.text.value.trim().toLowerCase();
  const body = table.tBodies[0];
  const rows = [...body.querySelectorAll("tr[data-tree]")];
  const remedies = new Map([...body.querySelectorAll("tr[data-of]")].map((row) => [row.dataset.of, row]));
  const value = (row) => (order.key === "attention" ? attention(row) : Number(row.dataset[order.key]));
  rows.sort((a, b) => {
    const difference = order.key === "tree" ? a.dataset.tree.localeCompare(b.dataset.tree) : value(a) - value(b);
    return order.descending ? -difference : difference;
  });
  let shown = 0;
  for (const row of rows) {
    const found = (!kind || row.dataset.kind === kind)
      && (!text || `${row.dataset.tree} ${row.dataset.turn}`.toLowerCase().includes(text));
    row.hidden = !found;
    shown += found;
    body.append(row);
    const remedy = remedies.get(row.dataset.tree);
    if (remedy) { remedy.hidden = !found; body.append(remedy); }
  }
  const none = document.getElementById("no-rows");
  if (none) none.hidden = shown > 0;
}

function attention(row) {
  return Number(row.dataset.silent) * 1e9 + Number(row.dataset.backlog);
}

const themes = ["system", "light", "dark"];
function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = `Theme: ${name}`;
}

function stored() {
  try { return localStorage.getItem("theme"); } catch { return null; }
}

let chosen = themes.includes(stored()) ? stored() : "system";
theme(chosen);
const button = document.getElementById("theme");
button.hidden = false;
button.addEventListener("click", () => {
  chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
  try { localStorage.setItem("theme", chosen); } catch { /* it holds until the page is left */ }
  theme(chosen);
});

form.querySelector("button").hidden = true;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => {
  if (form.elements.sort.value !== order.key) {
    order = { key: form.elements.sort.value, descending: form.elements.sort.value !== "tree" };
  }
  arrange();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) return;
  event.preventDefault();
  form.elements.text.focus();
});
document.addEventListener("visibilitychange", poll);
arrange();
tick();
setInterval(tick, 1000);
setInterval(poll, POLL_MS);
poll();
