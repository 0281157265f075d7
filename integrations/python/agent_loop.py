"""An agent's loop with a profile of pstore below it: four callbacks, and a loop that calls them.

    python agent_loop.py acme/alice http://127.0.0.1:8000/ account login?keep account

`run_start` mounts the profile, `before_action` and `after_action` stand around every step, and `run_end` commits, or drops the changes
of a run that failed. With a tenant whose `modes` allow `hot`, every action that changed something is a snapshot of its own beside the
running browser, labelled with the action, so that an operator can go back to just before the step that went wrong.
"""
import json
import os
import subprocess
import sys
import tempfile
from urllib.parse import urljoin

from playwright.sync_api import sync_playwright

PROGRAM = os.environ.get("PSTORE", "pstore")


class PstoreError(Exception):
    """What `pstore` said of its failure: a kind, a message, a hint and an exit code."""

    def __init__(self, error):
        super().__init__(f"{error['message']} ({error['hint']})" if error.get("hint") else error["message"])
        self.kind, self.exit_code = error["kind"], error["exit_code"]


def pstore(*words):
    """Runs a command, and returns the document that it prints."""
    ended = subprocess.run([PROGRAM, "--json", *words], stdout=subprocess.PIPE, text=True)
    document = json.loads(ended.stdout)
    if ended.returncode != 0:
        raise PstoreError(document["error"])
    return document


class ProfileCallbacks:
    """What an agent's framework calls, and pstore does."""

    def __init__(self, profile, chrome_major, each_action=False):
        self.profile, self.chrome_major, self.each_action = profile, str(chrome_major), each_action
        self.directory = self.action = None

    def run_start(self):
        """Locks and mounts the profile; a browser can start on the returned directory at once."""
        self.directory = tempfile.mkdtemp(prefix="profile-")
        try:
            pstore("mount", self.profile, self.directory, "--chrome-major", self.chrome_major)
        except PstoreError:
            os.rmdir(self.directory)
            raise
        return self.directory

    def before_action(self, name):
        self.action = name

    def after_action(self):
        """Stores what the action changed, while the browser runs."""
        name, self.action = self.action, None
        if self.each_action:
            return pstore("commit", self.directory, "--mode", "hot", "--label", f"action={name}")
        return None

    def run_end(self, failed=False):
        """Stores the changes as the next snapshot, or drops them; ends the mount and gives the lock back."""
        ended = pstore("unmount", self.directory, "--discard" if failed else "--commit")
        os.rmdir(self.directory)
        return ended


def loop(callbacks, actions, act):
    """The agent: whatever ends it, the profile is given back."""
    directory = callbacks.run_start()
    failed = True
    try:
        with sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                directory,
                executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                args=["--password-store=basic"],
                chromium_sandbox=False,
            )
            page = context.pages[0] if context.pages else context.new_page()
            for action in actions:
                callbacks.before_action(action)
                act(page, action)
                callbacks.after_action()
            context.close()
        failed = False
    finally:
        callbacks.run_end(failed)


def main():
    profile, site, *actions = sys.argv[1:]

    def act(page, action):
        if action == "fail":
            raise RuntimeError("the agent lost its way")
        page.goto(urljoin(site, action))
        print(f"{action}: {page.inner_text('body')}".strip())

    major = subprocess.run(["chromium", "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[1].split(".")[0]
    loop(ProfileCallbacks(profile, major, each_action="EACH_ACTION" in os.environ), actions, act)


if __name__ == "__main__":
    main()
