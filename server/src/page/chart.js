// Draws bytes over days.

import { s } from "./dom.js";
import { bytes, exact } from "./format.js";

const DAY = 86_400_000;

/** A chart with an axis: the stored bytes at the end of each day. */
export function chart(days, first, label) {
  const [width, height, left, bottom, top] = [720, 220, 94, 26, 12];
  const most = Math.max(...days, 1);
  const x = (at) => left + (at * (width - left - 10)) / Math.max(days.length - 1, 1);
  const y = (value) => top + (height - top - bottom) * (1 - value / (most * 1.08));
  const line = days.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const area = `${line}L${x(days.length - 1).toFixed(1)} ${height - bottom}L${left} ${height - bottom}Z`;
  const grid = [0, 0.5, 1].map((part) => {
    const at = y(most * part);
    return [
      s("line.grid", { x1: left, x2: width - 10, y1: at, y2: at }),
      s("text.axis", { x: left - 8, y: at + 4, "text-anchor": "end" }, bytes(Math.round(most * part))),
    ];
  });
  const dates = [0, Math.floor((days.length - 1) / 2), days.length - 1].map((at, place) =>
    s("text.axis", { x: x(at), y: height - 6, "text-anchor": ["start", "middle", "end"][place] }, exact(first + at * DAY).slice(0, 10)),
  );
  const points = days.map((value, at) =>
    s("circle.point", { cx: x(at), cy: y(value), r: 7 }, s("title", `${exact(first + at * DAY).slice(0, 10)}: ${bytes(value)}`)),
  );
  return s("svg.chart", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, grid, s("path.area", { d: area }), s("path.line", { d: line }), dates, points);
}

/** A small line without an axis. */
export function sparkline(days, label) {
  const [width, height] = [120, 28];
  const most = Math.max(...days, 1);
  const x = (at) => 1 + (at * (width - 2)) / Math.max(days.length - 1, 1);
  const y = (value) => 2 + (height - 4) * (1 - value / most);
  const line = days.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  return s("svg.spark", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, s("path.line", { d: line }));
}

/** How much of a whole is new. */
export function share(part, whole) {
  const ratio = whole > 0 ? Math.min(1, part / whole) : 0;
  const label = `${bytes(part)} new of ${bytes(whole)}`;
  return s("svg.share", { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("title", label),
    s("rect.whole", { width: 100, height: 8, rx: 2 }),
    s("rect.part", { width: Math.max(ratio * 100, part > 0 ? 1.5 : 0), height: 8, rx: 2 }));
}
