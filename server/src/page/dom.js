// Makes elements. Every text becomes a text node, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("a.link", { href: "#/" }, "text", child, …)`. A handler is `onclick`, a class list follows the dots. */
export function h(kind, ...rest) {
  const [tag, ...classes] = kind.split(".");
  return fill(document.createElement(tag || "div"), classes, rest);
}

/** The same for a part of a drawing. */
export function s(kind, ...rest) {
  const [tag, ...classes] = kind.split(".");
  return fill(document.createElementNS(SVG, tag), classes, rest);
}

function fill(element, classes, rest) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  const first = rest[0];
  const hasProps = first && typeof first === "object" && !(first instanceof Node) && !Array.isArray(first);
  const children = hasProps ? rest.slice(1) : rest;
  for (const [name, value] of Object.entries(hasProps ? first : {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** What an element shows, as far as `update` has put it there. */
const shown = new WeakMap();
/** Facts that change all the time by themselves, and which the page counts on its own. */
const PASSING = new Set(["remaining_ms", "age_ms", "expires_in_ms", "as_of_ms"]);

/** Puts these in place of what an element has. What had the focus has it again, if it is still there. */
export function replace(element, ...children) {
  const held = element.contains(document.activeElement) && element !== document.activeElement ? likeness(document.activeElement) : null;
  shown.delete(element);
  element.replaceChildren();
  append(element, children);
  if (held) [...element.querySelectorAll("a, button, input, select, [tabindex]")].find((other) => likeness(other) === held)?.focus({ preventScroll: true });
}

function likeness(element) {
  return [element.tagName, element.id, element.getAttribute("href"), element.getAttribute("aria-label"), element.tabIndex, element.textContent.slice(0, 80)].join(" ");
}

/** The same, unless the element shows these facts already: nothing moves below a finger for no reason. */
export function update(element, facts, make) {
  const text = JSON.stringify(facts, (name, value) => (PASSING.has(name) ? undefined : value));
  if (shown.get(element) === text) return;
  replace(element, make());
  shown.set(element, text);
}
