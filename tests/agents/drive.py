"""Drives the tools of `pstore mcp`, or of `/mcp` of `pstore serve`, with the official client of the protocol.

Takes a JSON document: `scenario`, `mode` (a revision of the protocol, or `legacy` for its handshake), `directory` (the workspace),
and either `command` with `environment`, or `url` with `token`. Ends with 0 if all holds that the scenario says.
"""

import json
import subprocess
import sys
from pathlib import Path

import anyio
from mcp.shared.exceptions import MCPError

import container_scenarios
from agent import DESTROYS, READS, TOOLS, connected, text


def kinds(changes):
    return {change["path"]: change["change"] for change in changes["changes"]}


async def every_tool(agent):
    tools = await agent.tools()
    assert [tool.name for tool in tools] == [f"snapshots_{name}" for name in TOOLS], tools
    for tool in tools:
        name, hints = tool.name.removeprefix("snapshots_"), tool.annotations
        assert tool.description and tool.title and tool.input_schema["type"] == "object", tool
        assert hints.read_only_hint == (name in READS) and hints.destructive_hint == (name in DESTROYS), tool
        assert hints.open_world_hint is False and hints.idempotent_hint is not None, tool

    agent.shell("mkdir -p src docs; printf 'one\\ntwo\\nthree\\n' > src/main.py; echo read me > docs/README; chmod 755 src/main.py")
    base = await agent.call("create", name="base", description="before anything")
    assert (base["name"], base["origin"], base["outcome"]) == ("base", "manual", "created"), base
    assert base["files"] >= 2 and base["hash"] and base["description"] == "before anything", base

    agent.shell("printf 'one\\n2\\nthree\\n' > src/main.py; chmod 644 src/main.py; rm docs/README; echo new > src/new.py")
    changes = await agent.call("changes", since="base")
    assert kinds(changes)["src/main.py"] == "modified" and kinds(changes)["src/new.py"] == "created", changes
    assert kinds(changes)["docs/README"] == "deleted" and changes["deleted"] == 1, changes
    assert changes["total"] >= 3 and changes["since"]["checkpoint"] == base["checkpoint"], changes
    below = await agent.call("changes", since="base", path="docs")
    assert set(kinds(below)) == {"docs/README"}, below

    diff = await agent.call("diff", path="src/main.py", since="base")
    assert (diff["added_lines"], diff["removed_lines"]) == (1, 1) and "-two" in diff["diff"] and "+2" in diff["diff"], diff
    # Paths may be whole ones that lead into the workspace.
    assert (await agent.call("diff", path=str(agent.directory / "src/main.py"), since="base"))["diff"] == diff["diff"]

    second = await agent.call("create", name="second")
    listed = await agent.call("list")
    names = [checkpoint.get("name") for checkpoint in listed["checkpoints"] if checkpoint["origin"] == "manual"]
    assert names == ["second", "base"] and listed["manual"] == 2, listed
    assert listed["total"] == len(listed["checkpoints"]) and listed["manual_max"] >= 2, listed

    seen = await agent.call("revert", path="src/main.py", checkpoint="base", preview=True)
    assert not seen["reverted"] and seen["restored"] == 1 and "2" in agent.read("src/main.py"), seen
    done = await agent.call("revert", path="src/main.py", checkpoint="base")
    assert done["reverted"] and done["restored"] == 1 and done["undo"]["checkpoint"], done
    assert agent.read("src/main.py") == "one\ntwo\nthree\n" and (agent.directory / "src/main.py").stat().st_mode & 0o777 == 0o755
    # A revert can be reverted.
    await agent.call("revert", path="src/main.py", checkpoint=done["undo"]["checkpoint"])
    assert agent.read("src/main.py") == "one\n2\nthree\n"
    # What was created since is removed, and what was deleted is back.
    whole = await agent.call("revert", all=True, checkpoint="base")
    assert whole["removed"] >= 1 and not (agent.directory / "src/new.py").exists(), whole
    assert agent.read("docs/README") == "read me\n"
    again = await agent.call("revert", path="src/main.py", checkpoint="base")
    assert again["restored"] == 0 and again["note"], again

    history = await agent.call("history", path="src/main.py")
    states = {version["checkpoint"]: version["state"] for version in history["versions"]}
    assert states[base["checkpoint"]] == "created" and states[second["checkpoint"]] == "modified", history
    assert any(event["action"] == "restored" for event in history["recent_events"]), history

    made = await agent.call("fork", name="try-2", checkpoint="second")
    fork = Path(made["directory"])
    assert fork == agent.directory.parent / f"{agent.directory.name}-try-2", made
    assert (fork / "src/main.py").read_text() == "one\n2\nthree\n" and (fork / "src/new.py").exists()
    await agent.refused("fork", "try-2", name="try-2")

    deleted = await agent.call("delete", checkpoint="second")
    assert deleted["deleted"]["name"] == "second" and deleted["free_slots"] == listed["manual_max"] - 1, deleted
    await agent.refused("delete", "second", "snapshots_list", checkpoint="second")


