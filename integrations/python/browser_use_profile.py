"""browser-use with a profile of pstore for each agent. Start one agent with:

    pstore run acme/alice --chrome-major 156 -- python browser_use_profile.py {profile} http://127.0.0.1:8000/ account login?keep account

`pstore run` mounts the profile, puts its place for `{profile}`, and stores what has changed when this program ends. The model here follows a
script, so that the example needs no key and no network: put yours in its place.
"""
import asyncio
import logging
import os
import sys
from urllib.parse import urljoin

# Nothing is told to anybody.
os.environ.update(ANONYMIZED_TELEMETRY="false", BROWSER_USE_CLOUD_SYNC="false", BROWSER_USE_LOGGING_LEVEL="result", BROWSER_USE_VERSION_CHECK="false")

from browser_use import Agent, Browser  # noqa: E402
from browser_use.llm.views import ChatInvokeCompletion  # noqa: E402


class ScriptedModel:
    """Answers with one action after the other, and then says that it is done."""

    model = model_name = name = provider = "script"
    _verified_api_keys = True

    def __init__(self, addresses):
        self.actions = [{"navigate": {"url": address}} for address in addresses]
        self.actions.append({"done": {"text": "done", "success": True}})

    async def ainvoke(self, messages, output_format=None, **_):
        action = self.actions.pop(0)
        words = {"evaluation_previous_goal": "", "memory": "", "next_goal": "", "thinking": ""}
        return ChatInvokeCompletion(completion=output_format.model_validate(words | {"action": [action]}), usage=None)


async def main():
    profile, site, *pages = sys.argv[1:]
    browser = Browser(
        user_data_dir=profile,
        executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
        headless=True,
        chromium_sandbox=False,
        enable_default_extensions=False,
        # Cookies that another host can read.
        args=["--password-store=basic"],
        # The agent leaves it running, and it is closed below.
        keep_alive=True,
    )

    async def told(agent):
        page = await agent.browser_session.get_current_page()
        if page:
            text = await page.evaluate("() => document.body.innerText")
            print(f"{await page.get_url()}: {text}", flush=True)

    agent = Agent(
        task="look at the account", llm=ScriptedModel([urljoin(site, page) for page in pages]), browser=browser,
        use_vision=False, use_judge=False, enable_planning=False,
    )
    await agent.run(max_steps=len(pages) + 1, on_step_end=told)
    # Closed the way that loses nothing: Chromium writes its cookies now.
    await browser.cdp_client.send.Browser.close()
    # browser-use takes that for an accident, and would say so.
    logging.disable(logging.CRITICAL)
    await browser.kill()


asyncio.run(main())
