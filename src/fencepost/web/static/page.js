// Small things that HTML cannot do by itself: keys, times that go on, the theme, charts, changes with a token.
"use strict";

const THEMES = ["system", "light", "dark"];

function turnTheme() {
  const now = document.documentElement.dataset.theme || "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("fencepost-theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("fencepost-theme", next);
  }
  sayTheme();
  drawCharts();
}

function sayTheme() {
  const button = document.getElementById("theme");
  if (button) button.textContent = document.documentElement.dataset.theme || "system";
}

// -- times

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function span(seconds) {
  if (seconds < 10) return seconds >= 0.05 ? `${seconds.toFixed(1)} s` : "0 s";
  const whole = Math.floor(seconds);
  for (let i = 0; i < UNITS.length - 1; i++) {
    const [length, unit] = UNITS[i];
    if (whole >= length) {
      const many = Math.floor(whole / length);
      const rest = Math.floor((whole % length) / UNITS[i + 1][0]);
      return `${many} ${unit}` + (rest && many < 10 ? ` ${rest} ${UNITS[i + 1][1]}` : "");
    }
  }
  return `${whole} s`;
}

function tellTimes() {
  for (const one of document.querySelectorAll("time[datetime]")) {
    const seconds = (Date.now() - Date.parse(one.dateTime)) / 1000;
    if (!Number.isNaN(seconds)) one.textContent = seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  }
}

// -- keys

let leading = false;

function rows() {
  return [...document.querySelectorAll("table.rows tbody tr a.name")];
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement);
  all[Math.min(Math.max(at + by, 0), all.length - 1)].focus();
}

function pressed(event) {
  const field = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || field) return;
  if (leading) {
    leading = false;
    const place = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (place) location.assign(place.href);
    return;
  }
  const keys = {
    g: () => { leading = true; setTimeout(() => { leading = false; }, 1500); },
    j: () => step(1),
    k: () => step(-1),
    d: turnTheme,
    "?": () => document.getElementById("keys").showModal(),
    "/": () => { const q = document.getElementById("q"); if (q) { event.preventDefault(); q.focus(); q.select(); } },
  };
  if (keys[event.key]) keys[event.key]();
}

// -- parts that are swapped: who had the focus keeps it

let focused = null;

document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const now = document.activeElement;
  focused = event.target.contains(now) ? now.id ? `#${CSS.escape(now.id)}` : now.getAttribute("href") ? `a[href="${CSS.escape(now.getAttribute("href"))}"]` : null : null;
});
document.addEventListener("htmx:sseMessage", (event) => {
  document.body.dataset.live = "on";
  if (focused) event.target.querySelector(focused)?.focus({ preventScroll: true });
  tellTimes();
  drawCharts();
});
document.addEventListener("htmx:sseOpen", () => { document.body.dataset.live = "on"; });
document.addEventListener("htmx:sseError", () => { document.body.dataset.live = "off"; });

// -- changes: only with the page's token, and only after a question

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  if (form.dataset.ask && !confirm(form.dataset.ask)) return;
  const told = form.querySelector("[role=status]");
  const answer = await fetch(form.action, {
    method: "POST",
    headers: { "content-type": "application/json", "x-fencepost-token": document.body.dataset.token || "" },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  });
  const type = answer.headers.get("content-type") || "";
  const said = type.startsWith("application/json") ? await answer.json() : { message: await answer.text() };
  if (told) told.textContent = [said.message || "done", said.remedy].filter(Boolean).join(": ");
});

// -- charts: numbers from the API, colours from the page's own

const charts = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

async function drawCharts() {
  for (const [place, chart] of charts) {
    if (!document.contains(place)) { chart.destroy(); charts.delete(place); }
  }
  for (const place of document.querySelectorAll("[data-chart]")) {
    const answer = await fetch(place.dataset.chart);
    if (!answer.ok) continue;
    draw(place, await answer.json());
  }
}

function draw(place, found) {
  charts.get(place)?.destroy();
  place.replaceChildren();
  if (found.times.length < 2) {
    place.textContent = place.dataset.empty || "Not enough is known yet: look again in a minute.";
    return;
  }
  const lines = found.series.map((one) => ({
    label: one.label, stroke: colour(one.colour || "--accent"), width: 1.5, points: { show: false },
    fill: one.fill ? colour("--fill") : undefined,
    paths: one.bars ? uPlot.paths.bars({ size: [0.8, 30] }) : undefined,
  }));
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const clock = (self, values) => {
    const second = values.some((at) => at % 60) ? "2-digit" : undefined;
    return values.map((at) => new Date(at * 1000).toLocaleTimeString("en", { hour12: false, hour: "2-digit", minute: "2-digit", second }));
  };
  const short = (self, values) => values.map((value) => Intl.NumberFormat("en", { notation: "compact" }).format(value));
  const chart = new uPlot({
    width: place.clientWidth, height: Number(place.dataset.height || 180), series: [{}, ...lines],
    axes: [{ ...axis, values: clock }, { ...axis, size: 52, values: short }], legend: { live: true }, cursor: { y: false },
    scales: { y: { range: (self, low, high) => [0, Math.max(high * 1.1, 1)] } },
  }, [found.times, ...found.series.map((one) => one.values)], place);
  charts.set(place, chart);
}

let resizing = 0;
window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawCharts, 200); });

document.addEventListener("DOMContentLoaded", () => {
  sayTheme();
  document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  document.getElementById("theme")?.addEventListener("click", turnTheme);
  document.getElementById("help")?.addEventListener("click", () => document.getElementById("keys").showModal());
  document.addEventListener("keydown", pressed);
  setInterval(tellTimes, 1000);
  drawCharts();
  setInterval(() => { if (document.visibilityState === "visible") drawCharts(); }, 15000);
  const browse = document.querySelector("form.browse");
  if (browse) {
    const choose = () => { browse.dataset.from = browse.elements.from.value; };
    browse.elements.from.addEventListener("change", choose);
    choose();
  }
  for (const one of document.querySelectorAll("[data-hours]")) {
    one.addEventListener("click", (event) => {
      event.preventDefault();
      for (const other of one.parentElement.children) other.removeAttribute("aria-current");
      one.setAttribute("aria-current", "true");
      for (const chart of document.querySelectorAll("[data-chart]")) {
        chart.dataset.chart = chart.dataset.chart.replace(/hours=[0-9.]+/, `hours=${one.dataset.hours}`);
      }
      drawCharts();
    });
  }
  const reload = document.querySelector("[data-reload]");
  if (reload) setTimeout(() => location.reload(), 1000 * Number(reload.dataset.reload));
});
