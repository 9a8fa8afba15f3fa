"""The rules of Havasu's rasters, each broken in one raster of many."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from geolake_nb.checks.finding import Severity
from geolake_nb.raster_data.arrow import RASTER_V1, rasters_to_arrow
from tests.checks.check_tables import COUNT, PATHS, good_raster, havasu, raster_table, the_finding


def spoiled(change, *, bands=6):
    """A Havasu table of good rasters in which two groups are changed."""
    groups = rasters_to_arrow([good_raster(bands)] * COUNT).to_pylist()
    for index in (2, 7):
        change(groups[index])
    return havasu().check(rasters=raster_table(pa.array(groups, RASTER_V1)))


def found_in(findings, rule, severity=Severity.ERROR):
    finding = the_finding(findings, rule)
    assert finding.severity is severity
    assert finding.scope.column == "rast"
    assert (finding.scope.paths, finding.scope.count, finding.scope.unit) == ((PATHS[2], PATHS[7]), 2, "rasters")
    assert finding.fix is None
    assert "from its source" in finding.no_command
    assert finding.spec.document == "Havasu table spec"
    return finding


@pytest.mark.parametrize(
    "geo",
    [
        {"scale_x": math.nan},
        {"upperleft_y": math.inf},
        {"scale_x": 0.0},
        {"scale_y": 0.0},
        {"scale_x": 1.0, "scale_y": 1.0, "skew_x": 1.0, "skew_y": 1.0},
    ],
)
def test_a_georeference_without_a_location_or_an_area(geo):
    findings = spoiled(lambda group: group["geo_reference"].update(geo))
    found_in(findings, "raster.georeference")


def test_a_raster_that_is_turned_by_a_right_angle_is_good():
    turned = {"scale_x": 0.0, "scale_y": 0.0, "skew_x": 0.1, "skew_y": 0.1}
    assert not spoiled(lambda group: group["geo_reference"].update(turned))


@pytest.mark.parametrize("side", ["width", "height"])
def test_a_negative_size(side):
    # The cells are outside, so that the size of their data says nothing.
    def change(group):
        group[side] = -1

    found_in(spoiled(change, bands=1), "raster.size")


def test_a_raster_without_a_crs():
    found_in(spoiled(lambda group: group.update(crs_wkt=None)), "raster.crs_missing", Severity.WARNING)


@pytest.mark.parametrize("wkt", ["", "no WKT", 'GEOGCS["broken"'])
def test_a_raster_with_a_crs_that_cannot_be_resolved(wkt):
    found_in(spoiled(lambda group: group.update(crs_wkt=wkt)), "raster.crs_unresolved", Severity.WARNING)


@pytest.mark.parametrize("code", [9, 0, 2, 12, -1])
@pytest.mark.parametrize("band", ["band_1", "bands"])
def test_a_pixel_type_that_havasu_does_not_have(code, band):
    def change(group):
        (group[band][0] if band == "bands" else group[band])["pixel_type"] = code

    findings = spoiled(change)
    assert {result.rule for result in findings} == {"raster.pixel_type", "raster.mixed_pixel_types"}
    [finding] = findings.of("raster.pixel_type")
    assert (finding.scope.paths, finding.scope.count, finding.severity) == ((PATHS[2], PATHS[7]), 2, Severity.ERROR)
    assert finding.fix is None


@pytest.mark.parametrize("data", [b"", bytes(5), bytes(12)])
def test_data_that_has_not_all_cells(data):
    def change(group):
        group["band_3"]["data"] = data

    found_in(spoiled(change), "raster.data_size")


def test_the_size_of_data_follows_the_pixel_type():
    def change(group):
        for name in ("band_1", "band_2"):
            group[name].update(pixel_type=11, data=bytes(48))
        group.update(num_bands=2, band_3=None, band_4=None, bands=None)

    assert not spoiled(change)


def test_a_no_data_value_of_another_size():
    def change(group):
        group["band_2"]["no_data"] = b"\x00\x00"

    found_in(spoiled(change), "raster.no_data_size")


@pytest.mark.parametrize(
    "change",
    [
        {"num_bands": 5},
        {"num_bands": 7},
        {"band_2": None, "num_bands": 5},
        {"bands": None},
        {"band_4": None, "num_bands": 5},
    ],
)
def test_bands_that_leave_gaps_or_are_not_as_many_as_stated(change):
    found_in(spoiled(lambda group: group.update(change)), "raster.band_count")


def test_bands_may_be_an_empty_list_where_a_repeated_group_cannot_be_null():
    assert not spoiled(lambda group: group.update(bands=[]), bands=3)


@pytest.mark.parametrize(
    "band",
    [{"out_db_url": None}, {"out_db_url": ""}, {"out_db_band_no": None}, {"out_db_band_no": -1}],
)
def test_an_out_db_band_without_a_url_or_a_number(band):
    findings = spoiled(lambda group: group["bands"][1].update(band))
    found_in(findings, "raster.out_db")


def test_bands_of_different_pixel_types():
    def change(group):
        group["band_1"].update(pixel_type=11, data=bytes(48))

    found_in(spoiled(change), "raster.mixed_pixel_types", Severity.WARNING)


def test_rasters_of_no_bands_are_good():
    nothing = {"num_bands": 0, "band_1": None, "bands": None}
    assert not spoiled(lambda group: group.update(nothing), bands=1)


def test_a_column_of_nulls_is_good():
    assert not havasu().check(rasters=raster_table(pa.nulls(COUNT, RASTER_V1)))


def test_many_rasters_in_one_file_count_as_rasters():
    groups = rasters_to_arrow([good_raster()] * 50).to_pylist()
    for group in groups:
        group["crs_wkt"] = None
    table = raster_table(pa.array(groups, RASTER_V1), paths=[PATHS[0]] * 50)
    finding = the_finding(havasu().check(rasters=table), "raster.crs_missing")
    assert (finding.scope.paths, finding.scope.count) == ((PATHS[0],), 50)
