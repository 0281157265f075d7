"""Drives the page of `pstore serve` in Chromium, as somebody on call would: `drive.py SCENE.json`.

The scene says where the server is, with which tokens, what is in its store, and where pictures go. Whatever is not as it
should be ends the program with an error.
"""
import json
import re
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

SCENE = json.loads(Path(sys.argv[1]).read_text())
BASE = f"http://{SCENE['address']}"
SHOTS = Path(SCENE["shots"])
AXE = Path(SCENE["axe"]).read_text()
ALICE = "#/profile/acme/alice"


class Visit:
    """A browser window whose errors are kept."""

    def __init__(self, browser, **options):
        options.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = browser.new_context(base_url=BASE, **options)
        self.page = self.context.new_page()
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("request", self.look_at)

    def look_at(self, request):
        assert request.url.startswith((BASE, "blob:", "about:")), f"the page asked {request.url}"

    def log_in(self, secret):
        self.page.goto("/")
        self.page.get_by_label("Token").fill(secret)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("heading", name="Profiles", level=1)).to_be_visible()

    def go(self, place, heading):
        self.page.goto(f"/{place}")
        expect(self.page.get_by_role("heading", name=heading, level=1)).to_be_visible()

    def shot(self, name, whole=False):
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=whole)

    def axe(self, name):
        """Fails if something keeps people from using what is shown."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        bad = [
            f"{name}: {one['impact']} {one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:4]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert not bad, "\n".join(bad)

    def fits(self, name):
        """Fails if the page has to be moved sideways."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} px too wide"

    def close(self, *allowed):
        # Before the log-in the page asks who looks, and is told 401.
        wrong = [error for error in self.errors if not any(word in error for word in ("401", *allowed))]
        self.context.close()
        assert not wrong, "\n".join(wrong)


def log_in(browser):
    visit = Visit(browser)
    page = visit.page
    page.goto("/")
    expect(page.get_by_label("Token")).to_be_focused()
    visit.shot("01-log-in")
    visit.axe("log-in")
    page.get_by_label("Token").fill("pstore_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nobody knows this token")
    visit.log_in(SCENE["operator"])
    cookies = visit.context.cookies()
    assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")], cookies
    assert page.evaluate("document.cookie") == ""
    page.reload()
    expect(page.get_by_role("heading", name="Profiles", level=1)).to_be_visible()
    kept = visit.context.cookies()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert visit.context.cookies() == []
    # A copy of the cookie is of no use any more.
    visit.context.add_cookies(kept)
    assert visit.context.request.get("/v1/login").status == 401
    visit.close()


def triage(browser):
    """From what needs somebody to a rollback."""
    visit = Visit(browser)
    page = visit.page
    visit.log_in(SCENE["operator"])
    row = page.get_by_role("row").filter(has_text="acme/alice")
    expect(row).to_contain_text("Held back")
    expect(row).to_contain_text("cookie .example.com:sid")
    visit.shot("02-profiles")
    visit.axe("profiles")
    row.get_by_role("link", name="alice").click()
    expect(page.get_by_role("heading", name="acme/alice", level=1)).to_be_visible()
    expect(page.locator(".callout.held_back")).to_contain_text("logged out")
    expect(page.locator("time").first).to_have_attribute("title", re.compile(r"^(until )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))
    visit.shot("03-profile")
    visit.axe("profile")
    first, second = SCENE["shas"][0], SCENE["shas"][1]
    page.get_by_label(f"from {second}").check()
    page.get_by_label(f"to {first}").check()
    page.get_by_role("link", name=f"Compare {second} with {first}").click()
    expect(page.get_by_role("heading", name=f"{second} → {first}")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Preferences")).to_contain_text("changed")
    expect(page.locator(".commands")).to_contain_text(f"pstore diff acme/alice@{second} {first}")
    visit.shot("04-compare")
    visit.axe("compare")
    page.get_by_role("button", name=f"Make {first} current…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("paths would change")
    expect(dialog.get_by_role("row").filter(has_text="Preferences")).to_be_visible()
    # Nothing has happened yet.
    page.get_by_role("button", name="Cancel").click()
    visit.go(ALICE, "acme/alice")
    expect(page.locator(".entry.current")).to_contain_text(second)
    page.get_by_role("button", name=f"Make {first} current").click()
    page.get_by_label("Why?").fill("logged out since the last run")
    expect(dialog).to_contain_text("--reason 'logged out since the last run' --confirm")
    expect(dialog).to_contain_text("paths would change")
    visit.shot("05-rollback")
    visit.axe("rollback")
    dialog.get_by_role("button", name=f"Make {first} current").click()
    expect(page.get_by_role("status")).to_contain_text("is current now")
    expect(page.locator(".entry.current")).to_contain_text(first)
    expect(page.locator(".entry.event").filter(has_text="Rolled back")).to_contain_text("logged out since the last run")
    visit.shot("06-rolled-back", whole=True)
    visit.close()


def live_job(browser):
    visit = Visit(browser)
    page = visit.page
    visit.log_in(SCENE["operator"])
    page.get_by_role("link", name="Jobs", exact=True).click()
    visit.shot("07-jobs")
    visit.axe("jobs")
    page.get_by_label("Work").select_option("verify")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="verify of all tenants")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".progress")).to_contain_text(re.compile(r"\d.* of \d"))
    visit.shot("08-job-running")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".view .badge").first).to_have_text("cancelled", timeout=30_000)
    visit.shot("09-job-ended")
    visit.axe("job")
    visit.close()


