"""The reference pages as the code has them now."""

from __future__ import annotations

__all__ = ["pages"]


def pages() -> dict[str, str]:
    """The Markdown of each page by the name of its file.

    >>> sorted(pages())
    ['api.md', 'commands.md', 'errors.md', 'findings.md', 'magics.md']
    """
    from geolake_nb.reference.api_page import api_page
    from geolake_nb.reference.command_page import command_page
    from geolake_nb.reference.error_page import error_page
    from geolake_nb.reference.finding_page import finding_page
    from geolake_nb.reference.magic_page import magic_page

    return {
        "commands.md": command_page(),
        "magics.md": magic_page(),
        "findings.md": finding_page(),
        "errors.md": error_page(),
        "api.md": api_page(),
    }
