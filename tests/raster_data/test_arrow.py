from __future__ import annotations

import io
import math
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import RasterError
from geolake_nb.raster_data.arrow import (
    RASTER_V1,
    metadata_columns,
    metadata_from_arrow,
    rasters_from_arrow,
    rasters_to_arrow,
)
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster

HERE = GeoReference.from_affine((10.0, 0.0, 100.0, 0.0, -10.0, 200.0))


@st.composite
def bands(draw, cells):
    pixel_type = draw(st.sampled_from(PixelType))
    no_data = draw(st.none() | st.binary(min_size=pixel_type.size, max_size=pixel_type.size))
    if draw(st.booleans()):
        size = cells * pixel_type.size
        return Band(pixel_type, no_data, draw(st.binary(min_size=size, max_size=size)))
    return Band(pixel_type, no_data, None, draw(st.integers(0, 2**31 - 1)), draw(st.text(max_size=5)))


@st.composite
def rasters(draw):
    width, height = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    number = st.floats(allow_nan=False)
    georeference = GeoReference(*draw(st.tuples(number, number, number, number, number, number)))
    stack = tuple(draw(st.lists(bands(width * height), max_size=7)))
    return Raster(width, height, stack, draw(st.none() | st.text(max_size=5)), georeference)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | rasters(), max_size=4))
def test_rasters_survive_arrow_and_parquet(values):
    column = rasters_to_arrow(values)
    assert column.type == RASTER_V1
    column.validate(full=True)
    assert rasters_from_arrow(column) == values
    expected = [None if value is None else value.metadata for value in values]
    assert metadata_from_arrow(column) == expected

    file = pa.BufferReader(written(column))
    again = pq.read_table(file).column("rast")
    assert rasters_from_arrow(again) == values
    assert metadata_from_arrow(again) == expected


def test_sliced_chunked_large_and_view_columns_read_alike():
    values = [raster(0), None, raster(1), raster(6), None, raster(4)]
    column = rasters_to_arrow(values)
    assert rasters_from_arrow(column.slice(1, 4)) == values[1:5]
    assert metadata_from_arrow(column.slice(3)) == [values[3].metadata, None, values[5].metadata]
    assert rasters_from_arrow(pa.chunked_array([column.slice(0, 2), column.slice(2)])) == values
    for replaced in (
        (pa.large_binary(), pa.large_string(), pa.large_list),
        (pa.binary_view(), pa.string_view(), pa.list_),
    ):
        other = pa.array(column.to_pylist(), _with_types(RASTER_V1, *replaced))
        assert rasters_from_arrow(other) == values


def test_the_parquet_schema_is_the_group_of_the_spec():
    # Havasu, Raster: field, required or optional, physical type, logical type; `bands` as an optional LIST.
    schema = pq.ParquetFile(pa.BufferReader(written(rasters_to_arrow([raster(1)])))).schema
    text = str(schema)
    band = """
    optional group field_id=-1 {name} {{
      required int32 field_id=-1 pixel_type;
      optional binary field_id=-1 no_data;
      optional binary field_id=-1 data;
      optional int32 field_id=-1 out_db_band_no;
      optional binary field_id=-1 out_db_url (String);
    }}"""
    geo = "".join(
        f"\n      required double field_id=-1 {name};"
        for name in ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
    )
    expected = (
        "optional group field_id=-1 rast {"
        "\n    required int32 field_id=-1 width;"
        "\n    required int32 field_id=-1 height;"
        "\n    required int32 field_id=-1 num_bands;"
        "\n    optional binary field_id=-1 crs_wkt (String);"
        "\n    required group field_id=-1 geo_reference {" + geo + "\n    }"
        "" + "".join(band.format(name=f"band_{number}") for number in (1, 2, 3, 4)) + ""
        "\n    optional group field_id=-1 bands (List) {"
        "\n      repeated group field_id=-1 list {"
        "\n        required group field_id=-1 element {"
    )
    assert expected in text


@pytest.mark.parametrize("count", range(9))
def test_bands_fill_the_numbered_fields_first_and_the_list_is_null_without_a_fifth(count):
    group = rasters_to_arrow([raster(count)])[0].as_py()
    numbered = [group[f"band_{number}"] is not None for number in (1, 2, 3, 4)]
    assert numbered == [number < count for number in range(4)]
    assert (group["bands"] is None) == (count <= 4)
    assert len(group["bands"] or []) == max(0, count - 4)
    assert group["num_bands"] == count


