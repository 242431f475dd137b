"""A small MCP server: the books of a library, and their reservation.

To run it, you need the package `mcp`: `pip install 'jp-nb[mcp]'`. It answers on stdin and stdout.
"""

from typing import Annotated, Literal

from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

BOOKS = {"Emma": 474, "Persuasion": 249, "Sanditon": 128}

server = MCPServer("library", version="1.0")


class Book(BaseModel):
    """A book on the shelf."""

    title: str
    pages: int


class Pickup(BaseModel):
    """The form that the server shows to the user."""

    day: Literal["Monday", "Thursday"] = Field(description="The library is open on two days.")
    name: str = Field(min_length=2, description="The name on the reservation.")


def ask_for_pickup(title: str) -> Elicit[Pickup]:
    """Ask the user when the book is fetched, and by whom."""
    return Elicit(f"When do you fetch “{title}”?", Pickup)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_books(max_pages: int) -> list[Book]:
    """List the books of the library that are not longer than a number of pages."""
    return [Book(title=title, pages=pages) for title, pages in BOOKS.items() if pages <= max_pages]


@server.tool()
def reserve(
    title: str, pickup: Annotated[ElicitationResult[Pickup], Resolve(ask_for_pickup)]
) -> str:
    """Reserve a book. The library asks the user for the day and the name."""
    if pickup.action != "accept":
        return f"“{title}” is not reserved: the user gave no day."

    return f"“{title}” is reserved for {pickup.data.name}, on {pickup.data.day}."


if __name__ == "__main__":
    server.run("stdio")
