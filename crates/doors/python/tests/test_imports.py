"""Imports: datasets with the values of files in other formats, compared with what the formats' own libraries read."""

import re
import signal
import sys
import tracemalloc
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy
import pytest
import xarray
import zarr
from hypothesis import given
from hypothesis import strategies as st

import terrace
from terrace._dataset import PIECE_BYTES
from terrace._import import MAX_PIECE_BYTES, pieces

HIDDEN = {"DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "CLASS", "NAME"}
VALUELESS = b"This is a netCDF dimension but not a netCDF variable"


def named(path: str) -> str:
    return re.sub(r"\W", "_", path)


def variables(dataset: terrace.Dataset) -> dict[str, terrace.Variable]:
    """Returns the variables of all views."""
    return {name: one for view in dataset for name, one in dataset[view].variables.items()}


def check_same(variable: terrace.Variable, expected: Any) -> None:
    """Compares elements bit for bit, and their byte order."""
    found = variable[...]
    expected = numpy.asarray(expected)
    assert found.shape[: expected.ndim] == expected.shape, variable
    if expected.dtype.kind in "biufc":
        assert found.dtype == expected.dtype, variable
    assert found.tobytes() == expected.tobytes(), variable


def hdf5_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Returns the datasets by path, without dimensions that have no values."""
    found = {}

    def add(path: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset) and not one.attrs.get("NAME", b"").startswith(VALUELESS):
            found[path] = one

    file.visititems(add)
    return found


@pytest.mark.filterwarnings("error", "ignore:.*the attribute .* of /data.* numbers have 16 bytes")
@pytest.mark.parametrize(
    "name",
    [
        "nc/A1B_north_america.nc",
        "nc/cloud_top_height.nc",
        "nc/issue672.nc",
        "nc/nemo_grid_T_201501.nc",
        "nc/orca2_votemper.nc",
        "nc/ostia_monthly.nc",
        "h5/e3sm_map_f_case_16p.h5",
        "h5/elegant_50k_particles_8var.h5",
        "h5/openpmd_femm_3d.h5",
        "h5/openpmd_pic_2d_it255.h5",
        "h5/rfgun_fields.h5",
    ],
)
def test_real_files_keep_every_bit(store: terrace.Store, data: Path, name: str) -> None:
    dataset = store.import_dataset("real", data / name)
    found = variables(dataset)
    with h5py.File(data / name) as file:
        expected = hdf5_datasets(file)
        assert found.keys() == {named(path) for path in expected}
        for path, one in expected.items():
            check_same(found[named(path)], one[...])
    if name.startswith("nc/"):
        with netCDF4.Dataset(data / name) as file:
            file.set_auto_maskandscale(False)
            for path, one in file.variables.items():
                assert found[named(path)].dims == one.dimensions
                numpy.testing.assert_array_equal(found[named(path)][...], one[...])


def test_a_real_numpy_file_keeps_every_bit(store: terrace.Store, data: Path) -> None:
    path = data / "npy/camera_wiener_f64.npy"
    dataset = store.import_dataset("real", path)
    check_same(dataset["file"]["camera_wiener_f64"], numpy.load(path))


def nans(kind: str) -> Any:
    """Returns NaNs with different payloads, and other numbers."""
    bits = numpy.array([0x7FC00001, 0xFFC12345, 0x7F812345, 0x80000000, 1, 0x3F800000], "u4")
    return bits.view("f4").astype(kind, casting="equiv")


def test_hdf5_elements_of_every_kind(store: terrace.Store, tmp_path: Path) -> None:
    compound = numpy.dtype({"names": ["a", "b c"], "formats": ["<f4", "<i8"], "offsets": [0, 8], "itemsize": 24})
    arrays = {
        "scalar": numpy.int8(-7),
        "group/deeper/little": nans("<f4"),
        "group/deeper/big": nans(">f4").reshape(2, 3),
        "group/little": numpy.arange(5, dtype="<i2"),
        "half": numpy.array([1, numpy.nan], "<f2"),
        "unsigned": numpy.array([[0, 2**64 - 1]], "<u8"),
        "truth": numpy.array([True, False, True]),
        "words": numpy.array([[b"no", b"five "], [b"", b"0\x001"]], "S5"),
        "complex": numpy.array([1 + 2j, complex(numpy.nan, -0.0)], "<c16"),
        "rows": numpy.ones(7, compound),
    }
    with h5py.File(tmp_path / "all.h5", "w") as file:
        for path, one in arrays.items():
            file[path] = one
        more = {
            "chunked": {"chunks": (7, 30), "compression": "gzip", "shuffle": True},
            "growing": {"maxshape": (None, 100), "fletcher32": True},
            "compact": {},
        }
        for path, how in more.items():
            file.create_dataset(path, data=numpy.random.default_rng(1).random((50, 100)), **how)
        file.create_dataset("unwritten", (10, 10), "f8", fillvalue=-999.0, chunks=(3, 3))[2:4] = 1
        file["matrices"] = numpy.arange(24, dtype=">i4").reshape(4, 2, 3)
        file.create_dataset("vectors", (4,), numpy.dtype((">i4", (2, 3))))[:] = file["matrices"][:]
        file["colours"] = numpy.array([1, 2, 1], h5py.enum_dtype({"red": 1, "blue": 2}, "u2"))
        file.create_dataset("blank", (2,), h5py.string_dtype("ascii", 4))[:] = [b"ab", b"c"]
        file["opaque"] = numpy.array([b"1234", b"\0\0\0x"], "V4")
    with warnings.catch_warnings(action="error"):
        dataset = store.import_dataset("all", tmp_path / "all.h5")
    assert list(dataset) == ["little_endian", "big_endian"]
    found = variables(dataset)
    with h5py.File(tmp_path / "all.h5") as file:
        expected = hdf5_datasets(file)
        assert found.keys() == {named(path) for path in expected} and len(expected) == 19
        for path, one in expected.items():
            check_same(found[named(path)], one[...])
    assert found["unwritten"].fillvalue == -999
    assert found["rows"][0]["b_c"] == 1
    found["vectors"][1:3] = numpy.full((2, 3), 7)
    found["words"][0] = numpy.frombuffer(b"ab\0\0\0cd\0\0\0", "u1").reshape(2, 5)
    assert found["vectors"][...][:, 1, 2].tolist() == [5, 7, 7, 23]
    assert found["words"][...].tobytes() == b"ab\0\0\0cd\0\0\0" + b"\0" * 5 + b"0\x001\0\0"


def space_padded(file: h5py.File) -> None:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(4)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    made = h5py.h5d.create(file.id, b"padded", kind, h5py.h5s.create_simple((2,)))
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, numpy.array([b"ab  ", b"    "], "S4"), kind)


def test_texts_keep_their_padding(store: terrace.Store, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "padded.h5", "w") as file:
        space_padded(file)
    assert store.import_dataset("padded", tmp_path / "padded.h5")["file"][...].tobytes() == b"ab      "


@pytest.mark.parametrize("version", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4"])
def test_netcdf_of_every_version(store: terrace.Store, tmp_path: Path, version: Any) -> None:
    kinds = ["i1", "i2", "i4", "f4", "f8", "S1"] + (
        ["u1", "u4", "i8", "u8"] if version[-4:] in {"DATA", "CDF4"} else []
    )
    with netCDF4.Dataset(tmp_path / "made.nc", "w", format=version) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        for kind in kinds:
            one = file.createVariable(f"fixed_{kind}", kind, ("x",))
            one[:] = numpy.array([b"a", b"b", b"c"]) if kind == "S1" else numpy.array([1, 2, 100], kind)
            many = file.createVariable(f"many_{kind}", kind, ("time", "x"))
            many[:5] = numpy.tile(one[:], (5, 1))
        scaled = file.createVariable("scaled", "i2", ("x",), fill_value=-5)
        scaled.scale_factor = 0.5
        scaled[:2] = [1, 2]
        file.createVariable("alone", "f8", ())[...] = numpy.nan
    dataset = store.import_dataset("made", tmp_path / "made.nc")
    found = variables(dataset)
    with netCDF4.Dataset(tmp_path / "made.nc") as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        assert len(file.variables) == 2 * len(kinds) + 2
        for name, expected in file.variables.items():
            values = numpy.asarray(expected[...])
            if name.startswith("many") and version != "NETCDF4":
                assert found["record"].dims == ("time",)
                one = found["record"][...][name]
            else:
                assert found[name].dims == expected.dimensions
                one = found[name][...]
            assert one.astype(one.dtype.newbyteorder("="), copy=False).tobytes() == values.tobytes(), name
    if version != "NETCDF4":
        bytes_ = (tmp_path / "made.nc").read_bytes()
        view = dataset["file"]
        again = bytearray(view.length)
        view.read_into(0, again)
        assert again == bytes_[: len(again)] and len(bytes_) - len(again) < 4, "the view is the file"


def test_coordinates_of_texts_have_the_dimensions_of_the_file(store: terrace.Store, tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "made.nc", "w", format="NETCDF4_CLASSIC") as file:
        for name, length in {"y": 2, "letters": 3}.items():
            file.createDimension(name, length)
        file.createVariable("y", "S1", ("y", "letters"))[:] = numpy.array([[b"a", b"b", b"c"], [b"d", b"e", b"f"]])
        file.createVariable("a", "f8", ("y",))[:] = [1, 2]
    found = variables(store.import_dataset("made", tmp_path / "made.nc"))
    assert {name: one.dims for name, one in found.items()} == {"a": ("y",), "y": ("y", "letters")}


@pytest.mark.parametrize("name", ["c", "fortran", "scalar", "rows", "big", "dates", "words"])
def test_numpy_files(store: terrace.Store, tmp_path: Path, name: str) -> None:
    array = {
        "c": numpy.arange(15, dtype="<f4").reshape(3, 5),
        "fortran": numpy.asfortranarray(numpy.arange(30, dtype=">i8").reshape(2, 3, 5)),
        "scalar": numpy.array(1.5),
        "rows": numpy.ones(4, [("a", "<i4"), ("b", "<f8", (2,)), ("c", "S3")]),
        "big": nans(">f4"),
        "dates": numpy.array(["2026-01-01", "NaT"], "M8[s]"),
        "words": numpy.array(["äöü", "b"]),
    }[name]
    numpy.save(tmp_path / f"{name}.npy", array)
    with pytest.warns(UserWarning, match="the unit of <M8") if name == "dates" else nullcontext():
        dataset = store.import_dataset(name, tmp_path / f"{name}.npy")
    assert list(dataset["file"]) == [name], "there is no header"
    check_same(dataset["file"][name], numpy.load(tmp_path / f"{name}.npy"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_groups(store: terrace.Store, tmp_path: Path, zarr_format: Any) -> None:
    group = zarr.open_group(tmp_path / "made.zarr", mode="w", zarr_format=zarr_format)
    made = numpy.random.default_rng(2).integers(0, 1000, (50, 30))
    arrays = {
        "plain": (nans("<f4"), {}),
        "E/x": (made.astype("<u2"), {"chunks": (7, 30)}),
        "E/deep/x": (made.astype("<f8"), {"chunks": (20, 8), "compressors": None}),
        "truth": (made > 500, {"chunks": (50, 30)}),
        "half": (made.astype("f2"), {}),
        "complex": (made.astype("c8"), {"chunks": (11, 11)}),
        "scalar": (numpy.array(7, "i1"), {}),
        "turned": (made.astype("<i4"), {"chunks": (8, 8)} | ({"order": "F"} if zarr_format == 2 else {})),
    }
    if zarr_format == 2:
        arrays |= {
            "big": (nans(">f4"), {}),
            "words": (numpy.array([b"no", b"five "], "S5"), {}),
            "texts": (numpy.array(["äö", "b"], "<U2"), {}),
            "big_texts": (numpy.array(["äö", "b"], ">U2"), {}),
            "dates": (numpy.array(["2026-01-01", "NaT"], "<M8[s]"), {}),
            "big_date": (numpy.array("2026-01-01", ">M8[s]"), {}),
            "big_dates": (numpy.array(["2026-01-01", "NaT"], ">M8[s]"), {}),
            "rows": (numpy.ones(4, [("a", "<i4"), ("b c", "<f8")]), {}),
            "big_rows": (numpy.ones(4, [("a", ">i4"), ("b c", ">f8")]), {}),
        }
    else:
        big = zarr.codecs.BytesCodec(endian="big")
        arrays |= {
            "big": (nans("<f4"), {"serializer": big}),
            "shards": (made, {"chunks": (5, 5), "shards": (20, 10)}),
            "transposed": (
                made.astype("<i4"),
                {"chunks": (8, 8), "filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
            ),
        }
    for path, (array, how) in arrays.items():
        group.create_array(path, data=array, **how)
    unwritten = group.create_array("unwritten", shape=(10,), chunks=(4,), dtype="i2", fill_value=7)
    unwritten[3:5] = 1
    group["E"].attrs["units"] = "V/m"
    group.create_array("empty", shape=(0, 4), chunks=(1, 4), dtype="i4")
    with pytest.warns(UserWarning, match="/empty: it has no elements") as warned:
        dataset = store.import_dataset("made", tmp_path / "made.zarr")
    assert len(warned) == 1
    found = variables(dataset)
    assert found.keys() == {named(path) for path in arrays} | {"unwritten"}
    for path in [*arrays, "unwritten"]:
        expected = group[path][...]
        variable = found[named(path)]
        if zarr_format == 3 and path == "big":
            assert variable.dtype == ">f4"
            expected = expected.astype(">f4")
        check_same(variable, expected)
    assert found["unwritten"].fillvalue == 7 and dict(dataset.attrs) == {"E/units": "V/m"}
    assert list(dataset) == ["little_endian", "big_endian"]
    alone = store.import_dataset("alone", tmp_path / "made.zarr/E/x")
    check_same(alone["file"]["x"], made.astype("<u2"))


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((4, 1024, 1024), None),
        ((2048, 2048), (100, 100)),
        ((64, 2**16), (64, 1000)),
        ((2**22,), (2**22,)),
        ((1, 2**22), None),
    ],
)
def test_memory_is_bounded_by_pieces(store: terrace.Store, tmp_path: Path, shape: Any, chunks: Any) -> None:
    with h5py.File(tmp_path / "long.h5", "w") as file:
        made = numpy.random.default_rng(3).random(shape).astype("f8")
        file.create_dataset("long", data=made, chunks=chunks)
    tracemalloc.start()
    try:
        dataset = store.import_dataset("long", tmp_path / "long.h5")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A chunk is read as a whole.
    assert most < 1.2 * max(PIECE_BYTES, 8 * numpy.prod(chunks or 1)), most
    check_same(dataset["file"]["long"], made)


@dataclass
class Cut:
    """What `pieces` has to know of an array."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    itemsize: int


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 20)), max_size=4), st.booleans(), st.integers(0, 22))
def test_pieces_cover_an_array_once(dims: list[tuple[int, int]], chunked: bool, power: int) -> None:
    shape, chunks = tuple(length for length, _ in dims), tuple(chunk for _, chunk in dims)
    source: Any = Cut(shape, chunks if chunked else None, 2**power)
    counts = numpy.zeros(shape, int)
    for ranges in pieces(source):
        counts[tuple(slice(one.start, one.stop) for one in ranges)] += 1
        size = 2**power * numpy.prod([len(one) for one in ranges])
        chunk = 2**power * numpy.prod([min(pair) for pair in dims]) if chunked else 2**power
        assert size <= max(MAX_PIECE_BYTES, chunk)
        if chunked:
            assert all(one.start % chunk == 0 for one, chunk in zip(ranges, chunks))
    assert (counts == 1).all()


