// Lets a person in, shows the view that the address names, and keeps it up to date.

import { ask, get, remember } from "./api.js";
import { h, replace } from "./dom.js";
import { failure, news } from "./parts.js";
import { login } from "./login.js";
import { profiles } from "./profiles.js";
import { profile } from "./profile.js";
import { compare } from "./compare.js";
import { locks } from "./locks.js";
import { mounts } from "./mounts.js";
import { jobs } from "./jobs.js";
import { job } from "./job.js";
import { storage } from "./storage.js";
import { events } from "./events.js";

/** The views that the head leads to, each with its first part of the address. */
const PLACES = [
  ["", "Profiles"],
  ["locks", "Locks"],
  ["mounts", "Mounts"],
  ["jobs", "Jobs"],
  ["storage", "Storage"],
  ["events", "Events"],
];

/** Each view gets the rest of the address, and who looks. It may return what ends it. */
const VIEWS = { "": profiles, profile, compare, locks, mounts, jobs, job, storage, events };

const main = document.getElementById("main");
const top = document.getElementById("top");
let who = null;
let end = null;
let turn = 0;

/** The parts of the address: `#/profile/acme/alice` is `["profile", "acme", "alice"]`. */
function address() {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  return path === "" ? [""] : path.split("/").map(decodeURIComponent);
}

async function show(event) {
  const mine = ++turn;
  if (end) end();
  end = null;
  const [place, ...rest] = address();
  const view = VIEWS[place] || profiles;
  head(place);
  const home = h("div.view");
  const context = {
    who,
    home,
    rest,
    params: new URLSearchParams(location.hash.split("?")[1] || ""),
    may: (role) => ROLES.indexOf(who.role) >= ROLES.indexOf(role),
    isCurrent: () => mine === turn,
    refused,
  };
  try {
    const ended = await view(context);
    if (mine !== turn) {
      if (ended) ended();
      return;
    }
    end = ended || null;
  } catch (problem) {
    if (mine !== turn || refused(problem)) return;
    replace(home, failure(problem));
  }
  replace(main, home);
  if (event) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

const ROLES = ["read", "run", "operate", "admin"];

/** Whether the log-in is over; then it is asked for again. */
function refused(problem) {
  if (problem.status !== 401) return false;
  who = null;
  begin();
  return true;
}

function head(place) {
  const chosen = { profile: "", compare: "", job: "jobs" }[place] ?? place;
  const link = ([path, word]) =>
    h("a", { href: `#/${path}`, "aria-current": path === chosen ? "page" : undefined }, word);
  const tenants = who.tenants[0] === "*" ? "all tenants" : who.tenants.join(", ");
  replace(
    top,
    h("div.bar",
      h("a.brand", { href: "#/", "aria-label": "pstore, profiles" }, h("img", { src: "/page/icon.svg", alt: "", width: "26", height: "26" }), h("span", "pstore")),
      h("nav.places", { "aria-label": "Views" }, PLACES.map(link)),
      h("div.who", h("span.name", { title: `${who.caller}, ${who.role}, ${tenants}` }, `${who.role} · ${tenants}`),
        who.csrf_token ? h("button.small", { type: "button", onclick: leave }, "Log out") : null)),
  );
  top.hidden = false;
  top.querySelector("[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
}

async function leave() {
  await ask("DELETE", "/v1/login").catch(() => {});
  who = null;
  await begin();
  news("You are logged out.");
}

/** Finds out who looks. */
async function begin() {
  if (end) end();
  end = null;
  turn += 1;
  try {
    who = await get("/v1/login");
  } catch (problem) {
    top.hidden = true;
    const home = h("div.view");
    replace(main, home);
    return login(home, problem.status === 401 ? null : problem, enter);
  }
  return enter(who);
}

function enter(known) {
  who = known;
  remember(known);
  return show();
}

window.addEventListener("hashchange", (event) => {
  if (who && location.hash.startsWith("#/")) show(event);
});
// A slash leads to the search, where there is one.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input, textarea, select");
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && !isTyping && search) {
    event.preventDefault();
    search.focus();
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
begin();
