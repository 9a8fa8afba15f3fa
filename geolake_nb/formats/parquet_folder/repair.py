"""Which footers of a set of Parquet files are repaired: geo types, the `geo` property, boxes; pages are kept."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import column_option, geo_encoding, known_geo_type
from geolake_nb.errors import ConflictError, RefusedError, SchemaError
from geolake_nb.formats.detect import require_no_owner
from geolake_nb.formats.parquet_folder.commit import pending_change
from geolake_nb.formats.parquet_folder.file_changes import FileState
from geolake_nb.formats.parquet_folder.footer_repair import ColumnRepair, FooterRepair, footer_action
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType, PrimitiveType
from geolake_nb.parquet.footer import parse_footer, read_footers
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.value_scan import ScanColumn
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.formats.parquet_folder.snapshot import ParquetDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType, GeoType
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.scan.value_scan import GroupStats
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["FooterScanJob", "file_repairs", "finish_repair", "plan_repair", "require_iso", "with_states"]


@dataclass(frozen=True, slots=True, eq=False)
class FooterScanJob:
    """The files whose geo columns have to be read before their footers can be repaired."""

    files: tuple[FooterRepair, ...]

    def to_dict(self) -> dict[str, Any]:
        """`scan`: for each file its path, the digest of its footer and the columns that are read with their types."""
        return {
            "scan": [
                {
                    "path": file.state.path,
                    "footer": file.state.footer,
                    "columns": {column.path: type_name(column.type) for column in file.columns if column.scan},
                }
                for file in self.files
            ]
        }


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | Mapping[str, GeoType] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
) -> Change:
    """Repair footers with a missing or wrong geo type, GeoParquet metadata or boxes.

    `columns` names the columns to repair, or declares the types of WKB columns without metadata. With `verify` every
    value is read and compared with its box. Without either, a set in which nothing is wrong stays unchanged:
    GeoParquet files need no Parquet geo type.
    """
    require_no_owner(storage)
    pending = pending_change(storage, snapshot, Verb.REPAIR)
    if pending is not None:
        return pending
    given_types = dict(columns) if isinstance(columns, Mapping) else {}
    if not given_types:
        _refuse_unknown(snapshot)
    chosen = _chosen(snapshot, columns, given_types)
    nothing = Change(
        Verb.REPAIR,
        snapshot.format,
        snapshot.location,
        None,
        engines=engine_facts(snapshot),
        parameters={"columns": json.dumps({path: _type_text(type_) for path, type_ in chosen.items()}),
                    "verify": json.dumps(verify)},
    )  # fmt: skip
    problems = _Problems()
    repairs = _repairs(snapshot, chosen, problems, verify=verify)
    if columns is None and not verify and all(column.sound for repair in repairs for column in repair.columns):
        return replace(nothing, notes=_optional_additions(repairs) or problems.sentences())
    repairs = with_states(storage, snapshot, repairs, on_progress)
    files = tuple(repair for repair in repairs if any(column.scan for column in repair.columns))
    known = [repair for repair in repairs if not any(column.scan for column in repair.columns)]
    actions = [text for repair in known if (text := footer_action(repair, {})) is not None]
    job = FooterScanJob(files) if files else None
    if not actions and job is None:
        return replace(nothing, notes=problems.sentences())
    return replace(
        nothing,
        actions=actions,
        job=job,
        notes=(*problems.sentences(), *_cost(repairs, verify=verify)),
        reads=Reads(len(repairs), sum(repair.state.bytes for repair in repairs)),
        undo="geolake undo restores the old footers",
        metrics={"files_repaired": len(actions)},
    )


def finish_repair(change: Change, job: FooterScanJob, scanned_stats: Mapping[int, list[list[GroupStats]]]) -> Change:
    """The change with the results of the scan: for each file, by its index in the job, each column's row groups."""
    actions = list(change.actions)
    values = 0
    plain = _columns_left_plain(job, scanned_stats)
    for index, file in enumerate(job.files):
        scanned = [column for column in file.columns if column.scan]
        groups = {column.path: stats for column, stats in zip(scanned, scanned_stats[index], strict=True)}
        types = {column.path: type_name(column.type) for column in scanned}
        for path, some in groups.items():
            require_iso(change.location, file.state.path, path, types[path], some)
            values += sum(group.stats.bad + group.stats.unbounded for group in some)
        text = footer_action(file, groups, plain=plain)
        if text is not None:
            actions.append(text)
    metrics = {
        **change.metrics,
        "files_repaired": len(actions),
        "files_scanned": len(job.files),
        "values_without_bound": values,
    }
    for path, why in plain.items():
        what = f"{path} stays plain binary: {why}, and engines that read geo types fail on it"
        warnings.warn(what, BadValueWarning, stacklevel=2)
    return replace(change, job=None, actions=actions, metrics=metrics)


