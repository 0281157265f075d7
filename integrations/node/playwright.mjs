// Playwright on a profile of pstore. Start it with:
//
//   pstore run acme/alice --chrome-major 156 -- node playwright.mjs {profile} http://127.0.0.1:8000/
//
// `pstore run` mounts the profile, puts its place for `{profile}`, and stores what has changed when this program ends.
import { chromium } from "playwright-core";

const [profile, site] = process.argv.slice(2);
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Cookies that another host can read.
  args: ["--password-store=basic"],
  chromiumSandbox: false,
});
const page = context.pages()[0] ?? (await context.newPage());
await page.goto(new URL("account", site).href);
console.log(`before: ${await page.innerText("body")}`);
await page.goto(new URL("login?keep", site).href);
await page.goto(new URL("account", site).href);
console.log(`after: ${await page.innerText("body")}`);
// Chromium writes its cookies now.
await context.close();
