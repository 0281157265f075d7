// Has the parts that several views are made of.

import { h, replace } from "./dom.js";
import { number } from "./format.js";

/** The words for why a profile needs somebody. */
export const ATTENTION = {
  damaged: ["Damaged", "bad"],
  held_back: ["Held back", "bad"],
  fallback: ["Fallback", "bad"],
  logged_out: ["Logged out", "bad"],
  lapsing: ["Login lapsing", "warn"],
  stale: ["Stale", "warn"],
  behind: ["Behind", "note"],
};

/** A word in a coloured field. */
export function badge(text, tone = "note", title) {
  return h(`span.badge.${tone}`, { title }, text);
}

export function attention(kind) {
  const [word, tone] = ATTENTION[kind] || [kind, "note"];
  return badge(word, tone);
}

/** The head of a view. */
export function heading(title, ...beside) {
  document.title = `${title} · pstore`;
  return h("div.heading", h("h1", title), h("div.beside", ...beside));
}

/** The commands that do the same as a view, each with a button that copies it. */
export function commands(...lines) {
  return h(
    "section.commands",
    { "aria-label": "The same on the command line" },
    h("h2", "The same on the command line"),
    lines.map((line) => h("div.command", h("code", line), copier(line))),
  );
}

function copier(line) {
  const button = h("button.small", { type: "button", "aria-label": `Copy ${line}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line);
      news("Copied.");
    } catch {
      news("The browser did not let the page copy; select the line instead.");
    }
  });
  return button;
}

/** Nothing is here, and what to type so that something is. */
export function empty(text, ...lines) {
  return h("div.empty", h("p", text), lines.map((line) => h("p", h("code", line))));
}

/** A failure, with the next step. */
export function failure(problem) {
  return h("div.failure", { role: "alert" }, h("strong", problem.message), problem.hint ? h("p", problem.hint) : null);
}

/** Tells something in passing. */
export function news(text) {
  const place = document.getElementById("news");
  replace(place, h("p", text));
  clearTimeout(news.timer);
  news.timer = setTimeout(() => replace(place), 6000);
}

/** A table whose cells say their column, so that they can stand below each other where there is little room. */
export function table(label, columns, rows) {
  const head = h("tr", columns.map((column) => h("th", { scope: "col" }, column)));
  const line = (cells) =>
    h("tr", cells.map((cell, at) => h("td", { "data-label": columns[at] }, cell === null || cell === undefined ? "–" : cell)));
  return h("div.scroll", { role: "region", "aria-label": label, tabindex: "0" },
    h("table", h("caption.unseen", label), h("thead", head), h("tbody", rows.map(line))));
}

/** Leads to the rows before and after. */
export function pager({ skip, limit, total, next }, go) {
  if (total <= limit && skip === 0) return null;
  const last = Math.min(skip + limit, total);
  return h(
    "nav.pager",
    { "aria-label": "Pages" },
    h("button", { type: "button", disabled: skip === 0, onclick: () => go(Math.max(0, skip - limit)) }, "Previous"),
    h("span", `${number(skip + 1)}–${number(last)} of ${number(total)}`),
    h("button", { type: "button", disabled: next === null || next === undefined, onclick: () => go(next) }, "Next"),
  );
}

/** A large number with its name. */
export function figure(name, value, tone) {
  return h(`div.figure${tone ? `.${tone}` : ""}`, h("span.value", value), h("span.name", name));
}

/** A text in the words of a shell. */
export function quoted(text) {
  return /^[A-Za-z0-9_.,:/@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
