"""Which footers of a set of Parquet files are mended: geo types, the `geo` property, boxes; pages stay as they are."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.bounds import BadValueWarning
from geolake_nb.core.message_text import plural
from geolake_nb.core.schema import join_path, split_path, type_name
from geolake_nb.core.types import GeographyType, GeometryEncoding, GeometryType, PrimitiveType
from geolake_nb.errors import ConflictError, RefusedError, SchemaError
from geolake_nb.formats.parquet.footer import parse_footer
from geolake_nb.formats.parquet.footer_change import FileState
from geolake_nb.formats.parquet.value_scan import ScanColumn
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.parquet.footer_mending import ColumnMend, FileMend, footer_action
from geolake_nb.planning.parquet.sets import pending_change
from geolake_nb.planning.scan.explanation_text import bytes_text
from geolake_nb.planning.writing.column_types import known_geo_type
from geolake_nb.planning.writing.geo_columns import geo_encoding, said_column
from geolake_nb.planning.writing.place import require_no_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from geolake_nb.core.types import DataType
    from geolake_nb.formats.parquet.files import ParquetDetails
    from geolake_nb.formats.parquet.footer_view import FileView
    from geolake_nb.formats.parquet.value_scan import GroupStats
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

    GeoType = GeometryType | GeographyType
    Progress = Callable[[int, int], None]

__all__ = ["FooterScanJob", "finish_mending", "plan_repair"]


@dataclass(frozen=True, slots=True, eq=False)
class FooterScanJob:
    """The files whose geo columns have to be read before their footers can be mended."""

    files: tuple[FileMend, ...]

    def to_dict(self) -> dict[str, Any]:
        """`scan`: for each file its path, the digest of its footer and the columns that are read with their types."""
        return {
            "scan": [
                {
                    "path": file.state.path,
                    "footer": file.state.footer,
                    "columns": {one.path: type_name(one.type) for one in file.columns if one.scan},
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
    """Footers that lack or misstate what a geo column is and where its values lie.

    `columns` names the columns to mend, or says with types what columns of WKB hold that no metadata tells of. With
    `verify` every value is read and compared with its box.
    """
    require_no_owner(storage)
    pending = pending_change(storage, snapshot, Verb.REPAIR)
    if pending is not None:
        return pending
    asked = dict(columns) if isinstance(columns, Mapping) else {}
    if not asked:
        _refuse_unknown(snapshot)
    chosen = _chosen(snapshot, columns, asked)
    nothing = Change(
        Verb.REPAIR,
        snapshot.format,
        snapshot.location,
        None,
        engines=engine_facts(snapshot),
        parameters={"columns": json.dumps({path: _told(type_) for path, type_ in chosen.items()}),
                    "verify": json.dumps(verify)},
    )  # fmt: skip
    found = _Looked()
    mends = [
        mend
        for place, view in enumerate(snapshot.details.views)
        if (mend := _mend(snapshot, place, view, chosen, found, verify=verify)) is not None
    ]
    mends = _with_states(storage, snapshot, mends, on_progress)
    files = tuple(mend for mend in mends if any(one.scan for one in mend.columns))
    known = [mend for mend in mends if not any(one.scan for one in mend.columns)]
    actions = [text for mend in known if (text := footer_action(mend, {})) is not None]
    job = FooterScanJob(files) if files else None
    if not actions and job is None:
        return replace(nothing, says=found.sentences())
    return replace(
        nothing,
        actions=actions,
        job=job,
        says=(*found.sentences(), *_cost(mends, verify=verify)),
        reads=Reads(len(mends), sum(mend.state.bytes for mend in mends)),
        undo="geolake undo puts the old footers back",
        metrics={"files_mended": len(actions)},
    )


def finish_mending(change: Change, job: FooterScanJob, found: Mapping[int, list[list[GroupStats]]]) -> Change:
    """The change with what the scan found: for each file, by its place in the job, each column's row groups."""
    actions = list(change.actions)
    values = 0
    plain = _columns_left_plain(job, found)
    for place, file in enumerate(job.files):
        scanned = [one for one in file.columns if one.scan]
        groups = {one.path: stats for one, stats in zip(scanned, found[place], strict=True)}
        for path, some in groups.items():
            if not all(one.is_iso for one in some):
                raise RefusedError(
                    "values are EWKB, and Parquet's geo types hold ISO WKB: their pages have to be written anew",
                    where=f"{change.location}, {file.state.path}, column {path}",
                    remedy="run geolake rewrite, which does that",
                )
            values += sum(one.stats.bad + one.stats.unbounded for one in some)
        text = footer_action(file, groups, plain=plain)
        if text is not None:
            actions.append(text)
    metrics = {
        **change.metrics,
        "files_mended": len(actions),
        "files_scanned": len(job.files),
        "values_without_bound": values,
    }
    for path, why in plain.items():
        what = f"{path} stays plain bytes: {why}, on which engines that know the geo type fail"
        warnings.warn(what, BadValueWarning, stacklevel=2)
    return replace(change, job=None, actions=actions, metrics=metrics)


