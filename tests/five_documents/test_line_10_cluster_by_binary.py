"""Line 10: a rewrite by a binary column that is not a geometry is refused, and the message says what to do."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import RefusedError


@pytest.fixture
def roads(tmp_path):
    shapes = [shapely.Point(number, number).wkb for number in range(8)]
    table = pa.table({"id": range(8), "shape": pa.array(shapes, pa.binary()), "key": pa.array(shapes, pa.binary(21))})
    (tmp_path / "roads").mkdir()
    pq.write_table(table, tmp_path / "roads" / "0.parquet")
    return str(tmp_path / "roads")


@pytest.mark.parametrize("column", ["shape", "key"])
def test_a_rewrite_by_bytes_is_refused_before_any_work(roads, column):
    with pytest.raises(RefusedError, match="the order of bytes does not cluster rows"):
        gl.open(roads).plan_rewrite(cluster_by=[column])


def test_the_message_says_what_to_do_and_the_check_has_the_command(roads, capsys):
    assert main(["rewrite", roads, "--cluster", "shape"]) == 3
    assert "give it a geo type first if it holds WKB: geolake check has the command" in capsys.readouterr().err
    assert main(["check", roads]) == 1
    assert f"geolake repair {roads} --column 'shape=geometry(OGC:CRS84)'" in capsys.readouterr().out


def test_a_new_table_is_not_clustered_by_bytes_either(roads, tmp_path):
    with pytest.raises(RefusedError, match="the order of bytes does not cluster rows"):
        gl.open(roads).plan_convert(str(tmp_path / "new"), cluster_by=["shape"])
    with pytest.raises(RefusedError, match="the order of bytes does not cluster rows"):
        gl.write(pq.read_table(roads), str(tmp_path / "new"), cluster_by=["shape"])


def test_a_rewrite_that_declares_the_type_clusters_by_the_geometries(roads):
    plan = gl.open(roads).plan_rewrite(cluster_by=["shape"], columns={"shape": "geometry(OGC:CRS84)"})
    assert "The column 'shape' is read as WKB or EWKB and becomes a geometry(OGC:CRS84)." in str(plan)


def test_a_new_table_whose_column_has_a_type_is_clustered(roads, tmp_path):
    plan = gl.open(roads).plan_convert(
        str(tmp_path / "new"), cluster_by=["shape"], columns={"shape": "geometry(OGC:CRS84)"}
    )
    assert "shape" in str(plan)