def other_views(browser):
    visit = Visit(browser)
    page = visit.page
    visit.log_in(SCENE["operator"])
    visit.go("#/storage", "Storage")
    expect(page.locator("svg.chart")).to_be_visible()
    page.get_by_role("button", name="Find out").click()
    expect(page.get_by_text(re.compile("^A collection would free"))).to_be_visible(timeout=60_000)
    visit.shot("10-storage", whole=True)
    visit.axe("storage")
    visit.go("#/locks", "Locks")
    expect(page.get_by_role("row").filter(has_text="run-")).not_to_have_count(0)
    expect(page.get_by_role("row").nth(1)).to_contain_text("left")
    visit.shot("11-locks")
    visit.axe("locks")
    visit.go("#/mounts", "Mounts and sessions")
    mount = page.get_by_role("table", name="Mounts").get_by_role("row").filter(has_text="acme/large")
    expect(mount).to_contain_text("locked")
    expect(mount).to_contain_text(SCENE["mountpoint"])
    expect(mount).to_contain_text("9 B")
    expect(page.get_by_role("table", name="Sessions").get_by_role("row").filter(has_text="acme/large")).to_have_count(1)
    # More is written, and nobody reloads.
    (Path(SCENE["mountpoint"]) / "Preferences").write_text("x" * 2000)
    expect(mount).to_contain_text("2.0 ", timeout=15_000)
    visit.shot("12-mounts")
    visit.axe("mounts")
    visit.go("#/events", "Events")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    before = page.locator(".feed .entry").count()
    # Something happens, and nobody reloads.
    second = visit.context.new_page()
    second.goto(f"/{ALICE}")
    second.get_by_role("button", name=f"Make {SCENE['shas'][1]} current").click()
    second.get_by_label("Why?").fill("it was right after all")
    second.get_by_role("dialog").get_by_role("button", name=re.compile("^Make")).click()
    expect(second.get_by_role("status")).to_contain_text("is current now")
    second.close()
    expect(page.locator(".feed .entry.new").filter(has_text="it was right after all")).to_be_visible(timeout=60_000)
    assert page.locator(".feed .entry").count() > before
    visit.shot("13-events")
    visit.axe("events")
    told = set()
    for place, heading in VIEWS:
        visit.go(place, heading)
        expect(page.locator(".commands code").first).to_contain_text("pstore ")
        told.update(page.locator(".commands code").all_text_contents())
    Path(SCENE["commands"]).write_text("\n".join(sorted(told)))
    visit.close("404")


def narrow(browser):
    visit = Visit(browser, viewport={"width": 400, "height": 860}, has_touch=True, device_scale_factor=2)
    visit.page.goto("/")
    visit.shot("20-narrow-log-in")
    visit.log_in(SCENE["operator"])
    for number, (place, heading) in enumerate(VIEWS, 21):
        visit.go(place, heading)
        visit.page.wait_for_timeout(700)
        visit.fits(f"{place} at 400 px")
        visit.shot(f"{number}-narrow-{name_of(place)}")
        visit.axe(f"{place} at 400 px")
    visit.go(ALICE, "acme/alice")
    visit.page.get_by_role("button", name=f"Make {SCENE['shas'][0]} current").click()
    expect(visit.page.get_by_role("dialog")).to_contain_text("paths would change")
    visit.fits("the rollback at 400 px")
    visit.shot("29-narrow-rollback")
    visit.close("404")


COMPARE = (f"#/compare/acme/alice/{SCENE['shas'][1]}/{SCENE['shas'][0]}", f"{SCENE['shas'][1]} → {SCENE['shas'][0]}")
VIEWS = [("#/", "Profiles"), (ALICE, "acme/alice"), COMPARE, ("#/locks", "Locks"), ("#/mounts", "Mounts and sessions"), ("#/jobs", "Jobs"), ("#/storage", "Storage"), ("#/events", "Events")]


def name_of(place):
    return re.sub("-[0-9a-f]{12}", "", place.strip("#/").replace("/", "-")) or "profiles"


def dark(browser):
    visit = Visit(browser, color_scheme="dark")
    visit.page.goto("/")
    visit.shot("30-dark-log-in")
    visit.axe("log-in in the dark")
    visit.log_in(SCENE["operator"])
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(14, 17, 22)", ground
    for number, (place, heading) in enumerate(VIEWS, 31):
        visit.go(place, heading)
        visit.page.wait_for_timeout(500)
        visit.shot(f"{number}-dark-{name_of(place)}")
        visit.axe(f"{place} in the dark")
    visit.close("404")