@pytest.mark.parametrize("count", [0, 3, 4, 5, 7])
def test_a_file_with_bands_as_a_bare_repeated_group_reads_the_same(count):
    values = [raster(count), None, raster(1), raster(6)]
    file = pq.ParquetFile(pa.BufferReader(bare_repeated(values)))
    assert "repeated group field_id=-1 bands {" in str(file.schema)
    column = file.read().column("rast")
    assert rasters_from_arrow(column) == values
    assert metadata_from_arrow(column) == [None if value is None else value.metadata for value in values]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_bands": 3}, "row 1: num_bands is 3 but there are band_1, band_2 and 0 in bands"),
        ({"num_bands": 1}, "row 1: num_bands is 1 but there are band_1, band_2 and 0 in bands"),
        ({"band_1": None, "num_bands": 1}, "row 1: num_bands is 1 but there are band_2 and 0 in bands"),
        ({"band_1": None, "band_2": None}, "row 1: num_bands is 2 but there are no band_N and 0 in bands"),
        ({"bands": [{"pixel_type": 4, "data": bytes(6)}]}, "row 1: num_bands is 2 but .* and 1 in bands"),
        ({"band_2": {"pixel_type": 9, "data": bytes(6)}}, "row 1, band 1: unknown pixel type 9"),
        ({"band_2": {"pixel_type": 4, "data": bytes(5)}}, "row 1, band 1: data has 5 bytes"),
        (
            {"band_2": {"pixel_type": 4, "out_db_url": "a"}},
            "row 1, band 1: a band has no data, no out_db_band_no",
        ),
        ({"width": -3}, "row 1: a raster has width -3"),
    ],
)
def test_a_group_that_breaks_the_rules_is_an_error_with_its_row(change, message):
    column = rasters_to_arrow([None, raster(2)]).to_pylist()
    column[1].update(change)
    with pytest.raises(RasterError, match=message):
        rasters_from_arrow(pa.array(column, RASTER_V1))


def test_required_fields_that_are_null_are_an_error():
    loose = pa.struct([field.with_nullable(True) for field in RASTER_V1])
    group = rasters_to_arrow([raster(0)]).to_pylist()[0] | {"width": None, "geo_reference": None}
    with pytest.raises(RasterError, match=r"row 0: a raster has no width, scale_x, .*upperleft_y"):
        metadata_from_arrow(pa.array([group], loose))


def test_columns_of_another_type_are_errors():
    with pytest.raises(RasterError, match="a raster column has the type int32"):
        rasters_from_arrow(pa.array([1], pa.int32()))
    without = pa.struct([field for field in RASTER_V1 if field.name != "crs_wkt"])
    with pytest.raises(RasterError, match="a raster group has no field 'crs_wkt'; its fields are: band_1, "):
        metadata_from_arrow(pa.array([], without))
    wrong = pa.struct([field.with_type(pa.string()) if field.name == "width" else field for field in RASTER_V1])
    with pytest.raises(RasterError, match="the raster field 'width' has the type string; it must be int32"):
        metadata_from_arrow(pa.array([], wrong))


def test_nan_in_a_geo_reference_survives_for_the_finding_that_reports_it():
    value = Raster(1, 1, (), None, GeoReference(math.nan, 1.0, 0.0, 0.0, 0.0, 0.0))
    (again,) = metadata_from_arrow(rasters_to_arrow([value]))
    assert math.isnan(again.geo_reference.scale_x)


class Watched(io.BytesIO):
    """A file in memory that remembers which bytes were read."""

    def __init__(self, data):
        super().__init__(data)
        self.ranges = []

    def read(self, size=-1):
        start = self.tell()
        data = super().read(size)
        self.ranges.append((start, start + len(data)))
        return data


def test_a_metadata_read_touches_no_byte_of_a_band():
    values = [raster(7, side=40), None, raster(2, side=60)]
    data = written(rasters_to_arrow(values)).to_pybytes()
    watched = Watched(data)
    footer = pq.read_metadata(pa.BufferReader(data))  # a footer read takes 64 KiB whatever lies there
    file = pq.ParquetFile(watched, metadata=footer, pre_buffer=False)
    table = file.read(columns=metadata_columns("rast"))
    assert watched.ranges
    assert metadata_from_arrow(table.column("rast")) == [values[0].metadata, None, values[2].metadata]
    chunks = band_chunks(data)
    assert len(chunks) == 5 * 5
    touched = [each for each in watched.ranges for start, end in chunks if each[0] < end and start < each[1]]
    assert touched == []


