"""Regenerate the reference pages: `python -m geolake_nb.reference`."""

from __future__ import annotations

from geolake_nb.reference import FOLDER
from geolake_nb.reference.pages import pages


def main() -> int:
    """Write each page that differs, and print its state."""
    for name, text in pages().items():
        path = FOLDER / name
        same = path.exists() and path.read_text(encoding="utf-8") == text
        if not same:
            path.write_text(text, encoding="utf-8")
        print(f"{path}: {'unchanged' if same else 'written'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
