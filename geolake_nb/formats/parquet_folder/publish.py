"""What a set of Parquet files has to become a table where it lies: the same for every format of the table.

Each file becomes an entry of the table: its partition values, the statistics of its columns, and its size after its
footer is repaired. Statistics come from footers as far as they can be trusted, boxes else from the values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.changes.column_types import with_types
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_owner
from geolake_nb.formats.parquet_folder.commit import require_folder, single_file
from geolake_nb.formats.parquet_folder.file_changes import FooterChange
from geolake_nb.formats.parquet_folder.footer_repair import footer_action
from geolake_nb.formats.parquet_folder.repair import file_repairs, require_iso, with_states
from geolake_nb.formats.parquet_folder.write import partial_folders, require_one_type
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.statistics import ColumnStats, merge
from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType, PrimitiveType, to_delta_text
from geolake_nb.parquet.column_ranges import FLOATS, ColumnRange, footer_scalars
from geolake_nb.parquet.footer import read_footer
from geolake_nb.parquet.footer_boxes import is_own_writer, locate, without_column
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.value_scan import ScanColumn
from geolake_nb.storage.hive_paths import is_hidden, partition_text
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from geolake_nb.changes.column_types import GeoColumns
    from geolake_nb.formats.parquet_folder.footer_repair import FooterRepair
    from geolake_nb.formats.parquet_folder.snapshot import ParquetDetails
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import EngineFact, TableFormat
    from geolake_nb.model.types import DataType, GeoType
    from geolake_nb.scan.value_scan import GroupStats
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    Entry = Callable[["PublishedFile", int, Mapping[str, ColumnStats]], str]
    """The entry of a file in the table, from its size and the statistics of its geo columns."""

__all__ = [
    "PublishJob",
    "PublishedFile",
    "declares_types",
    "finish_publish",
    "publish_change",
    "published_files",
    "reconciled",
    "require_publishable",
    "require_readable",
]


@dataclass(frozen=True, slots=True, eq=False)
class PublishedFile:
    """A file as it becomes one of a table."""

    index: int
    """Its row in the file table of the set."""
    path: str
    bytes: int
    """Before its footer is repaired."""
    rows: int
    modified: int
    """Milliseconds since 1970."""
    partition: Mapping[str, str | None]
    scalars: Mapping[tuple[str, ...], ColumnRange]
    geo: Mapping[str, ColumnStats]
    """The geo columns of which the footer states enough, by path."""
    scanned: tuple[ScanColumn, ...] = ()
    """The geo columns whose values have to be read."""
    repair: FooterRepair | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PublishJob:
    """The files whose geo columns have to be read before they can become files of a table."""

    files: tuple[PublishedFile, ...]
    entry: Entry = field(repr=False)
    remedy: str | None = None
    """What to do where values are EWKB; by default the rewrite of a set of files."""

    @property
    def units(self) -> list[tuple[int, str, list[ScanColumn]]]:
        """For each file its index, its path, and the columns that are read."""
        return [(index, file.path, list(file.scanned)) for index, file in enumerate(self.files)]

    def to_dict(self) -> dict[str, Any]:
        """`scan`: for each file its path and size, whether its footer changes, and the columns that are read."""
        return {
            "scan": [
                {
                    "path": file.path,
                    "bytes": file.bytes,
                    "footer": None if file.repair is None else file.repair.state.footer,
                    "columns": {column.path: type_name(column.type) for column in file.scanned},
                }
                for file in self.files
            ]
        }


def reconciled(
    snapshot: Snapshot, promoted: Callable[[DataType, DataType], DataType | None]
) -> tuple[Snapshot, list[str]]:
    """The set with wider types for columns whose files differ, where `promoted` has one for them all; a note on each.

    Columns for which there is none keep the type of the first file, and their problem.
    """
    details: ParquetDetails = snapshot.details
    doubtful = {problem.column for problem in details.problems if problem.blocks and problem.column is not None}
    wider: dict[tuple[str, ...], DataType] = {}
    notes: list[str] = []
    for name in sorted(doubtful):
        views = {id(view.index): view for view in details.views}.values()
        stored = [field.type for view in views if (field := view.find((name,))) is not None]
        if any(isinstance(type_, GeometryType | GeographyType) for type_ in stored):
            continue
        type_: DataType | None = stored[0]
        for other in stored[1:]:
            type_ = None if type_ is None else promoted(type_, other)
        if type_ is not None:
            wider[(name,)] = type_
            names = ", ".join(sorted({type_name(some) for some in stored}))
            notes.append(f"The column {name!r} is {names} in files, and becomes {type_name(type_)}.")
    kept = tuple(problem for problem in details.problems if (problem.column,) not in wider)
    changed = replace(snapshot, schema=with_types(snapshot.schema, wider), details=replace(details, problems=kept))
    return changed, notes


def require_publishable(snapshot: Snapshot, columns: Mapping[str, GeoType]) -> None:
    """Raise where the files cannot be those of one table as they are."""
    storage: Storage = snapshot.details.storage
    require_no_owner(storage)
    require_folder(snapshot, "publishing in place")
    if single_file(snapshot) is not None or snapshot.location != storage.location:
        raise RefusedError("expected a folder, got a single file", where=snapshot.location,
                           remedy="move it into a folder, or run geolake convert")  # fmt: skip
    for entry in storage.list(recursive=True):
        parts = entry.path.split("/")
        if "_delta_log" in parts or (len(parts) > 2 and parts[-2] == "metadata" and ".metadata.json" in parts[-1]):
            inner = entry.path.rpartition("/")[0].rpartition("/")[0]
            raise RefusedError(f"the folder {inner!r} is a table of its own", where=snapshot.location,
                               remedy="publish folders without tables")  # fmt: skip
    require_one_type(snapshot, columns)
    for name in snapshot.partition_columns:
        _require_same_value(snapshot, name)


def _require_same_value(snapshot: Snapshot, name: str) -> None:
    """Raise where a partition column is in a file too, unless its footer shows the value of the folder alone."""
    details: ParquetDetails = snapshot.details
    inside = [view.find((name,)) is not None for view in details.views]
    if not any(inside):
        return
    stored = footer_scalars(details.views, (name,), snapshot.schema.find(name).type)
    folders = snapshot.files.table[f"partition.{name}"].to_pylist()
    ends: list[list[Any]] = [[None] * len(folders)] * 3
    if stored is not None and stored.null_count is not None:
        ends = [_plain(stored.minimum), _plain(stored.maximum), stored.null_count.to_pylist()]
    for index, value in enumerate(folders):
        if inside[index] and (ends[0][index], ends[1][index], ends[2][index]) != (value, value, 0):
            path = snapshot.files.table["path"][index].as_py()
            raise RefusedError(
                f"the file has a column {name!r} too, which may not have the value of its folder, {value!r}",
                where=f"{snapshot.location}, {path}",
                remedy="run geolake convert, which copies the rows",
            )


def require_readable(schema: Schema, copied: tuple[str, ...], *, format_name: str, where: str) -> None:
    """Raise for a type whose values readers of the format do not read in files, by the beginnings of their names."""
    for path, column in schema.walk_parts():
        if isinstance(column.type, PrimitiveType) and column.type.name.startswith(copied):
            raise SchemaError(
                f"the column {join_path(path)!r} is {type_name(column.type)}, which {format_name} readers do not read"
                " in files",
                where=where,
                remedy="run geolake convert, which copies the rows with another type",
            )


def published_files(
    snapshot: Snapshot,
    geo: GeoColumns,
    *,
    declared: Collection[str],
    measured: Collection[tuple[str, ...]],
    leave_files: bool,
    on_progress: Progress | None = None,
) -> tuple[list[PublishedFile], tuple[str, ...]]:
    """The files with what their footers state, and what is missing in those.

    `declared` are the columns whose types the user gave, `measured` those with statistics.
    """
    details: ParquetDetails = snapshot.details
    storage: Storage = details.storage
    types = {path: input_.type for path, input_ in geo.inputs.items()}
    for path, input_ in geo.inputs.items():
        if input_.encoding is not GeometryEncoding.WKB:
            raise RefusedError(
                f"the column holds {input_.encoding.name} values, and tables hold WKB",
                where=f"{snapshot.location}, column {path}",
                remedy="run geolake convert, which copies the rows",
            )
    wanted = {path: type_ if path in declared else None for path, type_ in types.items()}
    repairs, lacking = file_repairs(snapshot, wanted)
    if not leave_files:
        repairs = with_states(storage, snapshot, repairs, on_progress)
    repair_of = {repair.index: repair for repair in repairs}
    scalars = list(_scalars(snapshot, [path for path in measured if ".".join(path) not in types]))
    table = snapshot.files.table
    paths, sizes, rows = (table[name].to_pylist() for name in ("path", "bytes", "rows"))
    modified = table["modified"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    partitions = {
        name: [partition_text(value) for value in table[f"partition.{name}"]] for name in snapshot.partition_columns
    }
    files: list[PublishedFile] = []
    for index, path in enumerate(paths):
        repair = repair_of.get(index)
        if leave_files and repair is not None:
            _require_own_types(snapshot, repair)
            repair = None  # its boxes may be missing in row groups alone
        stated, scanned = _geo_columns(snapshot, index, types, repair)
        files.append(
            PublishedFile(
                index,
                path,
                sizes[index],
                rows[index],
                modified[index] or 0,
                {name: texts[index] for name, texts in partitions.items()},
                {column: known for column, ranges in scalars if (known := ranges[index]) is not None},
                stated,
                scanned,
                repair,
            )
        )
    return files, lacking if repairs else ()


def _require_own_types(snapshot: Snapshot, repair: FooterRepair) -> None:
    """Raise where a file declares another geo type than the table will have."""
    for column in repair.columns:
        own = repair.view.parquet_fields[column.column.physical].type
        if column.type_wrong and isinstance(own, GeometryType | GeographyType):
            path = snapshot.files.table["path"][repair.index].as_py()
            raise SchemaError(
                f"the file has {type_name(own)}, not {type_name(column.type)}",
                where=f"{snapshot.location}, {path}, column {column.path}",
                remedy="leave out --leave-files, which corrects it in the footer",
            )


def _geo_columns(
    snapshot: Snapshot, index: int, types: Mapping[str, GeoType], repair: FooterRepair | None
) -> tuple[dict[str, ColumnStats], tuple[ScanColumn, ...]]:
    """What the footer states of each geo column, and the columns whose values have to be read."""
    view = snapshot.details.views[index]
    read = {column.path for column in repair.columns if column.boxes_wrong} if repair is not None else set()
    known: dict[str, ColumnStats] = {}
    scanned: list[ScanColumn] = []
    for path, type_ in types.items():
        parts = split_path(path)
        here = locate(view, view.find(parts), type_)
        rows = view.metadata.num_rows
        stated = without_column(rows, lacks=view.lacks(parts)) if here is None else here.whole()
        whole = stated.null_count is not None and (stated.box is not None or stated.null_count == rows)
        if here is None and not whole:
            where = f"{snapshot.location}, {snapshot.files.table['path'][index].as_py()}"
            raise SchemaError(f"the column {path!r} is not found in the file", where=where, remedy="rename it")
        if whole and path not in read:
            known[path] = ColumnStats(stated.box, stated.types, rows, stated.null_count or 0, 0)
        else:
            scanned.append(ScanColumn(path, parts, None, type_))
    return known, tuple(scanned)


def _scalars(
    snapshot: Snapshot, paths: Sequence[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[ColumnRange | None]]]:
    """The ranges of each column in each file, `None` where its footer does not tell how many values are null."""
    views = snapshot.details.views
    own = [is_own_writer(view.metadata.created_by) for view in views]
    types = {path: column.type for path, column in snapshot.schema.walk_parts()}
    for path in paths:
        known: list[ColumnRange | None] = [None] * len(views)
        # A column that is wider in the table has its statistics in the type of each file.
        stored = {field.type for view in views if (field := view.find(path)) is not None} or {types[path]}
        for type_ in stored:
            column = footer_scalars(views, path, type_)
            if column is None or column.null_count is None:
                continue
            lows, highs = _plain(column.minimum), _plain(column.maximum)
            if type_ in FLOATS:
                # Other writers leave NaN out, which is greater than any number.
                highs = [high if ours else None for high, ours in zip(highs, own, strict=True)]
            for index, nulls in enumerate(column.null_count.to_pylist()):
                if nulls is not None:
                    known[index] = ColumnRange(lows[index], highs[index], nulls, views[index].metadata.num_rows)
        yield path, known


def _plain(values: pa.Array) -> list[Any]:
    """Python values, `None` for a year beyond Python's range."""
    try:
        return values.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return [_plain_one(value) for value in values]


