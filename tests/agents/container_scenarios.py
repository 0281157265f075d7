"""Scenarios with containers: what holds where a daemon is offered to an agent, and where none is."""

import jsonschema
from mcp.shared.exceptions import MCPError

from agent import CONTAINERS, TOOLS, text


async def containers_of_a_run(agent):
    """There is the container `web`, which has no snapshot yet; those in `strange` are not there, or are not this agent's."""
    tools = {tool.name: tool for tool in await agent.tools()}
    assert list(tools) == [f"snapshots_{name}" for name in TOOLS] + CONTAINERS, list(tools)
    hints = [tools[name].annotations for name in CONTAINERS]
    assert [hint.read_only_hint for hint in hints] == [False, True], hints
    assert [hint.idempotent_hint for hint in hints] == [False, True], hints
    # The oldest snapshots make room for a new one.
    assert [hint.destructive_hint for hint in hints] == [True, False], hints
    assert not any(hint.open_world_hint for hint in hints), hints
    assert (await agent.call("containers_list"))["total"] == 0

    told = []

    async def on_progress(progress, total, message):
        told.append(progress)

    arguments = {"container": "web", "trigger": "before_action", "run_id": "run-7", "description": "before the login"}
    first = await agent.client.call_tool("containers_snapshot", arguments, progress_callback=on_progress)
    assert not first.is_error, text(first)
    assert told and told == sorted(set(told)), told
    first = first.structured_content
    jsonschema.validate(first, agent.schemas["containers_snapshot"])
    assert (first["outcome"], first["name"], first["trigger"]) == ("stored", "acme/web", "before_action"), first
    assert first["container"] == "web" and first["volumes"] == 1 and first["bytes"] > 0 and first["snapshot"], first
    second = await agent.call("containers_snapshot", container="web", name="acme/web", trigger="run_end", run_id="run-7", wait=10)
    assert second["outcome"] == "stored" and second["stored_bytes"] < first["stored_bytes"], second

    listed = await agent.call("containers_list", name="web")
    assert listed["total"] == 2 and listed == await agent.call("containers_list"), listed
    newest, oldest = listed["snapshots"]
    assert newest["snapshot"] == second["snapshot"] and newest["latest"] and not oldest["latest"], listed
    assert (oldest["trigger"], oldest["run_id"], oldest["description"]) == ("before_action", "run-7", "before the login"), oldest
    page = await agent.call("containers_list", limit=1)
    rest = await agent.call("containers_list", limit=1, cursor=page["next_cursor"])
    assert page["snapshots"] + rest["snapshots"] == listed["snapshots"] and "next_cursor" not in rest, rest

    for name in agent.scene["strange"]:
        await strange(agent, name)
    # Arguments that are wrong are errors for all triggers: they are the same the next time.
    for wrong in [{"wait": 61}, {"time_limit": 0}, {"time_limit": 101}, {"wait": 20, "time_limit": 100}, {"name": "globex/web"},
                  {"name": "a/b/c"}, {"trigger": "before_restore"}, {"run_id": "x" * 300}, {"description": "x" * 5000}]:
        await agent.refused("containers_snapshot", **{"container": "web", "trigger": "run_start", **wrong})
    await agent.refused("containers_snapshot", "arguments", name="web")
    await agent.refused("containers_list", "tenant", name="globex/web")
    await agent.refused("containers_list", "containers_list", name="nothing-like-it")
    assert (await agent.call("containers_list"))["total"] == 2


async def strange(agent, name):
    """A container that this agent cannot store is not found. A run goes on without its snapshot."""
    said = await agent.refused("containers_snapshot", "there is no container", container=name)
    assert "(not_found)" in said, said
    await agent.refused("containers_snapshot", "there is no container", container=name, trigger="run_start", fail_open=False)
    for arguments in [{"trigger": "before_action", "run_id": "run-7"}, {"fail_open": True}]:
        failed = await agent.call("containers_snapshot", container=name, **arguments)
        assert failed["outcome"] == "failed" and name in failed["problem"] and failed["next"], failed
        assert "snapshot" not in failed and failed["bytes"] == 0, failed


async def no_containers_of_its_own(agent):
    await agent.tools()
    for name in agent.scene["strange"]:
        await strange(agent, name)
    assert (await agent.call("containers_list"))["total"] == 0


async def a_container_that_is_locked(agent):
    """Somebody else has the lock of `acme/web`."""
    await agent.tools()
    await agent.refused("containers_snapshot", "(lock_held)", '"wait"', container="web")
    failed = await agent.call("containers_snapshot", container="web", trigger="after_action")
    assert failed["outcome"] == "failed" and failed["problem"], failed
    # Another name has a lock of its own.
    assert (await agent.call("containers_snapshot", container="web", name="aside"))["name"] == "acme/aside"


async def no_daemon(agent):
    await agent.tools()
    await agent.refused("containers_snapshot", "cannot reach Docker", container="web")
    failed = await agent.call("containers_snapshot", container="web", trigger="run_start")
    assert failed["outcome"] == "failed" and "cannot reach Docker" in failed["problem"], failed
    # The store answers though Docker does not.
    assert (await agent.call("containers_list"))["total"] >= 2


async def no_containers(agent):
    assert [tool.name for tool in await agent.tools()] == [f"snapshots_{name}" for name in TOOLS]
    try:
        await agent.client.call_tool("containers_snapshot", {"container": "web"})
        raise AssertionError("there is no such tool")
    except MCPError as error:
        assert "snapshots_create" in str(error) and "containers_list" not in str(error), error
