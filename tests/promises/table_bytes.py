"""Every byte below the folder of a table, to be compared before and after."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def table_bytes(folder: Path) -> dict[str, str]:
    """The digest of each file: log, metadata, data, hidden ones."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
