// Writes numbers, sizes and times for people.

import { h } from "./dom.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** `1.4 GiB`, as the commands write it. */
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${value} B` : `${value.toFixed(1)} ${UNITS[unit]}`;
}

/** `12 345`, with narrow spaces. */
export function number(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** `1 profile`, `3 profiles`. */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

const STEPS = [
  [60_000, 1000, "second"],
  [3_600_000, 60_000, "minute"],
  [172_800_000, 3_600_000, "hour"],
  [Infinity, 86_400_000, "day"],
];

/** `3 minutes`. */
export function span(ms) {
  const length = Math.abs(ms);
  if (length < 1000) return "less than a second";
  const [, unit, word] = STEPS.find(([limit]) => length < limit);
  const count = Math.floor(length / unit);
  return plural(count, word);
}

/** `3 minutes ago`, `in 2 days`, `now`. */
export function relative(at, now = Date.now()) {
  const left = at - now;
  if (Math.abs(left) < 1500) return "now";
  return left < 0 ? `${span(left)} ago` : `in ${span(left)}`;
}

/** `2026-11-18 04:12:49 UTC`. */
export function exact(at) {
  return new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

/** A time: relative, and exact on hover. It stays right while the page is open. */
export function time(at) {
  if (at === null || at === undefined) return h("span.quiet", "–");
  return h("time", { datetime: new Date(at).toISOString(), title: exact(at), "data-at": at }, relative(at));
}

/** Time that is left: it counts down. */
export function countdown(at) {
  return h("time.left", { datetime: new Date(at).toISOString(), title: `until ${exact(at)}`, "data-until": at }, left(at));
}

function left(at) {
  const ms = at - Date.now();
  return ms <= 0 ? `over since ${span(ms)}` : `${span(ms)} left`;
}

setInterval(() => {
  for (const element of document.querySelectorAll("time[data-at]")) element.textContent = relative(Number(element.dataset.at));
  for (const element of document.querySelectorAll("time[data-until]")) element.textContent = left(Number(element.dataset.until));
}, 1000);