def require_iso(
    location: str,
    file: str,
    column: str,
    type_text: str,
    groups: Sequence[GroupStats],
    *,
    remedy: str | None = None,
) -> None:
    """Raise for values that are EWKB; the remedy is a rewrite of a set of Parquet files, or the given one."""
    if not all(group.is_iso for group in groups):
        word = shlex.quote(f"{column}={type_text}")
        raise RefusedError(
            "values are EWKB, and Parquet's geo types hold ISO WKB: their pages have to be rewritten",
            where=f"{location}, {file}, column {column}",
            remedy=remedy or f"run geolake rewrite {shlex.quote(location)} --column {word}, which does that",
        )


def file_repairs(snapshot: Snapshot, types: Mapping[str, GeoType | None]) -> tuple[list[FooterRepair], tuple[str, ...]]:
    """The repairs of all footers that lack something of these columns, and what they lack; `None` is a declared type.

    The states of the files are not read yet.
    """
    problems = _Problems()
    return _repairs(snapshot, types, problems, verify=False), problems.sentences()


def _repairs(
    snapshot: Snapshot, chosen: Mapping[str, GeoType | None], problems: _Problems, *, verify: bool
) -> list[FooterRepair]:
    repairs = (
        _repair(snapshot, index, view, chosen, problems, verify=verify)
        for index, view in enumerate(snapshot.details.views)
    )
    return [repair for repair in repairs if repair is not None]


def _columns_left_plain(job: FooterScanJob, scanned_stats: Mapping[int, list[list[GroupStats]]]) -> dict[str, str]:
    """The columns that get no geo type in any file, each with the reason.

    Spark reads plain bytes as they are, but fails on a whole file with a geo type for one value that it cannot parse.
    A column with a geo type in some files and plain in others fails as well.
    """
    plain: dict[str, str] = {}
    for index, file in enumerate(job.files):
        scanned = [wanted for wanted in file.columns if wanted.scan]
        for column, groups in zip(scanned, scanned_stats[index], strict=True):
            bad = sum(group.stats.bad for group in groups)
            if column.type_wrong and bad:
                plain.setdefault(column.path, f"{file.state.path} has {plural(bad, 'value')} that cannot be read")
    return plain


def _optional_additions(repairs: Sequence[FooterRepair]) -> tuple[str, ...]:
    """What could be added to correct footers, and how to request it."""
    paths = dict.fromkeys(column.path for repair in repairs for column in repair.columns if column.needed)
    return tuple(
        f"Nothing is wrong with {path}. To add a missing Parquet geo type, row-group boxes or GeoParquet metadata,"
        f" name the column: --column {path}, in Python columns=[{path!r}]."
        for path in paths
    )