def keyboard(browser):
    """Without a mouse: from the log-in to a confirmed rollback, and out again."""
    visit = Visit(browser)
    page, keys = visit.page, visit.page.keyboard
    page.goto("/")
    expect(page.get_by_label("Token")).to_be_focused()
    keys.type(SCENE["operator"])
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Profiles", level=1)).to_be_visible()
    keys.press("/")
    keys.type("acme/al")
    expect(page.get_by_role("row")).to_have_count(2)
    reach(page, "alice")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", f"what has the focus is not marked: {outline}"
    keys.press("Enter")
    expect(page.get_by_role("heading", name="acme/alice", level=1)).to_be_visible()
    reach(page, f"Make {SCENE['shas'][0]} current")
    keys.press("Enter")
    expect(page.get_by_label("Why?")).to_be_focused()
    visit.shot("40-keyboard-rollback")
    # The dialog keeps the focus, and Escape ends it.
    for _ in range(12):
        keys.press("Tab")
        assert page.evaluate("document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))")
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    reach(page, f"Make {SCENE['shas'][0]} current")
    keys.press("Enter")
    expect(page.get_by_label("Why?")).to_be_focused()
    # Nobody confirms what is not shown yet.
    expect(page.get_by_role("dialog")).to_contain_text("paths would change")
    keys.type("by keyboard")
    keys.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("is current now")
    reach(page, "Log out")
    keys.press("Enter")
    expect(page.get_by_label("Token")).to_be_focused()
    visit.close()


def reach(page, words):
    """Presses Tab until something with these words has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        told = page.evaluate("(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent || '').trim()")
        if told.endswith(words) or told.startswith(words):
            return
    raise AssertionError(f"Tab does not lead to {words}")


def tenant(browser):
    """A tenant sees its own, and what its role may do."""
    visit = Visit(browser)
    page = visit.page
    visit.log_in(SCENE["reader"])
    page.get_by_role("button", name="All").click()
    expect(page.get_by_role("row").filter(has_text="acme/alice")).to_have_count(1)
    expect(page.get_by_role("row").filter(has_text="tenant-")).to_have_count(0)
    visit.go("#/jobs", "Jobs")
    expect(page.get_by_text("Jobs need a token with the role operate")).to_be_visible()
    visit.go(ALICE, "acme/alice")
    expect(page.get_by_role("button", name=re.compile("current"))).to_have_count(0)
    page.goto("/#/profile/tenant-000/profile-000")
    expect(page.get_by_role("alert")).to_contain_text("not for this tenant")
    visit.close("403")


INTRUDER = """<script>window.inline = 1</script><script src="http://127.0.0.1:9/x.js"></script>
<style>body { color: red }</style><p style="color: red" onclick="window.inline = 1" id="intruder">x</p>
<link rel="stylesheet" href="http://127.0.0.1:9/x.css"><img src="http://127.0.0.1:9/x.png"><iframe src="/docs"></iframe></body>"""

TRIED = """async () => {
    document.getElementById('intruder').click();
    try { document.body.innerHTML += '<p>markup</p>'; } catch { window.markup = 'refused'; }
    await fetch('http://127.0.0.1:9/x').catch(() => {});
    await new Promise((done) => setTimeout(done, 500));
    return { broken: [...new Set(window.broken)].sort(), inline: window.inline ?? 'refused', markup: window.markup, color: getComputedStyle(document.getElementById('intruder')).color };
}"""


def policy(browser):
    """With the headers of the server, the browser refuses whatever somebody might smuggle into the page."""
    context = browser.new_context(base_url=BASE)
    page = context.new_page()
    page.add_init_script("window.broken = []; document.addEventListener('securitypolicyviolation', (event) => window.broken.push(event.effectiveDirective));")

    def smuggle(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("</body>", INTRUDER))

    page.route(f"{BASE}/", smuggle)
    page.goto("/")
    expect(page.get_by_label("Token")).to_be_visible()
    refused = page.evaluate(TRIED)
    needed = {"script-src-elem", "script-src-attr", "style-src-elem", "style-src-attr", "img-src", "connect-src", "frame-src", "require-trusted-types-for"}
    assert needed <= set(refused["broken"]), refused
    assert (refused["inline"], refused["markup"]) == ("refused", "refused") and refused["color"] != "rgb(255, 0, 0)", refused
    context.close()


PARTS = [log_in, triage, live_job, other_views, narrow, dark, keyboard, tenant, policy]


def main():
    SHOTS.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for part in PARTS:
            if wanted and part.__name__ not in wanted:
                continue
            part(browser)
            print(f"{part.__name__}: done", flush=True)
        browser.close()


main()