async def what_is_wrong(agent):
    await agent.tools()
    outside = agent.directory.parent / "outside"
    outside.write_text("secret")
    agent.shell("echo kept > file; ln -s .. up; ln -s ../outside link")
    await agent.refused("changes", "nothing-like-it", "snapshots_list", since="nothing-like-it")
    await agent.call("create", name="base")
    await agent.refused("create", "base", "snapshots_delete", name="base")
    # Arguments that no schema allows.
    await agent.refused("create", "snapshots_create", nam="typo")
    await agent.refused("diff", "path")
    await agent.refused("diff", "arguments", path=7)
    await agent.refused("list", "limit", limit=0)
    await agent.refused("list", "next_cursor", cursor="somewhere")
    await agent.refused("revert", '"all": true')
    await agent.refused("revert", "exclude", path="file", all=True)
    await agent.refused("revert", "page by page", all=True, cursor="5")
    # Paths that are not there, and paths that lead out.
    await agent.refused("diff", "not/there", path="not/there")
    await agent.refused("revert", "not/there", path="not/there")
    await agent.refused("history", "not/there", path="not/there")
    for path in ["../outside", "/etc/passwd", "src/../../outside", str(outside)]:
        for tool in ["diff", "revert", "history", "changes"]:
            await agent.refused(tool, "leads out of the workspace", path=path)
    for path in ["up/outside", "link/x"]:
        for tool in ["diff", "revert"]:
            result = await agent.raw(tool, {"path": path})
            assert result.is_error and "secret" not in text(result), text(result)
    for name in ["", "..", "a/b", "/tmp/elsewhere"]:
        await agent.refused("fork", "name of a fork", name=name)
    await agent.refused("fork", "no checkpoint", name="x", checkpoint="cp-999")
    assert outside.read_text() == "secret" and agent.read("file") == "kept\n"
    # No tool of that name, and no method: errors of the protocol, after which the next call is answered.
    for attempt in [agent.client.call_tool("snapshots_burn", {})]:
        try:
            await attempt
            raise AssertionError("there is no such tool")
        except MCPError as error:
            assert "snapshots_create" in str(error), error
    assert (await agent.call("list"))["manual"] == 1


async def a_full_pool(agent):
    await agent.tools()
    room = (await agent.call("list"))["manual_max"]
    for number in range(room):
        agent.shell(f"echo {number} > number")
        made = await agent.call("create", name=f"n{number}")
        assert made["free_slots"] == room - number - 1, made
    agent.shell("echo more > number")
    said = await agent.refused("create", "slots", "snapshots_delete", '"n0"', name="more")
    # The answer alone says what to do.
    oldest = said.split('the oldest is "')[1].split('"')[0]
    await agent.call("delete", checkpoint=oldest)
    assert (await agent.call("create", name="more"))["free_slots"] == 0


