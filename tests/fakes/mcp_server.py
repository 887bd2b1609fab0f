"""A real MCP server over HTTP with one tool, `rate`, in a thread of this process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def mcp_server() -> Iterator[str]:
    """Its address. The tool knows every good but `none`."""
    import uvicorn
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("desk")

    @server.tool()
    def rate(good: str) -> str:
        """The rate of a good."""
        if good == "none":
            raise ToolError("there is no such good")
        return f"{good}: 4"

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=port, log_level="error"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        pass
    yield f"http://127.0.0.1:{port}/mcp"
    running.should_exit = True
    thread.join(10)
