"""Playwright on a profile of pstore. Start it with:

    pstore run acme/alice --chrome-major 156 -- python playwright_profile.py {profile} http://127.0.0.1:8000/

`pstore run` mounts the profile, puts its place for `{profile}`, and stores what has changed when this program ends.
"""
import os
import sys
from urllib.parse import urljoin

from playwright.sync_api import sync_playwright

profile, site = sys.argv[1:]
with sync_playwright() as playwright:
    context = playwright.chromium.launch_persistent_context(
        profile,
        executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
        # Cookies that another host can read.
        args=["--password-store=basic"],
        chromium_sandbox=False,
    )
    page = context.pages[0] if context.pages else context.new_page()
    page.goto(urljoin(site, "account"))
    print("before:", page.inner_text("body"))
    page.goto(urljoin(site, "login?keep"))
    page.goto(urljoin(site, "account"))
    print("after:", page.inner_text("body"))
    # Chromium writes its cookies now.
    context.close()