def test_metadata_reads_from_a_file_whose_bands_are_garbage():
    values = [raster(7, side=40), None, raster(2, side=60)]
    data = bytearray(written(rasters_to_arrow(values)).to_pybytes())
    noise = random.Random(1)
    for start, end in band_chunks(bytes(data)):
        data[start:end] = noise.randbytes(end - start)
    file = pq.ParquetFile(pa.BufferReader(bytes(data)))
    column = file.read(columns=metadata_columns("rast")).column("rast")
    assert metadata_from_arrow(column) == [values[0].metadata, None, values[2].metadata]
    with pytest.raises(OSError, match=r"."):
        file.read()


def test_metadata_columns_are_the_leaves_that_are_not_bands_also_in_a_nested_column():
    nested = pa.array(
        [{"rast": value} for value in rasters_to_arrow([raster(1)]).to_pylist()],
        pa.struct([("rast", RASTER_V1)]),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"scene": nested}), sink)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    leaves = [file.schema.column(index).path for index in range(len(file.schema))]
    assert metadata_columns("scene", "rast") == [path for path in leaves if ".band" not in path]
    column = file.read(columns=metadata_columns("scene", "rast")).column("scene")
    assert metadata_from_arrow(column.combine_chunks().field("rast")) == [raster(1).metadata]


def raster(count, *, side=2):
    cells = side * side
    stack = [
        Band(PixelType.PT_8BUI, bytes([255]), random.Random(index).randbytes(cells))
        if index % 3 != 1
        else Band(PixelType.PT_16BSI, None, None, index, f"s3://bucket/{index}.tif")
        for index in range(count)
    ]
    if count == 2:  # both in-db, as the cases of broken groups assume
        stack[1] = Band(PixelType.PT_8BUI, data=bytes(cells))
    return Raster(side, side, tuple(stack), "GEOGCS[...]" if count % 2 else None, HERE)


def written(column, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(range(len(column)), pa.int64()), "rast": column}), sink, **options)
    return sink.getvalue()


def band_chunks(data):
    """The byte ranges of the column chunks that belong to bands."""
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    ranges = []
    for index in range(group.num_columns):
        chunk = group.column(index)
        if ".band" in chunk.path_in_schema:
            starts = [chunk.data_page_offset]
            if chunk.has_dictionary_page:
                starts.append(chunk.dictionary_page_offset)
            ranges.append((min(starts), min(starts) + chunk.total_compressed_size))
    return ranges


def bare_repeated(values):
    """A file whose `bands` is a repeated group, made by changing the schema in the footer of one with a LIST.

    A required LIST of required elements has the same levels as a bare repeated group, so the pages stay.
    """
    required = pa.struct([field.with_nullable(False) if field.name == "bands" else field for field in RASTER_V1])
    groups = rasters_to_arrow(values).to_pylist()
    groups = [None if group is None else group | {"bands": group["bands"] or []} for group in groups]
    data = written(pa.array(groups, required), store_schema=False).to_pybytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    body, footer = data[: -8 - length], data[-8 - length : -8]
    # Thrift compact protocol: an element is repetition (field 3), name (4), number of children (5), stop.
    first = footer.index(b"\x35\x00\x18\x05bands")
    last = footer.index(b"\x18\x07element\x15\x0a\x00") + len(b"\x18\x07element\x15\x0a\x00")
    footer = footer[:first] + b"\x35\x04\x18\x05bands\x15\x0a\x00" + footer[last:]
    # The list of elements comes second in the footer: its header is 0xfc and the count, now two fewer.
    count = footer.index(b"\x19\xfc") + 2
    footer = footer[:count] + bytes([footer[count] - 2]) + footer[count + 1 :]
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _with_types(kind, binary, string, make_list):
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_types(field.type, binary, string, make_list)) for field in kind])
    if pa.types.is_list(kind):
        return make_list(_with_types(kind.value_type, binary, string, make_list))
    if pa.types.is_binary(kind):
        return binary
    return string if pa.types.is_string(kind) else kind


@pytest.mark.parametrize("read", [metadata_from_arrow, rasters_from_arrow])
def test_a_crs_that_is_no_text_is_an_error_with_its_row(read):
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    column = rasters_to_arrow([Raster(2, 1, (), "ab", here), Raster(2, 1, (), "cd", here)])
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"ab\xff\xfe")]
    )
    fields = [broken if child.name == "crs_wkt" else column.field(child.name) for child in column.type]
    broken_column = pa.StructArray.from_arrays(fields, fields=list(column.type))
    with pytest.raises(RasterError, match="row 1: crs_wkt is not valid UTF-8"):
        read(broken_column)
    with pytest.raises(RasterError, match="row 3: crs_wkt is not valid UTF-8"):
        read(pa.chunked_array([column, broken_column]))
