"""Write the reference pages again: `python -m geolake_nb.reference`."""

from __future__ import annotations

from geolake_nb.reference import FOLDER
from geolake_nb.reference.pages import pages


def main() -> int:
    """Write each page that differs, and say which."""
    for name, text in pages().items():
        path = FOLDER / name
        same = path.exists() and path.read_text(encoding="utf-8") == text
        if not same:
            path.write_text(text, encoding="utf-8")
        print(f"{path}: {'as it was' if same else 'written'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
