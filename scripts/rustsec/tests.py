"""`scripts/advisories` on made-up locks, copies and checkouts, as it is typed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from datetime import date, timedelta
from pathlib import Path

from .kept import Copy
from .version import meets, version

PROGRAM = Path(__file__).resolve().parent.parent / "advisories"
TODAY = date(2026, 11, 17)

LOCK = """version = 4
[[package]]
name = "own"
version = "0.1.0"
[[package]]
name = "parser"
version = "1.4.2"
source = "registry"
[[package]]
name = "parser"
version = "0.9.9"
source = "registry"
[[package]]
name = "socket"
version = "0.3.0-rc.2"
source = "registry"
"""
HARMLESS = 'crate = "parser"\ndate = 2026-10-01\nkind = "vulnerability"\npatched = ["^0.9.9", ">= 1.4.2"]'
HARMFUL = 'crate = "parser"\ndate = 2026-10-01\nkind = "vulnerability"\npatched = ["^0.9.9", ">= 1.4.3"]'


def copy(advisory: str = HARMLESS, ignored: str = "", *, made: date = TODAY, crates: str = '"parser", "socket"') -> str:
    return f'date = {made}\ncrates = [{crates}]\n[[advisory]]\nid = "RUSTSEC-2026-0001"\n{advisory}\n{ignored}'


def tolerated(until: date, reason: str = "no input of others is parsed", id: str = "RUSTSEC-2026-0001") -> str:
    return f'[[ignored]]\nid = "{id}"\nreason = "{reason}"\nuntil = {until}\n'


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="pstore-advisories-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "Cargo.lock").write_text(LOCK)
        self.copy = self.folder / "advisories.toml"

    def run_program(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, PROGRAM, "--lock", self.folder / "Cargo.lock", "--copy", self.copy, "--today",
                               str(TODAY), *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def passes(self, text: str) -> None:
        self.copy.write_text(text)
        ran = self.run_program("check")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def fails(self, text: str, *words: str) -> None:
        """It fails, in words that name these."""
        self.copy.write_text(text)
        ran = self.run_program("check")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertNotIn("Traceback", ran.stderr)
        for word in words:
            self.assertIn(word, ran.stderr)


class Checking(Case):
    def test_a_version_that_an_advisory_is_about_fails_and_says_what_to_type(self) -> None:
        self.passes(copy(HARMLESS))
        self.fails(copy(HARMFUL), "parser 1.4.2 has RUSTSEC-2026-0001", "patched: ^0.9.9 or >= 1.4.3",
                   "type: cargo update -p parser@1.4.2")
        self.assertNotIn("0.9.9 has", self.run_program("check").stderr)

    def test_what_no_version_mends_fails_whatever_its_kind(self) -> None:
        for kind in ("vulnerability", "unsound", "unmaintained", "notice"):
            self.fails(copy(f'crate = "socket"\ndate = 2026-10-01\nkind = "{kind}"'), "socket 0.3.0-rc.2 has", "no version", kind)

    def test_a_copy_of_more_than_60_days_ago_or_of_tomorrow_fails(self) -> None:
        self.passes(copy(made=TODAY - timedelta(days=60)))
        self.fails(copy(made=TODAY - timedelta(days=61)), "61 days old", "scripts/advisories renew")
        self.fails(copy(made=TODAY + timedelta(days=1)), "yet to come")

    def test_a_crate_that_was_never_looked_up_fails(self) -> None:
        self.fails(copy(crates='"parser"'), "nothing is known about socket", "scripts/advisories renew")
        self.passes(copy(crates='"parser"]\ncrates_in_groups = ["socket"'))

    def test_an_exception_holds_for_a_reason_until_its_day_and_while_it_is_needed(self) -> None:
        self.passes(copy(HARMFUL, tolerated(TODAY)))
        self.fails(copy(HARMFUL, tolerated(TODAY - timedelta(days=1))), "parser 1.4.2 has", "ended on 2026-11-16")
        self.fails(copy(HARMFUL, tolerated(TODAY, reason=" ")), "for no reason")
        self.fails(copy(HARMFUL, tolerated(TODAY, id="RUSTSEC-2026-0002")), "parser 1.4.2 has", "RUSTSEC-2026-0002 is ignored and")
        self.fails(copy(HARMLESS, tolerated(TODAY)), "RUSTSEC-2026-0001 is ignored and does no harm any more")

    def test_a_copy_that_cannot_be_read_fails(self) -> None:
        for text in ("", "date = 1", "date = 2026-11-17", copy(made=TODAY).replace("[[advisory]]", "[[advisories]]"),
                     copy(HARMLESS.replace("patched", "patches")), copy(HARMLESS.replace(">= 1.4.2", "newer")),
                     copy(HARMLESS.replace("vulnerability", "gossip")), copy().replace("RUSTSEC-2026-0001", "CVE-1"),
                     copy().replace("2026-11-17", '"2026-11-17"')):
            self.fails(text)
        self.copy.unlink()
        self.assertEqual(self.run_program("check").returncode, 1)

    def test_the_copy_that_is_kept_is_read_as_it_is_written(self) -> None:
        kept = PROGRAM.with_suffix(".toml")
        read = Copy.read(kept)
        self.copy.write_text(read.text("a comment"))
        self.assertEqual(Copy.read(self.copy), read)
        comment = "\n".join(line.removeprefix("#").removeprefix(" ") for line in kept.read_text().split("\n\n")[0].splitlines())
        self.assertEqual(kept.read_text(), read.text(comment))


class Renewing(Case):
    def setUp(self) -> None:
        super().setUp()
        self.checkout = self.folder / "database"
        self.advisory("parser", "RUSTSEC-2025-0007", 'patched = [">= 2.0.0"]\nunaffected = ["< 1.0"]')
        self.advisory("parser", "RUSTSEC-2024-0001", "patched = []", 'withdrawn = "2024-05-01"\n')
        self.advisory("socket", "RUSTSEC-2026-0003", 'patched = [">=0.3.0"]', 'informational = "unsound"\n')
        self.advisory("stranger", "RUSTSEC-2026-0004", "patched = []")
        self.git("init", "--quiet")

    def advisory(self, crate: str, id: str, versions: str, more: str = "") -> None:
        path = self.checkout / "crates" / crate / f"{id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'```toml\n[advisory]\nid = "{id}"\npackage = "{crate}"\ndate = "2026-01-02"\n{more}'
                        f"keywords = []\n\n[versions]\n{versions}\n```\n\n# A title\n\n```toml\nnothing of ours\n```\n")

    def git(self, *words: str) -> None:
        subprocess.run(["git", "-C", self.checkout, "-c", "user.name=nobody", "-c", "user.email=nobody@localhost", *words], check=True,
                       env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_DATE": "2026-11-10T12:00:00Z"})

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "all")

    def test_a_copy_has_what_concerns_the_lock_and_the_day_of_the_last_commit(self) -> None:
        self.commit()
        ran = self.run_program("renew", self.checkout)
        self.assertEqual(ran.returncode, 1, "two advisories concern the lock")
        for words in ("parser 1.4.2 has RUSTSEC-2025-0007", "socket 0.3.0-rc.2 has RUSTSEC-2026-0003: unsound"):
            self.assertIn(words, ran.stderr)
        made = Copy.read(self.copy)
        self.assertEqual(made.date, date(2026, 11, 10))
        self.assertEqual(made.crates, ["parser", "socket"])
        self.assertEqual([one.id for one in made.advisories], ["RUSTSEC-2025-0007", "RUSTSEC-2026-0003"])

        lock = self.folder / "Cargo.lock"
        lock.write_text(lock.read_text().replace("1.4.2", "2.0.1").replace("0.3.0-rc.2", "0.3.0"))
        self.assertEqual(self.run_program("check").returncode, 0)

    def test_exceptions_are_kept(self) -> None:
        self.commit()
        quoting = tolerated(TODAY, reason=r"a \"socket\" of our own", id="RUSTSEC-2026-0003")
        self.copy.write_text(f'date = 2026-01-01\ncrates = ["parser"]\n{tolerated(TODAY, id="RUSTSEC-2025-0007")}{quoting}')
        ran = self.run_program("renew", self.checkout)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual([one.reason for one in Copy.read(self.copy).ignored], ["no input of others is parsed", 'a "socket" of our own'])

    def test_what_is_no_whole_clone_is_refused_and_the_copy_stays(self) -> None:
        self.copy.write_text(copy())
        before = self.copy.read_text()
        known = self.checkout / "crates/parser/RUSTSEC-2026-0001.md"
        for because, words in (
            (lambda: None, "lacks RUSTSEC-2026-0001 of parser"),
            (lambda: self.advisory("parser", known.stem, "patched = []"), "is no clone"),
            (self.commit, ""),
            (lambda: self.advisory("parser", "RUSTSEC-2026-0009", 'patched = ["yes"]'), "is no requirement"),
            (lambda: (known.parent / "RUSTSEC-2026-0009.md").write_text("# A title\n"), "does not begin with TOML"),
            (lambda: (known.parent / "RUSTSEC-2026-0009.md").write_text(known.read_text()), "is RUSTSEC-2026-0001"),
        ):
            because()
            self.copy.write_text(before)
            ran = self.run_program("renew", self.checkout)
            self.assertEqual(ran.returncode, 1)
            if words:
                self.assertIn(words, ran.stderr)
                self.assertEqual(self.copy.read_text(), before)
        # A clone around it tells nothing of its age.
        (self.checkout / "inner/crates/parser").mkdir(parents=True)
        (self.checkout / "inner/crates/parser" / known.name).write_text(known.read_text())
        self.assertIn("is no clone", self.run_program("renew", self.checkout / "inner").stderr)
        ran = self.run_program("renew", self.folder)
        self.assertIn("is it a checkout of the database?", ran.stderr)


class Yanked(Case):
    def registry(self, *lines: tuple[str, str, str]) -> None:
        """One that has these crates in these versions, in place of cargo's own."""
        for name, number, yanked in lines:
            path = self.folder / "registry/index" / name[:2] / name[2:4] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f'{{"name":"{name}","vers":"{number}","deps":[],"cksum":"{"0" * 64}","features":{{}},"yanked":{yanked}}}\n')
        (self.folder / ".cargo").mkdir(exist_ok=True)
        (self.folder / ".cargo/config.toml").write_text(
            '[source.crates-io]\nreplace-with = "ours"\n[source.ours]\nlocal-registry = "registry"\n')

    def test_a_version_that_was_taken_back_fails(self) -> None:
        self.registry(("parser", "1.4.2", "false"), ("parser", "0.9.9", "false"), ("socket", "0.3.0-rc.2", "false"))
        ran = self.run_program("yanked")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        (self.folder / "registry/index/so/ck/socket").unlink()
        self.registry(("socket", "0.3.0-rc.2", "true"), ("socket", "0.3.0", "false"))
        ran = self.run_program("yanked")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("version 0.3.0-rc.2 is yanked", ran.stderr)

    def test_a_registry_that_does_not_know_a_version_fails(self) -> None:
        self.registry(("parser", "1.4.2", "false"), ("socket", "0.3.0", "false"))
        self.assertEqual(self.run_program("yanked").returncode, 1)


