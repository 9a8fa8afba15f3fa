"""Folders of Parquet files that become tables where they lie: their pages, and what a kill leaves of them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import geolake_nb as gl
from geolake_nb.parquet.footer import read_footer
from geolake_nb.storage.storage import Storage
from tests.formats.parquet_sets import contents, make_set
from tests.promises.dying import die_at, points_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Look = Callable[[Path], tuple[str, list[int]]]


def pages(path: Path) -> str:
    """A digest of all that comes before the footer of a file."""
    data = path.read_bytes()
    footer = read_footer(Storage.at(str(path.parent)), path.name)
    return hashlib.sha256(data[: len(data) - 8 - len(footer)]).hexdigest()


def undo(folder: Path) -> None:
    """Make the table files again."""
    gl.open(str(folder)).plan_undo().apply()


def visible(points: list[str]) -> list[int]:
    """The numbers of the points after which a name has appeared or disappeared, the first being 1."""
    steps = [name for name in points if name.startswith(("os.link", "os.rename")) or re.match(r"os\.remove [^.]", name)]
    return [number + 1 for number, name in enumerate(points, 1) if name in steps and number < len(points)]


def kill_while_publishing(tmp_path: Path, publish: Callable[[Path], None], look: Look) -> None:
    """Kill `publish` at each point; `look` says whether there are `files` or a `table`, and the ids of the rows."""
    old, states = contents(make_set(tmp_path / "made", files=1)), set()
    for number in visible(points_of(publish, make_set(tmp_path / "counted", files=1))):
        folder = make_set(tmp_path / f"p{number}", files=1)
        die_at(publish, folder, number)
        state, rows = look(folder)
        assert rows == list(range(10)), number
        states.add(state)
        if state == "files":
            publish(folder)
        assert look(folder) == ("table", list(range(10)))
        undo(folder)
        assert contents(folder) == old, number
        assert look(folder)[0] == "files"
    assert states == {"files", "table"}


def kill_while_undoing(tmp_path: Path, publish: Callable[[Path], None], look: Look) -> None:
    """Kill the undo at each point."""

    def made(name: str) -> Path:
        folder = make_set(tmp_path / name, files=1)
        publish(folder)
        return folder

    old, states = contents(make_set(tmp_path / "made", files=1)), set()
    for number in visible(points_of(undo, made("counted"))):
        folder = made(f"u{number}")
        die_at(undo, folder, number)
        state, rows = look(folder)
        assert rows == list(range(10)), number
        states.add(state)
        if state == "table":
            undo(folder)
        elif "(incomplete)" in str(gl.open(str(folder)).history()):
            gl.open(str(folder)).plan_repair().apply()  # it completes what was interrupted
        assert contents(folder) == old, number
        assert look(folder)[0] == "files"
    assert states == {"files", "table"}
