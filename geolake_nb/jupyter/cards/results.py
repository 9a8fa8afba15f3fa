"""The cards of results: explanations, findings, files, one raster, and any table of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.checks.finding import Severity
from geolake_nb.formats.rules import RULES
from geolake_nb.jupyter.card_parts import (
    bar,
    card,
    command,
    command_line,
    engines,
    facts,
    folded,
    grid,
    left_out,
    name,
    next_line,
    plural,
    stale_line,
    title,
)
from geolake_nb.jupyter.html import join, tag
from geolake_nb.model.display import Displayable
from geolake_nb.model.file_table import plain_values
from geolake_nb.scan.coverage import filtered_column
from geolake_nb.scan.explanation import amount_text, bytes_text, complete_text
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from geolake_nb.api.scan import Scan
    from geolake_nb.checks.finding import Finding, Findings
    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.jupyter.raster_entries import BandFacts, RasterDetails
    from geolake_nb.model.file_table import FileTable
    from geolake_nb.scan.explanation import Explanation

__all__ = [
    "SHOWN_ROWS",
    "TableRows",
    "counts",
    "show_explanation",
    "show_files",
    "show_findings",
    "show_raster",
    "show_rows",
    "show_scan",
]

SHOWN_ROWS = 20
"""How many rows a card or a terminal shows."""
_WIDTH = 400


@dataclass(frozen=True, slots=True, eq=False)
class TableRows(Displayable):
    """The rows of a result: `what` names them, `table` has them.

    >>> import pyarrow as pa
    >>> rows = TableRows("row groups", pa.table({"path": ["a", "b"], "rows": [4, None]}))
    >>> print(rows)
    2 row groups
      path=a  rows=4
      path=b
    >>> len(rows), pa.table(rows).num_rows
    (2, 2)
    """

    what: str
    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __str__(self) -> str:
        first = self.table.slice(0, SHOWN_ROWS).to_pylist()
        known = ["  ".join(f"{key}={value}" for key, value in row.items() if value is not None) for row in first]
        more = [f"  and {len(self) - SHOWN_ROWS:,} more"] if len(self) > SHOWN_ROWS else []
        return "\n".join([f"{len(self):,} {self.what}", *(f"  {printable(text, _WIDTH)}" for text in known), *more])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.table.to_pandas()


_SHOWN_DETAILS = 10
_SHOWN_FILES = 20
_MAX_FILTER = 400


def show_explanation(explanation: Explanation) -> Markup:
    """The card."""
    read, total = explanation.read, explanation.total
    share = read.bytes / total.bytes if total.bytes else (read.files / total.files if total.files else None)
    version = None if explanation.version is None else f", version {explanation.version}"
    complete = complete_text(explanation)
    return card(
        "Explanation",
        tag("p", f"{explanation.verdict[0].upper()}{explanation.verdict[1:]}", class_="verdict"),
        stale_line(explanation.origin),
        title("Explanation", explanation.location, f" {explanation.format.name}", version),
        tag("p", "where ", name(str(explanation.where), _MAX_FILTER)),
        bar(share, f"reads {amount_text(read, total)}"),
        [
            tag("p", f"{level.kept:,} of {plural(level.total, level.name)}")
            for level in explanation.levels
            if level.name not in ("file", "table")
        ],
        _reasons(explanation),
        _details(explanation),
        None if complete is None else tag("p", f"With complete bounds: {complete}"),
        [tag("p", f"Note: {note}") for note in explanation.notes],
        _files(explanation),
        _to_map(explanation),
        engines(explanation.engines),
        next_line(explanation.next_step),
    )


def show_scan(scan: Scan) -> Markup:
    """The card."""
    table, read, total = scan.table, *scan._amounts()
    share = read.bytes / total.bytes if total.bytes else (read.files / total.files if total.files else None)
    version = None if table.version is None else f", version {table.version}"
    columns = ", ".join(scan.schema.names[:_SHOWN_COLUMNS])
    hidden = len(scan.schema.names) - _SHOWN_COLUMNS
    limit = None if scan.limit is None else tag("p", f"at most {plural(scan.limit, 'row')}")
    metrics = scan.metrics
    return card(
        "Scan",
        title("Scan", table.location, f" {table.snapshot.format.name}", version),
        tag("p", "all rows") if scan.where is None else tag("p", "where ", name(str(scan.where), _MAX_FILTER)),
        limit,
        bar(share, f"reads at most {amount_text(read, total)}"),
        tag("p", "columns ", name(columns, _WIDTH), f" and {hidden:,} more" if hidden > 0 else None),
        tag("p", f"Last read: {metrics}") if metrics.seconds else tag("p", "Nothing is read yet:", _ways(scan)),
    )


def _ways(scan: Scan) -> Markup:
    """The methods that get the rows."""
    shapes = any(field.metadata and b"ARROW:extension:name" in field.metadata for field in scan.schema)
    ways = [*(["to_geopandas()"] if shapes else []), "to_arrow()", "to_pandas()", "count()"]
    return join(*(part for way in ways for part in (" ", tag("code", way))))


def _reasons(explanation: Explanation) -> Markup:
    rows = [
        [
            tag("b", "read") if reason.kept else "skipped",
            reason.text,
            amount.files,
            "not known" if amount.rows is None else amount.rows,
            bytes_text(amount.bytes),
        ]
        for reason, amount in explanation.by_reason().items()
    ]
    return grid(["status", "reason", "files", "rows", "size"], rows, numbers=[2, 3, 4])


def _details(explanation: Explanation) -> Markup | None:
    details = list(explanation.details().items())
    if not details:
        return None
    items = [tag("li", f"{plural(files, 'file')}: {text[:300]}") for text, files in details[:_SHOWN_DETAILS]]
    more = left_out(_SHOWN_DETAILS, len(details), "explanation.details()")
    return folded("Why bounds are not usable", tag("ul", items), more)


def _files(explanation: Explanation) -> Markup | None:
    kept = explanation.kept
    if not kept.num_rows:
        return None
    rows = [
        [name(file["path"]), file["reason"], bytes_text(file["bytes"] or 0)]
        for file in kept.slice(0, _SHOWN_FILES).to_pylist()
    ]
    more = left_out(_SHOWN_FILES, kept.num_rows, "explanation.kept, and explanation.skipped for the others")
    return folded("Files that are read", grid(["path", "reason", "size"], rows, numbers=[2]), more)


def _to_map(explanation: Explanation) -> Markup | None:
    snapshot, where = explanation.snapshot, str(explanation.where)
    if not snapshot.files.geo_columns or len(where) > _MAX_FILTER:
        return None
    words = ["map", snapshot.location]
    if snapshot.version is not None:
        words += [snapshot.format.version_option, str(snapshot.version)]
    if len(snapshot.files.geo_columns) > 1:
        words.append(f"--column={filtered_column(snapshot, explanation.where)}")
    words += ["--where", where]
    return tag("p", "On the map: ", command(*words)) if "".join(words).isprintable() else None


_HEADINGS = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Information"}
_SHOWN_FINDINGS = 100
_RULES = {rule.id: rule for rule in RULES}


def show_findings(findings: Findings) -> Markup:
    """The card."""
    return card(
        "Check",
        stale_line(findings.origin),
        title("Check", findings.table),
        tag("p", counts(findings)),
        [_group(findings, severity) for severity in Severity],
        _skipped_checks(findings),
        tag("p", "More about a finding: ", command("help", findings[0].rule), class_="faint") if findings else None,
        next_line(findings.next_step),
    )


def counts(findings: Findings) -> str:
    """How many findings there are of each severity."""
    parts = [
        plural(count, severity.value) if severity is not Severity.INFO else f"{count:,} info"
        for severity, count in findings.counts.items()
        if count
    ]
    return ", ".join(parts) if parts else tag("span", "no findings", class_="good")


def _group(findings: Findings, severity: Severity) -> Markup | None:
    group = [finding for finding in findings if finding.severity is severity]
    if not group:
        return None
    heading = tag("span", f"{_HEADINGS[severity]}: {len(group):,}", class_=severity.value)
    items = tag(
        "ul", [tag("li", _finding(finding), class_="finding") for finding in group[:_SHOWN_FINDINGS]], class_="findings"
    )
    return folded(heading, items, unfolded=severity is not Severity.INFO)


def _finding(finding: Finding) -> list[Markup | None]:
    scope = finding.scope
    return [
        _rule(finding.rule),
        tag("p", tag("span", str(scope), class_="faint")),
        tag("p", finding.what),
        None if finding.fix is None else tag("p", "Fix: ", _command(finding.fix)),
        None if finding.no_command is None else tag("p", "No command: ", finding.no_command),
        _paths(finding) if scope.paths else None,
        tag("p", tag("small", f"Reference: {finding.spec}"), class_="faint"),
    ]


def _rule(rule: str) -> Markup:
    """The name of the rule, which expands to its section of the reference."""
    known = _RULES.get(rule)
    return tag("p", tag("strong", rule)) if known is None else folded(rule, [tag("p", text) for text in known.about])


def _command(fix: str) -> Markup:
    """The command as a magic; without its first character it runs in a shell as well."""
    return command_line(f"%{fix}")


def _paths(finding: Finding) -> Markup:
    scope = finding.scope
    more = scope.count - len(scope.paths) if scope.unit == "files" else 0
    items = [tag("li", name(path)) for path in scope.paths]
    return folded("Files", tag("ul", items), tag("p", f"and {more:,} more") if more > 0 else None)


def _skipped_checks(findings: Findings) -> Markup | None:
    if not findings.skipped_checks:
        return None
    reasons = dict.fromkeys(check.why for check in findings.skipped_checks)
    rules = {why: ", ".join(check.rule for check in findings.skipped_checks if check.why == why) for why in reasons}
    items = tag("ul", [tag("li", f"{why}: {names}") for why, names in rules.items()])
    return folded(f"Not checked: {plural(len(findings.skipped_checks), 'rule')}", items)


_SHOWN_COLUMNS = 16


def show_rows(rows: TableRows) -> Markup:
    """The card."""
    table = rows.table
    known = [
        field.name for field in table.schema if _readable(field.type) and table[field.name].null_count < table.num_rows
    ]
    columns = known[:_SHOWN_COLUMNS]
    shown = table.select(columns).slice(0, SHOWN_ROWS).to_pylist()
    first = [[_cell(row[column]) for column in columns] for row in shown]
    hidden = len(table.column_names) - len(columns)
    return card(
        rows.what.capitalize(),
        tag("p", tag("strong", f"{rows.what.capitalize()} "), table.num_rows),
        grid(columns, first),
        left_out(SHOWN_ROWS, table.num_rows, "use .table or .to_pandas()"),
        tag("p", f"{hidden:,} columns not shown", class_="faint") if hidden else None,
    )


def _readable(type_: pa.DataType) -> bool:
    """Outlines as WKB are not readable."""
    return not pa.types.is_binary(type_)


def _cell(value: Any) -> Child:
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return str(value)
    return name(value if isinstance(value, str) else repr(value), 120)


_LISTED_FILES = 20
_SHOWN_BOUNDS = 8


def show_files(files: FileTable) -> Markup:
    """The card."""
    table = files.table
    rows = pc.sum(table["rows"], min_count=0, skip_nulls=False).as_py()
    row_count = "rows not known" if rows is None else plural(rows, "row")
    size = bytes_text(pc.sum(table["bytes"]).as_py() or 0)
    geo = files.geo_columns[:_SHOWN_BOUNDS]
    partitions = [column for column in table.column_names if column.startswith("partition.")][:_SHOWN_BOUNDS]
    headers = ["path", "rows", "size", *(column.removeprefix("partition.") for column in partitions)]
    shown = table.slice(0, _LISTED_FILES)
    values = (
        zip(*[plain_values(shown[column]) for column in partitions], strict=True) if partitions else [()] * len(shown)
    )
    plain = shown.drop_columns([column for column in table.column_names if column.startswith("partition.")]).to_pylist()
    first = [_file_row(file, partition, geo) for file, partition in zip(plain, values, strict=True)]
    return card(
        "Files",
        tag("p", tag("strong", "Files "), f"{len(files):,}, {row_count}, {size}"),
        grid([*headers, *(f"bounds of {column}" for column in geo)], first, numbers=[1, 2]),
        left_out(_LISTED_FILES, len(files), "t.files.to_pandas()"),
    )


def _file_row(file: Mapping[str, Any], partition: Sequence[Any], geo: tuple[str, ...]) -> list[Child]:
    values = ["null" if value is None else name(str(value), 60) for value in partition]
    size = "not known" if file["bytes"] is None else bytes_text(file["bytes"])
    rows = "not known" if file["rows"] is None else file["rows"]
    return [name(file["path"]), rows, size, *values, *(_bounds(file, column) for column in geo)]


def _bounds(file: Mapping[str, Any], column: str) -> Child:
    if file[f"{column}.problem"] is not None:
        return tag("span", f"not usable: {file[f'{column}.problem'][:200]}", class_="warning")
    sides = [file[f"{column}.{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    if any(side is None for side in sides):
        return "none"
    return " ".join(f"{side:g}" for side in sides)


_SHOWN_BANDS = 100


def show_raster(details: RasterDetails) -> Markup:
    """The card."""
    entry = details.entry
    about = [
        ("raster", f"{entry.index_in_file} of the file, in {entry.column}"),
        ("size", f"{entry.width:,} \N{MULTIPLICATION SIGN} {entry.height:,} pixels"),
        ("CRS", name(entry.crs_name)),
        ("no outline", entry.reason),
    ]
    rows = [[number, *_band_row(band)] for number, band in enumerate(details.bands[:_SHOWN_BANDS])]
    return card(
        "Raster",
        title("Raster", entry.path),
        facts(about),
        grid(["band", "pixel type", "no-data", "pixels"], rows) if rows else None,
        left_out(_SHOWN_BANDS, len(details.bands), "t.raster_bands(path)"),
        None if details.problem is None else tag("p", details.problem, class_="warning"),
    )


def _band_row(band: BandFacts) -> list[Child]:
    stored = band.stored if band.url is None else join(f"{band.stored} of ", name(band.url))
    return [band.pixel_type, band.no_data, stored]
