"""`Agent` drives tools over the Model Context Protocol, with the official client, and edits a workspace by a shell."""

import json
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import jsonschema
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLS = ["create", "list", "changes", "diff", "revert", "delete", "history", "fork"]
READS = {"list", "changes", "diff", "history"}
DESTROYS = {"revert", "delete"}
# Where containers are offered.
CONTAINERS = ["containers_snapshot", "containers_list"]


@asynccontextmanager
async def connected(scene):
    """A client of the server that the scene has."""
    if "command" in scene:
        program, *words = scene["command"]
        server = StdioServerParameters(command=program, args=words, env=scene["environment"])
        async with Client(server, mode=scene["mode"], read_timeout_seconds=60) as client:
            yield Agent(client, scene)
        return
    headers = {"Authorization": f"Bearer {scene['token']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(scene["url"], http_client=http)
        async with Client(transport, mode=scene["mode"], read_timeout_seconds=60) as client:
            yield Agent(client, scene)


class Agent:
    """Calls tools, and edits by a shell."""

    def __init__(self, client, scene):
        self.client, self.scene, self.directory = client, scene, Path(scene["directory"])
        self.schemas = {}

    async def tools(self):
        listed = await self.client.list_tools()
        self.schemas = {tool.name: tool.output_schema for tool in listed.tools}
        return listed.tools

    async def call(self, tool, **arguments):
        """What a tool answers; its document is one that its schema allows, and its text is the same document."""
        result = await self.raw(tool, arguments)
        assert not result.is_error, f"{tool} {arguments}: {text(result)}"
        document = result.structured_content
        assert json.loads(text(result)) == document
        jsonschema.validate(document, self.schemas[full(tool)])
        assert len(text(result)) < 60_000, f"{tool} answers {len(text(result))} bytes"
        return document

    async def refused(self, tool, *words, **arguments):
        """The failure of a call, which has these words and says what to do next."""
        result = await self.raw(tool, arguments)
        assert result.is_error, f"{tool} {arguments}: {text(result)}"
        said = text(result)
        for word in words:
            assert word in said, f"{word!r} is not in {said!r}"
        assert "\nNext: " in said, said
        assert "pstore " not in said, f"an agent calls tools: {said!r}"
        return said

    async def raw(self, tool, arguments):
        if self.scene.get("workspace") and "workspace" not in arguments:
            arguments = {**arguments, "workspace": self.scene["workspace"]}
        return await self.client.call_tool(full(tool), arguments)

    def shell(self, script):
        """As an agent's shell edits: the server is not told."""
        subprocess.run(["sh", "-ec", script], cwd=self.directory, check=True)

    def read(self, path):
        return (self.directory / path).read_text()


def full(tool):
    """The name of a tool: those for checkpoints are called by their verbs alone."""
    return tool if tool in CONTAINERS else f"snapshots_{tool}"


def text(result):
    assert [block.type for block in result.content] == ["text"], result
    return result.content[0].text