@pytest.mark.parametrize("exception", ["damaged", "interrupted", "warned"])
def test_an_import_that_fails_leaves_nothing(
    store: terrace.Store, tmp_path: Path, exception: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = numpy.arange(1000)
        file.create_dataset("b", (4, 100), "f8", chunks=(1, 100), compression="gzip")
        file["b"][...] = 1
        if exception == "damaged":
            file["b"].id.write_direct_chunk((2, 0), b"no gzip at all")
        if exception == "warned":
            file["texts"] = ["of various", "lengths"]
    before = {one.key: one.generation for one in store.ls()}
    with warnings.catch_warnings(action="error"):
        if exception == "damaged":
            with pytest.raises(OSError, match="filter returned failure"):
                store.import_dataset("a", tmp_path / "a.h5")
        elif exception == "warned":
            with pytest.raises(UserWarning, match="/texts"):
                store.import_dataset("a", tmp_path / "a.h5")
        else:
            write = terrace.Variable.write_elements

            def interrupted(self: terrace.Variable, *arguments: Any) -> None:
                write(self, *arguments)
                signal.raise_signal(signal.SIGINT)

            monkeypatch.setattr(terrace.Variable, "write_elements", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.import_dataset("a", tmp_path / "a.h5")
    assert store.datasets() == [] and {one.key: one.generation for one in store.ls()} == before
    with pytest.raises(terrace.NotFoundError):
        store.dataset("a")


@pytest.mark.parametrize("version", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_a_dimension_without_records_yet(store: terrace.Store, tmp_path: Path, version: Any) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=version) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("x", "f4", ("x",))[:] = [1, 2, 3]
        file.createVariable("later", "f4", ("time", "x"))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        dataset = store.import_dataset("a", tmp_path / "a.nc")
    assert [name for name in dataset["file"] if name[0] != "_"] == ["x"]
    assert dataset["file"]["x"][...].tolist() == [1, 2, 3]
    assert sum("/later: it has no elements" in str(one.message) for one in warned) == 1


def test_a_file_that_ends_too_early_leaves_nothing(store: terrace.Store, tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 100)
        file.createVariable("a", "f8", ("x",))[:] = 1
    whole = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(whole[:-8])
    with pytest.raises(terrace.RefusedError, match="ends within its values"):
        store.import_dataset("a", tmp_path / "a.nc")
    assert store.datasets() == []
    (tmp_path / "a.nc").write_bytes(whole)
    assert (store.import_dataset("a", tmp_path / "a.nc")["file"]["a"][...] == 1).all()


def test_a_dataset_of_the_name_stays(store: terrace.Store, tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.arange(3))
    first = store.import_dataset("a", tmp_path / "a.npy")
    declaration = first.declaration
    numpy.save(tmp_path / "a.npy", numpy.zeros(4))
    before = {one.key: one.generation for one in store.ls()}
    with pytest.raises(terrace.ConflictError):
        store.import_dataset("a", tmp_path / "a.npy")
    assert {one.key: one.generation for one in store.ls()} == before
    assert first.declaration == declaration and first["file"]["a"][...].tolist() == [0, 1, 2]


def test_what_has_no_values_is_refused(store: terrace.Store, tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("struct a { int b; };")
    with pytest.raises(terrace.RefusedError, match="no values"):
        store.import_dataset("a", tmp_path / "a.h")
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "a.nc")):
        store.import_dataset("a", tmp_path / "a.nc")
    (tmp_path / "a").write_text("neither")
    with pytest.raises(terrace.RefusedError, match="it is not known what this is"):
        store.import_dataset("a", tmp_path / "a")
    numpy.save(tmp_path / "empty.npy", numpy.zeros((0, 3)))
    with pytest.raises(terrace.RefusedError, match="cannot be 0 elements long"):
        store.import_dataset("a", tmp_path / "empty.npy")
    assert store.datasets() == []


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_a_missing_library_is_named(
    store: terrace.Store, tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "h5py":
        with h5py.File(tmp_path / "a", "w") as file:
            file["a"] = 1
    else:
        zarr.create_array(tmp_path / "a", data=numpy.zeros(3))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install {library}") as raised:
        store.import_dataset("a", tmp_path / "a")
    assert raised.value.name == library and store.datasets() == []


def test_what_is_left_out_is_a_warning(store: terrace.Store, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["good"] = numpy.arange(3)
        file["texts"] = ["of various", "lengths"]
        file.create_dataset("none", (0, 3), "f4", maxshape=(None, 3))
        file["good"].attrs["pointer"] = file["good"].ref
    with pytest.warns(UserWarning, match="left out") as warned:
        dataset = store.import_dataset("a", tmp_path / "a.h5")
    for words in [
        "/texts: its elements are of various lengths",
        "/none: it has no elements",
        "attribute pointer of /good",
    ]:
        assert sum(words in str(one.message) for one in warned) == 1
    assert len(warned) == 3 and {one.filename for one in warned} == {__file__}
    assert dataset["file"][...].tolist() == [0, 1, 2]


def own(attributes: Any) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in HIDDEN}


def test_xarray_opens_an_imported_group(store: terrace.Store, tmp_path: Path) -> None:
    made = xarray.Dataset({"t": (("y", "x"), numpy.ones((2, 3)), {"units": "K"}), "x": ("x", [1, 2, 3])})
    made.t.encoding["chunks"] = (1, 2)
    made.to_zarr(tmp_path / "made.zarr", consolidated=False)
    store.import_dataset("made", tmp_path / "made.zarr")
    again = xarray.open_dataset("made", engine="terrace", store=store)
    assert again.equals(made)
    assert again.t.attrs["units"] == "K"


def test_a_file_survives_import_and_export(store: terrace.Store, data: Path, tmp_path: Path) -> None:
    source = data / "nc/A1B_north_america.nc"
    store.import_dataset("real", source)["file"].export("hdf5", tmp_path / "again.h5")
    with h5py.File(source) as before, h5py.File(tmp_path / "again.h5") as after:
        assert own(after.attrs).keys() == own(before.attrs).keys()
        for path, expected in hdf5_datasets(before).items():
            found = after[path]
            assert found.dtype == expected.dtype and found[...].tobytes() == expected[...].tobytes()
            assert found.fillvalue == expected.fillvalue
            assert own(found.attrs).keys() == own(expected.attrs).keys()
            for name, value in own(expected.attrs).items():
                numpy.testing.assert_array_equal(found.attrs[name], value)
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(tmp_path / "again.h5") as after:
        assert after.variables.keys() == before.variables.keys()
        for name, expected in before.variables.items():
            assert after[name].dimensions == expected.dimensions


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4_CLASSIC"])
def test_texts_of_classic_files_are_texts_to_xarray(store: terrace.Store, tmp_path: Path, form: Any) -> None:
    texts = numpy.array([["a", "bcd"], ["", "é"], ["zz", "y"]])
    made = xarray.Dataset(
        {"all": (("y", "x"), texts), "one": ((), numpy.array("xyz")), "number": (("y",), numpy.arange(3.0))},
        {"y": texts[:, 0]} if form != "NETCDF4_CLASSIC" else {},
    )
    made.to_netcdf(tmp_path / "a.nc", format=form, engine="netcdf4")
    store.import_dataset("a", tmp_path / "a.nc")
    read = xarray.open_dataset("a", engine="terrace", store=store)
    for name in made.variables:
        xarray.testing.assert_equal(read[name], made[name])
    assert read["all"].isel(x=1, y=slice(None, None, -2)).values.tolist() == ["y", "bcd"]
    assert read.one == "xyz" and ("y" not in made or read["all"].sel(y="zz").values.tolist() == ["zz", "y"])


def test_elements_that_are_arrays_are_dimensions_to_xarray(store: terrace.Store, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["names"] = numpy.array([b"ab", b"c", b""], "S4")
    store.import_dataset("a", tmp_path / "a.h5")
    names = xarray.open_dataset("a", engine="terrace", store=store).names
    expected = numpy.array([b"ab", b"c", b""], "S4").view("u1").reshape(3, 4)
    assert names.shape == (3, 4) and (names.values == expected).all()
    assert (names[::-1, 1:3].values == expected[::-1, 1:3]).all() and names[0, 1] == ord("b")