def _columns_left_plain(job: FooterScanJob, found: Mapping[int, list[list[GroupStats]]]) -> dict[str, str]:
    """The columns that get no geo type in any file, each with the reason.

    Spark reads bytes as they are and fails on a whole file of a geo type for one value that it cannot parse. A column
    that is of a geo type in some files and plain in others fails as well.
    """
    plain: dict[str, str] = {}
    for place, file in enumerate(job.files):
        scanned = [one for one in file.columns if one.scan]
        for column, groups in zip(scanned, found[place], strict=True):
            bad = sum(group.stats.bad for group in groups)
            if column.type_wrong and bad:
                plain.setdefault(column.path, f"{file.state.path} has {plural(bad, 'value')} that cannot be read")
    return plain


@dataclass(slots=True)
class _Looked:
    """What was seen while the files were looked at."""

    types: dict[str, int] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    boxes: dict[str, int] = field(default_factory=dict)
    untold: dict[str, int] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)

    def sentences(self) -> tuple[str, ...]:
        said: list[str] = []
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
            said.append(f"{path}: {', '.join(parts)} missing or wrong.")
        for path, count in self.untold.items():
            said.append(f"{path}: {count:,} files do not say what it is; say it with {said_column(path)}.")
        said += [f"{path} {why}." for path, why in self.others.items()]
        return tuple(said) or ("No footer lacks anything or is known to be wrong.",)


def _refuse_unknown(snapshot: Snapshot) -> None:
    """Raise for GeoParquet metadata of a version, an encoding or edges that are not known: mending would undo them."""
    details: ParquetDetails = snapshot.details
    for place, view in enumerate(details.views):
        if view.geo_problem is not None and ": unknown " in view.geo_problem:
            raise RefusedError(
                f"the GeoParquet metadata is not usable: {view.geo_problem}",
                where=f"{snapshot.location}, {snapshot.files.table['path'][place].as_py()}",
                remedy=f"say what the column is with {said_column('NAME')}",
            )


def _told(type_: GeoType | None) -> str | None:
    return None if type_ is None else type_name(type_)


def _chosen(
    snapshot: Snapshot, columns: Sequence[str] | Mapping[str, GeoType] | None, asked: Mapping[str, GeoType]
) -> dict[str, GeoType | None]:
    """The columns to look at, with their types where the user has said them."""
    geo = {
        path: one.type
        for path, one in snapshot.schema.geo_columns()
        if isinstance(one.type, GeometryType | GeographyType)
    }
    if columns is None:
        return dict.fromkeys(geo)
    chosen: dict[str, GeoType | None] = {}
    for name in columns:
        spelled = _spelled(snapshot, name)
        held = snapshot.schema.find(name).type
        type_ = asked.get(name)
        where = f"{snapshot.location}, column {spelled}"
        if type_ is None and spelled not in geo:
            raise SchemaError(
                f"the column is of type {type_name(held)} and nothing says what it holds",
                where=where,
                remedy=f"say it with {said_column(spelled)}",
            )
        if type_ is not None and spelled not in geo and geo_encoding(type_, held, where=where) is GeometryEncoding.WKT:
            raise RefusedError("the column holds text, and Parquet's geo types hold WKB", where=where,
                               remedy="run geolake rewrite or convert, which make WKB of it")  # fmt: skip
        chosen[spelled] = type_
    return chosen


