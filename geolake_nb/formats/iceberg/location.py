"""The newest metadata file of an Iceberg table, and the paths of its files if it was moved."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import NotATableError, StorageError
from geolake_nb.storage.location import clean_key, is_url

if TYPE_CHECKING:
    from geolake_nb.storage.storage import Storage

__all__ = ["PathMap", "find_metadata", "has_metadata", "is_metadata_path", "require_metadata", "split_metadata_path"]

_FOLDER = "metadata"
_HINT = f"{_FOLDER}/version-hint.text"
# Hadoop tables write v3.metadata.json, catalogs 00003-<uuid>.metadata.json, both also with gzip.
_NAME = re.compile(r"(?:v(\d{1,18})|(\d{1,18})-.+)(?:\.(?:gz|zstd)\.metadata\.json|\.metadata\.json(?:\.gz|\.zst)?)")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".zstd.metadata.json", ".metadata.json.zst")
_LONGEST_HINT = 1024
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasbs": "abfss"}


@dataclass(frozen=True, slots=True)
class PathMap:
    """Maps the paths that a table stores to paths below its root, even if the table was moved.

    A path below the location in the metadata becomes the same relative path below the current root of the
    table; any other path stays as it is.

    >>> paths = PathMap("s3://old/t", "/new/t")
    >>> paths.key("s3a://old/t/data/a.parquet"), paths.key("s3://other/b.parquet")
    ('data/a.parquet', 's3://other/b.parquet')
    """

    stored: str
    """The location in the metadata."""
    root: str
    """The current root of the table."""

    def key(self, path: str) -> str:
        """The path as a key of `Storage.read`."""
        below = _below(path, self.root)
        if below is None:
            below = _below(path, self.stored)
        return path if below is None else clean_key(below, where=self.root)


def _below(path: str, root: str) -> str | None:
    path, root = _normal(path), _normal(root)
    return path[len(root) + 1 :] if root and path.startswith(root + "/") else None


def _normal(path: str) -> str:
    if not is_url(path):
        return posixpath.normpath(path) if path.startswith(("./", "/")) or path.endswith("/") else path
    scheme, _, rest = path.partition(":")
    scheme = scheme.lower()
    if scheme == "file":
        # file:/a and file:///a are the path /a; file://a, which some writers make of a relative path, is a.
        rest = rest[2:] if rest.startswith("//") else rest
        return "/" + rest.lstrip("/").rstrip("/") if rest.startswith("/") else rest.rstrip("/")
    return f"{_SCHEME_ALIASES.get(scheme, scheme)}:{rest.rstrip('/')}"


def is_metadata_path(path: str) -> bool:
    """Whether the path looks like that of a metadata file.

    >>> is_metadata_path("s3://b/t/metadata/v3.gz.metadata.json"), is_metadata_path("s3://b/t")
    (True, False)
    """
    return path.endswith(_ENDINGS)


def split_metadata_path(path: str) -> tuple[str, str]:
    """The root of a table and its metadata file below it, from the path of the file.

    >>> split_metadata_path("/data/t/metadata/v3.metadata.json")
    ('/data/t', 'metadata/v3.metadata.json')
    >>> split_metadata_path("TableMetadataV2Valid.json")
    ('.', 'TableMetadataV2Valid.json')
    """
    folder, _, name = path.rpartition("/")
    root, slash, last = folder.rpartition("/")
    if last == _FOLDER and (slash or not root):
        return root or ("/" if slash else "."), f"{_FOLDER}/{name}"
    return folder or ("/" if path.startswith("/") else "."), name


def has_metadata(storage: Storage) -> bool:
    """Whether there is a metadata file of a table at the root."""
    return any(is_metadata_path(entry.path) for entry in storage.list(_FOLDER))


def find_metadata(storage: Storage) -> str | None:
    """The newest metadata file of the table at the root, by its version hint or else by its number.

    `None` if there is none. A hint that names a missing file is ignored.
    """
    hinted = storage.prefetch(lambda: _read_hint(storage))
    modified = {posixpath.basename(entry.path): entry.modified for entry in storage.list(_FOLDER)}
    names = {name for name in modified if is_metadata_path(name)}
    if not names:
        return None
    hint = hinted() if posixpath.basename(_HINT) in modified else None
    chosen = _hinted(hint, names) if hint else None
    if chosen is None:
        # A commit that lost a race can leave a second file of the same number behind.
        times = {name: time.timestamp() if time else 0.0 for name, time in modified.items()}
        chosen = max(names, key=lambda name: (_version(name), times[name], name))
    return f"{_FOLDER}/{chosen}"


def _read_hint(storage: Storage) -> str | None:
    try:
        hint = storage.read_range(_HINT, 0, _LONGEST_HINT)
    except StorageError:
        return None
    return hint.decode("utf-8", "replace").strip() or None


def _hinted(hint: str, names: set[str]) -> str | None:
    if not hint.isdigit() or len(hint) > 18:
        return next((name for name in (hint, *(f"{hint}{ending}" for ending in _ENDINGS)) if name in names), None)
    # The hint is written after the file, if at all: Iceberg for Java searches on from it to the last version.
    newest, version = None, int(hint)
    while following := next((name for ending in _ENDINGS if (name := f"v{version}{ending}") in names), None):
        newest, version = following, version + 1
    return newest


def _version(name: str) -> int:
    match = _NAME.fullmatch(name)
    return -1 if match is None else int(match.group(1) or match.group(2))


def require_metadata(storage: Storage) -> str:
    """The same as `find_metadata`, with an error where there is none."""
    path = find_metadata(storage)
    if path is None:
        raise NotATableError(
            "not an Iceberg table: there is no metadata file in the folder 'metadata'",
            where=storage.location,
            remedy="give the root of a table or one of its .metadata.json files",
        )
    return path
