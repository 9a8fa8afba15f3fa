"""The tables of the notebooks that a browser opens: one of each format, many boxes, and what is to be repaired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.geo.bound_codec import to_delta_wkt
from geolake_nb.model.box import Box
from tests import small_tables
from tests.jupyter.mapped_tables import random_boxes

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

FORMATS = {
    "delta": small_tables.make_delta,
    "iceberg": small_tables.make_iceberg,
    "havasu": small_tables.make_havasu,
    "parquet": small_tables.make_parquet,
}
MANY = 400


def many_boxes() -> np.ndarray:
    """Boxes on one side of the antimeridian, which shapely knows how to ask."""
    boxes = random_boxes(3 * MANY, seed=21)
    return boxes[(boxes[:, 0] < boxes[:, 2]) & (boxes[:, 3] < 80) & (boxes[:, 1] > -80)][:MANY]


def make_many(folder: Path) -> Path:
    """A Delta table of many files that are only in its log; every tenth has no bounds."""
    adds = []
    for number, sides in enumerate(many_boxes().tolist()):
        stats: dict = {"numRecords": 10 * (number + 1), "nullCount": {"geom": 0}}
        if number % 10:
            low, high = to_delta_wkt(Box(*sides))
            stats |= {"minValues": {"geom": low}, "maxValues": {"geom": high}}
        adds.append(
            {"path": f"part-{number}.parquet", "partitionValues": {}, "size": 1000 * (number + 7)}
            | {"modificationTime": 1_700_000_000_000 + number * 10**7, "dataChange": True, "stats": json.dumps(stats)}
        )
    features = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    return _write_log(folder, {"geom": "geometry(OGC:CRS84)"}, protocol, adds)


def make_plain(folder: Path) -> Path:
    """A Delta table without a feature and without a file: binary shapes, and strings that are not collated."""
    columns = {"geom": "binary", "name": "string", "place": "string"}
    return _write_log(folder, columns, {"minReaderVersion": 1, "minWriterVersion": 2}, [])


def _write_log(folder: Path, columns: dict[str, str], protocol: dict, adds: list[dict]) -> Path:
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in columns.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    metadata |= {"partitionColumns": [], "configuration": {}}
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in adds)]
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return folder