def _spelled(snapshot: Snapshot, name: str) -> str:
    parts = split_path(name)
    return join_path(tuple(snapshot.schema.find(join_path(parts[: depth + 1])).name for depth in range(len(parts))))


def _mend(
    snapshot: Snapshot,
    place: int,
    view: FileView,
    chosen: Mapping[str, GeoType | None],
    looked: _Looked,
    *,
    verify: bool,
) -> FileMend | None:
    """What is to be done to one file, `None` if nothing."""
    path = snapshot.files.table["path"][place].as_py()
    properties: dict[str, str] = {}
    columns: list[ColumnMend] = []
    for name, asked in chosen.items():
        parts = split_path(name)
        found = view.find(parts)
        if found is None:
            continue
        own = found.type if isinstance(found.type, GeometryType | GeographyType) else None
        type_ = asked or own
        if type_ is None:
            looked.untold[name] = looked.untold.get(name, 0) + 1
            continue
        if not _is_wkb(found.type):
            looked.others[name] = "is not stored as WKB, and only a rewrite gives it a geo type"
            continue
        made = known_geo_type(type_, name, properties, where=f"{snapshot.location}, {path}")
        scan = ScanColumn(name, parts, None, made)
        columns.append(ColumnMend.of(view, scan, found, verify=verify))
    if not any(one.needed for one in columns):
        return None
    for one in columns:
        for wrong, counts in ((one.type_wrong, looked.types), (one.property_wrong, looked.properties),
                              (one.boxes_wrong, looked.boxes)):  # fmt: skip
            if wrong:
                counts[one.path] = counts.get(one.path, 0) + 1
    size = snapshot.files.table["bytes"][place].as_py()
    return FileMend(FileState(path, size, ""), place, view, tuple(columns), properties)


def _is_wkb(type_: DataType) -> bool:
    if isinstance(type_, GeometryType | GeographyType):
        return type_.encoding is GeometryEncoding.WKB
    return type_ == PrimitiveType("binary")


def _with_states(
    storage: Storage, snapshot: Snapshot, mends: list[FileMend], on_progress: Progress | None
) -> list[FileMend]:
    """The same with what each file is known again by; one that is not as it was opened is a conflict."""
    details: ParquetDetails = snapshot.details
    done: list[FileMend] = []
    footers = storage.parquet_footers([mend.state.path for mend in mends])
    for mend, footer in zip(mends, footers, strict=True):
        where = f"{storage.location}/{mend.state.path}"
        state = FileState.of(storage, mend.state.path, footer)
        if state.bytes != mend.state.bytes or not parse_footer(footer, where=where).equals(
            details.views[mend.place].metadata
        ):
            raise ConflictError("the file was changed since the table was opened", where=where, remedy="open it again")
        done.append(replace(mend, state=state))
        if on_progress is not None:
            on_progress(len(done), len(mends))
    return done


def _cost(mends: Sequence[FileMend], *, verify: bool) -> list[str]:
    copied = sum(mend.state.bytes for mend in mends)
    kept = sum(mend.view.metadata.serialized_size for mend in mends)
    scanned = [mend for mend in mends if any(one.scan for one in mend.columns)]
    said = [
        f"{plural(len(mends), 'footer')} replaced: the pages ({bytes_text(copied)}) are copied as they are, and"
        f" the old footers ({bytes_text(kept)}) are kept in _geolake for undo."
    ]
    if any(one.type_wrong for mend in scanned for one in mend.columns):
        said.append("A column with a value that cannot be read stays plain bytes: engines fail on it under a geo type.")
    if scanned:
        read = sum(one.bytes for mend in scanned for one in mend.columns if one.scan)
        why = "Every value is read and compared with its box" if verify else "The values are read for the boxes"
        said.append(f"{why}: {bytes_text(read)} in {plural(len(scanned), 'file')}.")
    return said