def _plain_one(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None


def publish_change(
    snapshot: Snapshot,
    format_: TableFormat,
    geo: GeoColumns,
    files: Sequence[PublishedFile],
    lacking: Sequence[str],
    *,
    first: Sequence[str],
    entry: Entry,
    sentences: Iterable[str],
    notes: Iterable[str],
    surplus: str,
    made: str,
    leave_files: bool,
    engines: tuple[EngineFact, ...],
) -> Change:
    """The change that makes a table of these files; `first` are its actions before those of the files.

    `sentences` are about columns that change their type, `surplus` says what happens to other files of the folder, and
    `made` names what undo removes.
    """
    storage: Storage = snapshot.details.storage
    scanned = tuple(file for file in files if file.scanned)
    known = [text for file in files if not file.scanned for text in entry_actions(storage, file, {}, entry)]
    article = "an" if format_.title[0] in "AEIOU" else "a"
    return Change(
        Verb.PUBLISH,
        format_,
        snapshot.location,
        None,
        actions=[*first, *known],
        job=PublishJob(scanned, entry) if scanned else None,
        notes=(
            f"{plural(len(files), 'file')} with {sum(file.rows for file in files):,} rows become {article}"
            f" {format_.title} table where they lie: no page is rewritten.",
            *(f"The column {path!r} becomes a {type_name(input_.type)}." for path, input_ in geo.inputs.items()),
            *(f"The column {sentence}." for sentence in sentences),
            *partial_folders(snapshot),
            *_footer_notes(files, lacking, leave_files=leave_files, format_name=format_.title),
            *notes,
            *_surplus_notes(snapshot, surplus),
        ),
        reads=Reads(len(scanned), sum(file.bytes for file in scanned)),
        undo=f"geolake undo removes the {made} and restores the footers, while the table has no other version",
        engines=engines,
        parameters={
            "partitionBy": json.dumps(list(snapshot.partition_columns)),
            "columns": json.dumps({path: to_delta_text(input_.type) for path, input_ in geo.inputs.items()}),
            "leaveFiles": json.dumps(leave_files),
        },
        metrics={
            "files_published": len(files),
            "footers_repaired": sum(text.startswith('{"footer"') for text in known),
        },
        tolerates_appends=False,
    )


def declares_types(snapshot: Snapshot, geo: GeoColumns) -> bool:
    """Whether every file has the geo types of Parquet for the geo columns that it has."""
    details: ParquetDetails = snapshot.details
    fields = [view.parquet_fields.get(path) for view in details.views for path in geo.paths]
    return all(field is None or isinstance(field.type, GeometryType | GeographyType) for field in fields)


def _footer_notes(
    files: Sequence[PublishedFile], lacking: Sequence[str], *, leave_files: bool, format_name: str
) -> list[str]:
    """What is missing in footers, what becomes of that, and what is read."""
    scanned = [file for file in files if file.scanned]
    notes: list[str] = []
    if leave_files:
        notes.append("The files stay as they are.")
        notes += [
            f"{sentence.rstrip('.')}: {format_name} requires the geo type in files, and engines skip no row groups"
            " without boxes."
            for sentence in lacking
        ]
    else:
        notes += lacking
        repaired = [file for file in files if file.repair is not None]
        if repaired:
            copied = sum(file.bytes for file in repaired)
            notes.append(
                f"{plural(len(repaired), 'footer')} replaced: the pages ({bytes_text(copied)}) are copied unchanged,"
                " and the old footers are kept in _geolake for undo."
            )
    if scanned:
        notes.append(f"The values of geo columns are read for bounds in {plural(len(scanned), 'file')}.")
    return notes


def _surplus_notes(snapshot: Snapshot, fate: str) -> list[str]:
    """How many files in the folder are not files of the table, and what happens to them."""
    storage: Storage = snapshot.details.storage
    listed = [entry.path for entry in storage.list(recursive=True) if not is_hidden(entry.path) and entry.bytes >= 0]
    count = len(set(listed) - set(snapshot.files.table["path"].to_pylist()))
    return [f"{plural(count, 'other file')} in the folder: {fate}."] if count else []


def entry_actions(
    storage: Storage, file: PublishedFile, groups: Mapping[str, list[GroupStats]], entry: Entry
) -> list[str]:
    """The action that repairs the footer of a file, if that is needed, and its entry in the table."""
    scanned = {column.path: column for column in file.scanned}
    geo = dict(file.geo)
    for path, parts in groups.items():
        geo[path] = merge([part.stats for part in parts], type=scanned[path].type)
    text = None if file.repair is None else footer_action(file.repair, groups)
    if text is None:
        return [entry(file, file.bytes, geo)]
    old = read_footer(storage, file.path)
    new = FooterChange.from_dict(json.loads(text)["footer"]).edited(old)
    return [text, entry(file, file.bytes - len(old) + len(new), geo)]


def finish_publish(
    change: Change, job: PublishJob, storage: Storage, scanned_stats: Mapping[int, list[list[GroupStats]]]
) -> Change:
    """The change with the results of the scan: for each file, by its index in the job, each column's row groups."""
    actions = list(change.actions)
    unbounded = 0
    for index, file in enumerate(job.files):
        groups = {column.path: stats for column, stats in zip(file.scanned, scanned_stats[index], strict=True)}
        for column in file.scanned:
            some = groups[column.path]
            require_iso(change.location, file.path, column.path, type_name(column.type), some, remedy=job.remedy)
            bad = sum(group.stats.bad for group in some)
            if bad:
                raise RefusedError(
                    f"{plural(bad, 'value')} cannot be read: engines fail on the whole file",
                    where=f"{change.location}, {file.path}, column {column.path}",
                    remedy="correct or remove them",
                )
            unbounded += sum(group.stats.unbounded for group in some)
        actions += entry_actions(storage, file, groups, job.entry)
    metrics = {**change.metrics, "files_scanned": len(job.files), "values_without_bound": unbounded,
               "footers_repaired": sum(text.startswith('{"footer"') for text in actions)}  # fmt: skip
    return replace(change, job=None, actions=actions, metrics=metrics)