class Requirements(unittest.TestCase):
    def test_versions_have_their_order(self) -> None:
        order = "0.0.9 0.9.0 0.10.0-0 0.10.0-2 0.10.0-11 0.10.0-alpha 0.10.0-alpha.1 0.10.0-alpha.beta 0.10.0-rc.2 0.10.0 1.0.0".split()
        self.assertEqual(sorted(reversed(order), key=version), order)
        self.assertEqual(version("1.0.0+one"), version("1.0.0+two"))
        for text in ("1", "1.2", "1.2.3.4", "v1.2.3", "1.2.x", "", "1.2.3-"):
            self.assertRaises(ValueError, version, text)

    def test_a_requirement_is_met_by_these_and_not_by_those(self) -> None:
        for requirement, these, those in (
            (">= 1.2.3", "1.2.3 1.2.3+x 1.3.0 2.0.0-alpha 10.0.0", "1.2.2 1.2.3-rc.1 0.9.9"),
            (">1.2.3", "1.2.4 1.2.4-a 2.0.0", "1.2.3 1.2.3-rc.1"),
            ("> 1.2", "1.3.0 2.0.0", "1.2.0 1.2.9"),
            ("< 1.2.3", "1.2.2 1.2.3-rc.1 0.0.0", "1.2.3 2.0.0"),
            ("<= 0.22", "0.22.0 0.22.9 0.1.0", "0.23.0 0.23.0-alpha.1 1.0.0"),
            ("<= 0.1.37", "0.1.37 0.1.0", "0.1.38"),
            ("= 0.4.10", "0.4.10", "0.4.9 0.4.11 0.4.10-rc.1"),
            ("=1.2", "1.2.0 1.2.7", "1.3.0 1.1.9 1.3.0-0"),
            ("^0.3.26", "0.3.26 0.3.99", "0.3.25 0.4.0 0.4.0-alpha 1.3.26"),
            ("0.54.2", "0.54.2 0.54.3", "0.55.0 0.54.1"),
            ("^1.2.3", "1.2.3 1.9.0", "2.0.0 2.0.0-alpha 1.2.2"),
            ("^0.0.3", "0.0.3", "0.0.4 0.0.2 0.1.0"),
            ("^0.0", "0.0.0 0.0.9", "0.1.0"),
            ("^0", "0.0.1 0.9.9", "1.0.0"),
            ("~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2"),
            ("~1", "1.0.0 1.9.9", "2.0.0 0.9.0"),
            ("1.2.*", "1.2.0 1.2.9", "1.3.0 1.1.0"),
            ("1.*", "1.0.0 1.9.0", "2.0.0 0.9.0"),
            ("*", "0.0.0 1.0.0-rc.1 9.9.9", ""),
            (">= 0.103.13, < 0.104.0-alpha.1", "0.103.13 0.103.99", "0.103.12 0.104.0-alpha.1 0.104.0-alpha.7 0.104.0"),
            (">= 0.104.0-alpha.7", "0.104.0-alpha.7 0.104.0-alpha.10 0.104.0", "0.104.0-alpha.6 0.103.13"),
            ("< 0.10.0, >= 0.9.3", "0.9.3 0.9.9", "0.9.2 0.10.0"),
            (">= 0", "0.0.0 1.0.0", ""),
        ):
            with self.subTest(requirement):
                self.assertEqual([each for each in these.split() if not meets(version(each), requirement)], [])
                self.assertEqual([each for each in those.split() if meets(version(each), requirement)], [])

    def test_what_is_no_requirement_is_not_met_silently(self) -> None:
        for requirement in ("", "newer", ">= ", "=> 1.0", "1.2.3.4", "< 1, newer", "> 9, newer", "1.*.2", "1-alpha", ">= 1.0,"):
            with self.subTest(requirement):
                self.assertRaises(ValueError, meets, version("1.0.0"), requirement)