async def pages(agent):
    await agent.tools()
    agent.shell("echo x > first")
    await agent.call("create", name="base")
    agent.shell("mkdir many; for i in $(seq 1300); do echo $i > many/file-$i; done; seq 3000 > long; seq 100000 | tr '\\n' ' ' > wide")
    seen, cursor, total = [], None, None
    while True:
        page = await agent.call("changes", since="base", limit=500, **({"cursor": cursor} if cursor else {}))
        total = total or page["total"]
        assert page["total"] == total and len(page["changes"]) <= 500, page["total"]
        seen += [change["path"] for change in page["changes"]]
        cursor = page.get("next_cursor")
        if not cursor:
            break
    assert len(seen) == total == len(set(seen)) and sum(path.startswith("many/") for path in seen) == 1300, total
    usual = await agent.call("changes", since="base")
    assert len(usual["changes"]) == 50 and usual["total"] == total and usual["created"] >= 1302, usual["total"]
    # Long paths, and what somebody has written at length, fill no answer: `call` sees to that.
    deep = agent.directory / "/".join(["d" * 200] * 10)
    deep.mkdir(parents=True)
    for number in range(120):
        (deep / f"{number}-{'n' * 200}").write_text("x")
    seen, cursor = [], None
    while True:
        page = await agent.call("changes", since="base", path="d" * 200, limit=500, **({"cursor": cursor} if cursor else {}))
        seen += [change["path"] for change in page["changes"]]
        cursor = page.get("next_cursor")
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == page["total"] == 130, (len(seen), page["total"])
    await agent.call("create", name="wordy", description="why " * 50_000)
    wordy = (await agent.call("list"))["checkpoints"][0]
    assert wordy["description"].startswith("why why") and "200000 characters" in wordy["description"], wordy["description"][-80:]
    await agent.refused("diff", "no checkpoint", path="first", since="x" * 100_000)
    await agent.call("delete", checkpoint="wordy")
    agent.shell(f"rm -r {'d' * 200}")
    # A long diff, and a long line.
    lines, cursor = [], None
    while True:
        page = await agent.call("diff", path="long", since="base", limit=1500, **({"cursor": cursor} if cursor else {}))
        assert page["added_lines"] == 3000
        lines += page["diff"].split("\n")
        cursor = page.get("next_cursor")
        if not cursor:
            break
    assert [line for line in lines if line.startswith("+") and line[1:].isdigit()] == [f"+{n}" for n in range(1, 3001)]
    wide = await agent.call("diff", path="wide", since="base")
    assert len(wide["diff"]) < 2000, len(wide["diff"])
    # A preview of a large revert is told in pages, too.
    seen, cursor = 0, None
    while True:
        page = await agent.call("revert", all=True, checkpoint="base", preview=True, limit=400, **({"cursor": cursor} if cursor else {}))
        seen += len(page["paths"])
        cursor = page.get("next_cursor")
        if not cursor:
            break
    assert seen == page["removed"] + page["restored"] >= 1302, seen
    done = await agent.call("revert", all=True, checkpoint="base")
    assert done["removed"] >= 1302 and len(done["paths"]) == 50 and done["more_paths"] > 1000, done["removed"]
    listed = [(await agent.call("list", limit=1))]
    while listed[-1].get("next_cursor"):
        listed.append(await agent.call("list", limit=1, cursor=listed[-1]["next_cursor"]))
    ids = [page["checkpoints"][0]["checkpoint"] for page in listed]
    assert len(ids) == len(set(ids)) == listed[0]["total"] >= 2, ids


