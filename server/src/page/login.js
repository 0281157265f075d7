// Asks for a token.

import { ask } from "./api.js";
import { h, replace } from "./dom.js";
import { failure } from "./parts.js";

export function login(home, problem, enter) {
  document.title = "Log in · pstore";
  const told = h("div", problem ? failure(problem) : null);
  const field = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false", placeholder: "pstore_…" });
  const button = h("button.primary", { type: "submit" }, "Log in");
  const form = h(
    "form.login",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        try {
          await enter(await ask("POST", "/v1/login", { token: field.value }));
        } catch (refusal) {
          button.disabled = false;
          replace(told, failure(refusal.status === 401 ? { message: "Nobody knows this token, or it has expired.", hint: "Copy the whole secret, from pstore_ on." } : refusal));
          field.select();
        }
      },
    },
    h("img", { src: "/page/icon.svg", alt: "", width: "44", height: "44" }),
    h("h1", "pstore"),
    h("p.quiet", "See which profiles need you, why, and what to do."),
    told,
    h("label", { for: "token" }, "Token"),
    field,
    button,
    h("details", h("summary", "Where do I get a token?"),
      h("p", "Whoever runs the server makes one and gives you its secret:"),
      h("pre", h("code", "pstore token new --tenant acme --role operate >> tokens.toml"))),
  );
  replace(home, form);
  field.focus();
}
