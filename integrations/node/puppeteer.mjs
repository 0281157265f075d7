// Puppeteer on a profile of pstore. Start it with:
//
//   pstore run acme/alice --chrome-major 156 -- node puppeteer.mjs {profile} http://127.0.0.1:8000/
//
// `pstore run` mounts the profile, puts its place for `{profile}`, and stores what has changed when this program ends.
import puppeteer from "puppeteer-core";

const [profile, site] = process.argv.slice(2);
const browser = await puppeteer.launch({
  userDataDir: profile,
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Cookies that another host can read.
  args: ["--password-store=basic", "--no-sandbox"],
});
const [page] = await browser.pages();
const text = () => page.evaluate(() => document.body.innerText);
await page.goto(new URL("account", site).href);
console.log(`before: ${await text()}`);
await page.goto(new URL("login?keep", site).href);
await page.goto(new URL("account", site).href);
console.log(`after: ${await text()}`);
// Chromium writes its cookies now.
await browser.close();