async def an_agent_breaks_things_and_mends_them(agent):
    """Knows nothing but what the tools answer: not which file is broken, and not when it was whole."""
    await agent.tools()
    suite = "sh tests/run.sh >/dev/null 2>&1"
    passes = lambda: subprocess.run(["sh", "-c", suite], cwd=agent.directory).returncode == 0
    agent.shell(
        """mkdir -p lib tests data
        for i in 1 2 3 4 5 6 7 8; do echo "f$i() { echo $i; }" > lib/f$i.sh; done
        cat > tests/run.sh <<'END'
set -e
for f in lib/*.sh; do . "./$f"; done
[ "$(f1)$(f2)$(f3)$(f4)$(f5)$(f6)$(f7)$(f8)" = 12345678 ]
[ "$(cat data/config)" = "mode=safe" ]
END
        echo mode=safe > data/config"""
    )
    assert passes()
    good = await agent.call("create", name="tests-pass")
    # Work that is fine, then work that breaks three things in three ways, none of them through a tool.
    agent.shell("echo '# comment' >> lib/f1.sh; echo notes > NOTES")
    assert passes()
    better = await agent.call("create", name="still-pass", description="with notes")
    agent.shell("sed -i s/5/55/ lib/f5.sh; rm data/config; echo 'f7() { false; }' > lib/zz.sh; echo '# fine' >> lib/f2.sh")
    assert not passes()
    # The newest checkpoint under whose name the tests passed is the one to compare with.
    listed = (await agent.call("list"))["checkpoints"]
    since = next(checkpoint for checkpoint in listed if (checkpoint.get("name") or "").endswith("pass"))["checkpoint"]
    assert since == better["checkpoint"]
    changes = await agent.call("changes", since=since)
    suspects = [change for change in changes["changes"] if change["change"] != "metadata" and "size_after" in change or change["change"] == "deleted"]
    mended = []
    for change in suspects:
        path = change["path"]
        if (agent.directory / path).is_dir():
            continue
        if change["change"] == "modified":
            diff = await agent.call("diff", path=path, since=since)
            # Lines that were only added as comments break nothing.
            if diff["removed_lines"] == 0 and "+# fine" in diff["diff"]:
                continue
        # It is another one now than where the tests passed. What a revert was about to overwrite is no such place.
        versions = (await agent.call("history", path=path))["versions"]
        assert versions[0]["checkpoint"] == "now", versions
        whole = [version for version in versions[1:] if version["trigger"] != "before_restore" and version["state"] != "deleted"]
        assert all(version["checkpoint"] for version in whole), versions
        done = await agent.call("revert", path=path, checkpoint=since)
        assert done["reverted"] and done["restored"] + done["removed"] >= 1, done
        mended.append(path)
    assert sorted(mended) == ["data/config", "lib/f5.sh", "lib/zz.sh"], mended
    assert passes()
    # Good work is not taken back with the bad.
    assert "# fine" in agent.read("lib/f2.sh") and agent.read("NOTES") == "notes\n" and "# comment" in agent.read("lib/f1.sh")
    left = await agent.call("changes", since=since)
    assert [change["path"] for change in left["changes"] if change["change"] in ("created", "deleted", "modified") and not (agent.directory / change["path"]).is_dir()] == ["lib/f2.sh"], left
    await agent.call("delete", checkpoint=good["checkpoint"])


async def two_calls_at_once(agent):
    """While a long call goes on, others are answered; and it tells how far it is."""
    await agent.tools()
    agent.shell("mkdir big; for i in $(seq 60); do head -c 2000000 /dev/urandom > big/$i; done")
    told, answered = [], {"meanwhile": 0}
    ended = anyio.Event()

    async def on_progress(progress, total, message):
        told.append((progress, total, message))

    async def long():
        arguments = {"name": "long"}
        if agent.scene.get("workspace"):
            arguments["workspace"] = agent.scene["workspace"]
        result = await agent.client.call_tool("snapshots_create", arguments, progress_callback=on_progress)
        ended.set()
        assert not result.is_error, text(result)

    async def short():
        # A call of another tool, and the list, which the server's loop itself answers.
        while not ended.is_set():
            await agent.call("list")
            await agent.client.list_tools()
            answered["meanwhile"] += not ended.is_set()

    async with anyio.create_task_group() as group:
        group.start_soon(long)
        group.start_soon(short)
    assert answered["meanwhile"] >= 1, answered
    amounts = [progress for progress, _, _ in told]
    assert amounts and amounts == sorted(set(amounts)) and all(message for _, _, message in told), told


async def other_tenants(agent):
    """A token reaches the workspaces of its own tenants, and is not told of others."""
    await agent.tools()
    own, other = agent.scene["own"], agent.scene["other"]
    if len(own) > 1:
        said = await agent.refused("list", "several workspaces", *own)
        assert other not in said, said
    for name in own:
        await agent.call("list", workspace=name)
    said = await agent.refused("list", *own, workspace=other)
    unknown = await agent.refused("list", *own, workspace="nobody/nothing")
    assert said.replace(other, "X") == unknown.replace("nobody/nothing", "X"), (said, unknown)
    for path in ["../other", agent.scene["other_directory"]]:
        await agent.refused("revert", "leads out of the workspace", path=path, workspace=own[0])


async def main():
    scene = json.loads(Path(sys.argv[1]).read_text())
    name = scene["scenario"]
    scenario = globals().get(name) or getattr(container_scenarios, name)
    with anyio.fail_after(240):
        async with connected(scene) as agent:
            if scene["mode"] not in ("legacy", "auto"):
                assert agent.client.protocol_version == scene["mode"], agent.client.protocol_version
            await scenario(agent)


anyio.run(main)