@dataclass(slots=True)
class _Problems:
    """What is missing or wrong in the files, by column."""

    types: dict[str, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    boxes: dict[str, int] = field(default_factory=dict)
    untyped: dict[str, int] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    def sentences(self) -> tuple[str, ...]:
        sentences: list[str] = []
        for path in dict.fromkeys([*self.types, *self.properties, *self.boxes]):
            parts = [
                f"{what} in {plural(counts[path], 'file')}"
                for counts, what in (
                    (self.types, "the geo type"),
                    (self.properties, "the GeoParquet metadata"),
                    (self.boxes, "boxes of row groups"),
                )
                if counts.get(path)
            ]
            sentences.append(f"{path}: {', '.join(parts)} missing or wrong.")
        for path, count in self.untyped.items():
            sentences.append(f"{path}: {count:,} files do not declare its type; declare it with {column_option(path)}.")
        sentences += [f"{path} {why}." for path, why in self.others.items()]
        return tuple(sentences) or ("No footer is incomplete or known to be wrong.",)


def _refuse_unknown(snapshot: Snapshot) -> None:
    """Raise for GeoParquet metadata with an unknown version, encoding or edges: a repair would overwrite them."""
    details: ParquetDetails = snapshot.details
    for index, view in enumerate(details.views):
        if view.geo_problem is not None and ": unknown " in view.geo_problem:
            raise RefusedError(
                f"the GeoParquet metadata is not usable: {view.geo_problem}",
                where=f"{snapshot.location}, {snapshot.files.table['path'][index].as_py()}",
                remedy=f"declare the type of the column with {column_option('NAME')}",
            )


def _type_text(type_: GeoType | None) -> str | None:
    return None if type_ is None else type_name(type_)


def _chosen(
    snapshot: Snapshot, columns: Sequence[str] | Mapping[str, GeoType] | None, given_types: Mapping[str, GeoType]
) -> dict[str, GeoType | None]:
    """The columns to check, with their types where the user declared them."""
    geo = {
        path: field.type
        for path, field in snapshot.schema.geo_columns()
        if isinstance(field.type, GeometryType | GeographyType)
    }
    if columns is None:
        return dict.fromkeys(geo)
    chosen: dict[str, GeoType | None] = {}
    for name in columns:
        spelled = _spelled(snapshot, name)
        stored = snapshot.schema.find(name).type
        type_ = given_types.get(name)
        where = f"{snapshot.location}, column {spelled}"
        if type_ is None and spelled not in geo:
            raise SchemaError(
                f"the column is of type {type_name(stored)} and its contents are not declared",
                where=where,
                remedy=f"declare it with {column_option(spelled)}",
            )
        if (
            type_ is not None
            and spelled not in geo
            and geo_encoding(type_, stored, where=where) is GeometryEncoding.WKT
        ):
            raise RefusedError("the column holds text, and Parquet's geo types hold WKB", where=where,
                               remedy="run geolake rewrite or convert, which convert it to WKB")  # fmt: skip
        chosen[spelled] = type_
    return chosen


def _spelled(snapshot: Snapshot, name: str) -> str:
    parts = split_path(name)
    return join_path(tuple(snapshot.schema.find(join_path(parts[: depth + 1])).name for depth in range(len(parts))))


def _repair(
    snapshot: Snapshot,
    index: int,
    view: FileView,
    chosen: Mapping[str, GeoType | None],
    problems: _Problems,
    *,
    verify: bool,
) -> FooterRepair | None:
    """The repair of one file, `None` if it needs none."""
    path = snapshot.files.table["path"][index].as_py()
    properties: dict[str, str] = {}
    columns: list[ColumnRepair] = []
    for name, given in chosen.items():
        parts = split_path(name)
        field = view.find(parts)
        if field is None:
            continue
        own = field.type if isinstance(field.type, GeometryType | GeographyType) else None
        type_ = given or own
        if type_ is None:
            problems.untyped[name] = problems.untyped.get(name, 0) + 1
            continue
        if not _is_wkb(field.type):
            problems.others[name] = "is not stored as WKB: only a rewrite can give it a geo type"
            continue
        typed = isinstance(view.parquet_fields[parts].type, GeometryType | GeographyType)
        if given is None and typed:
            made = type_  # with its CRS as it is
        else:
            made = known_geo_type(type_, name, properties, where=f"{snapshot.location}, {path}")
        scan = ScanColumn(name, parts, None, made)
        columns.append(ColumnRepair.of(view, scan, field, verify=verify))
    if not any(column.needed for column in columns):
        return None
    for column in columns:
        for wrong, counts in ((column.type_wrong, problems.types), (column.property_wrong, problems.properties),
                              (column.boxes_wrong, problems.boxes)):  # fmt: skip
            if wrong:
                counts[column.path] = counts.get(column.path, 0) + 1
    size = snapshot.files.table["bytes"][index].as_py()
    return FooterRepair(FileState(path, size, ""), index, view, tuple(columns), properties)


def _is_wkb(type_: DataType) -> bool:
    if isinstance(type_, GeometryType | GeographyType):
        return type_.encoding is GeometryEncoding.WKB
    return type_ == PrimitiveType("binary")


def with_states(
    storage: Storage, snapshot: Snapshot, repairs: list[FooterRepair], on_progress: Progress | None
) -> list[FooterRepair]:
    """The repairs with the current state of each file; a file that changed since it was opened is a conflict."""
    details: ParquetDetails = snapshot.details
    done: list[FooterRepair] = []
    footers = read_footers(storage, [repair.state.path for repair in repairs])
    for repair, footer in zip(repairs, footers, strict=True):
        where = f"{storage.location}/{repair.state.path}"
        state = FileState.of(storage, repair.state.path, footer)
        if state.bytes != repair.state.bytes or not parse_footer(footer, where=where).equals(
            details.views[repair.index].metadata
        ):
            raise ConflictError("the file was changed since the table was opened", where=where, remedy="open it again")
        done.append(replace(repair, state=state))
        if on_progress is not None:
            on_progress(len(done), len(repairs))
    return done


def _cost(repairs: Sequence[FooterRepair], *, verify: bool) -> list[str]:
    copied = sum(repair.state.bytes for repair in repairs)
    kept = sum(repair.view.metadata.serialized_size for repair in repairs)
    scanned = [repair for repair in repairs if any(column.scan for column in repair.columns)]
    notes = [
        f"{plural(len(repairs), 'footer')} replaced: the pages ({bytes_text(copied)}) are copied unchanged, and"
        f" the old footers ({bytes_text(kept)}) are kept in _geolake for undo."
    ]
    if any(column.type_wrong for repair in scanned for column in repair.columns):
        notes.append(
            "A column with a value that cannot be read stays plain binary: with a geo type, engines fail on it."
        )
    if scanned:
        read = sum(column.bytes for repair in scanned for column in repair.columns if column.scan)
        why = "Every value is read and compared with its box" if verify else "The values are read for the boxes"
        notes.append(f"{why}: {bytes_text(read)} in {plural(len(scanned), 'file')}.")
    return notes
