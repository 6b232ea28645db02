"""Attributes and fill values: imported from files, in Python, and in exports that other libraries read."""

import re
import subprocess
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy
import pytest
import xarray
import zarr

import terrace

PROGRAM = Path(__file__).parents[4] / "target/debug/terrace"
HIDDEN = {"DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "CLASS", "NAME"}

DECLARATION = """
dataset {
    attribute title = "A model's sea"
    var sst [4, 3]int16
    attribute sst units = "K"
    attribute sst scale_factor = 0.5
    attribute sst valid_range = int16 [0, 4000]
    attribute sst names = ["a", "b"]
    attribute sst _FillValue = int16 [-32768]
    attribute sst good = true
    fill sst = -32768
    var time [4]int32
    attribute time units = "days since 2000-01-01"
    var buoys [5]struct { depth float64; id int32 }
    attribute buoys source = char "by hand"
    attribute buoys.depth units = "m"
    fill buoys.depth = nan
}
view all { var sst [time, lon] = sst[time, lon]; var time [time] = time[time]; var buoys = buoys }
replica main { view all }
"""


def imported(source: Path) -> tuple[str, str]:
    """Returns the declaration of a file, with a replica of its views, and what is left out."""
    ran = subprocess.run([PROGRAM, "dataset", "import", source], capture_output=True, text=True, check=True)
    views = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("view ")]
    return ran.stdout + "replica main {\n" + "".join(f"view {view}\n" for view in views) + "}\n", ran.stderr


def own(attributes: Any) -> dict[str, Any]:
    """Returns the attributes of an HDF5 object that are not those of its dimensions."""
    return {name: value for name, value in attributes.items() if name not in HIDDEN}


def check_same(found: Any, expected: Any, name: str) -> None:
    """Compares values and, where both are NumPy's, their types."""
    if isinstance(found, numpy.generic | numpy.ndarray) and isinstance(expected, numpy.generic | numpy.ndarray):
        # Texts of one length are as long as the longest one.
        assert found.dtype.kind == expected.dtype.kind and (
            found.dtype.kind == "S" or found.dtype.itemsize == expected.dtype.itemsize
        ), name
    numpy.testing.assert_array_equal(found, expected, err_msg=name)


def test_python_has_attributes_and_fill_values(store: terrace.Store) -> None:
    dataset = store.add_dataset("sea", DECLARATION)
    assert dict(dataset.attrs) == {"title": "A model's sea"}
    sst, buoys = dataset["all"]["sst"], dataset["all"]["buoys"]
    assert list(sst.attrs) == ["units", "scale_factor", "valid_range", "names", "_FillValue", "good"]
    assert sst.attrs["units"] == "K" and sst.attrs["names"] == ["a", "b"] and sst.attrs["good"]
    assert (sst.attrs["scale_factor"], sst.attrs["scale_factor"].dtype) == (0.5, "f8")
    assert sst.attrs["valid_range"].tolist() == [0, 4000] and sst.attrs["valid_range"].dtype == "i2"
    assert dict(buoys.attrs) == {"source": "by hand", "depth.units": "m"}
    assert sst.fillvalue == -32768 and (sst[...] == -32768).all()
    assert numpy.isnan(buoys.fillvalue["depth"]) and buoys.fillvalue["id"] == 0
    assert numpy.isnan(buoys[...]["depth"]).all() and not buoys[...]["id"].any()
    with pytest.raises(TypeError):
        sst.attrs["units"] = "C"  # type: ignore[index]
    dataset.edit(dataset.declaration.replace('"K"', '"C"'))
    assert dataset["all"]["sst"].attrs["units"] == "C"
    with pytest.raises(terrace.DatasetError, match="only attributes, views and replicas"):
        dataset.edit(dataset.declaration.replace("fill sst = -32768", "fill sst = 0"))


def test_xarray_masks_and_scales(store: terrace.Store, tmp_path: Path) -> None:
    dataset = store.add_dataset("sea", DECLARATION)
    dataset["all"]["sst"][1, :2] = [7, 8]
    dataset["all"]["time"][...] = [0, 1, 2, 3]
    nan = float("nan")
    expected = [[nan] * 3, [3.5, 4, nan], [nan] * 3, [nan] * 3]
    dataset["all"].export("zarr", tmp_path / "sea.zarr")
    opened = xarray.open_dataset("sea", engine="terrace", store=store, drop_variables="buoys")
    exported = xarray.open_zarr(tmp_path / "sea.zarr", consolidated=False)
    for one in (opened, exported):
        numpy.testing.assert_array_equal(one.sst, expected)
        assert one.attrs["title"] == "A model's sea" and one.sst.attrs["units"] == "K"
        assert one.time.values[3] == numpy.datetime64("2000-01-04") and one.sst.dims == ("time", "lon")
        assert one.sst.encoding["_FillValue"] == -32768
    raw = xarray.open_dataset("sea", engine="terrace", store=store, decode_cf=False)
    assert raw.sst.values[0, 0] == -32768 and raw.sst.attrs["scale_factor"] == 0.5
    del opened.sst.attrs["good"]  # NetCDF has no booleans
    opened.sel(time="2000-01-02").to_netcdf(tmp_path / "again.nc")
    with netCDF4.Dataset(tmp_path / "again.nc") as file:
        assert file["sst"]._FillValue == -32768 and file["sst"].names == ["a", "b"]


def test_other_libraries_read_the_exported_attributes(store: terrace.Store, tmp_path: Path) -> None:
    dataset = store.add_dataset("sea", DECLARATION)
    dataset["all"].export("hdf5", tmp_path / "sea.h5")
    dataset["all"].export("zarr", tmp_path / "sea.zarr")
    with h5py.File(tmp_path / "sea.h5") as file:
        assert own(file.attrs) == {"title": "A model's sea"}
        sst = file["sst"]
        expected = dict(dataset["all"]["sst"].attrs)
        assert list(own(sst.attrs)) == list(expected)
        for name, value in expected.items():
            check_same(sst.attrs[name], value, name)
        assert sst.fillvalue == -32768 and numpy.isnan(file["buoys"].fillvalue["depth"])
        assert own(file["buoys"].attrs) == {"source": b"by hand", "depth.units": "m"}
        assert [dim[0].name for dim in sst.dims] == ["/time", "/lon"]
    with netCDF4.Dataset(tmp_path / "sea.h5") as file:
        assert file.title == "A model's sea" and file["sst"].dimensions == ("time", "lon")
        assert file["sst"].units == "K" and file["sst"][:].mask.all()
    with h5py.File(tmp_path / "sea.h5", "r+") as file:
        for number in range(20):
            file["sst"].attrs[f"more {number}"] = number
    with h5py.File(tmp_path / "sea.h5") as file:
        assert list(own(file["sst"].attrs)) == [*expected, *(f"more {number}" for number in range(20))]
    group = zarr.open_group(tmp_path / "sea.zarr", mode="r")
    assert dict(group.attrs) == {"title": "A model's sea"} and group["sst"].fill_value == -32768
    assert group["sst"].attrs["valid_range"] == [0, 4000] and group["sst"].attrs["_FillValue"] == -32768
    assert dict(group["buoys"].attrs) == {"source": "by hand"} and dict(group["buoys/depth"].attrs) == {"units": "m"}
    assert numpy.isnan(group["buoys/depth"][:]).all()


@pytest.mark.parametrize(
    "name", ["A1B_north_america", "cloud_top_height", "issue672", "orca2_votemper", "ostia_monthly"]
)
def test_real_netcdf_files_keep_theirs(store: terrace.Store, data: Path, tmp_path: Path, name: str) -> None:
    source = data / f"nc/{name}.nc"
    declaration, left_out = imported(source)
    assert left_out == ""
    dataset = store.add_dataset("real", declaration)
    dataset["file"].export("hdf5", tmp_path / "again.h5")
    dataset["file"].export("zarr", tmp_path / "again.zarr")
    with h5py.File(source) as before, h5py.File(tmp_path / "again.h5") as after:
        count = 0
        for path, one in [("/", before), *before.items()]:
            if path not in after:
                assert path == "/" or own(one.attrs) == {}, "only dimensions without values are left out"
                continue
            assert own(after[path].attrs).keys() == own(one.attrs).keys()
            for attribute, value in own(one.attrs).items():
                check_same(after[path].attrs[attribute], value, f"{path} {attribute}")
                count += 1
            if isinstance(one, h5py.Dataset):
                check_same(after[path].fillvalue, one.fillvalue, path)
        assert count > 20
    with xarray.open_dataset(source, decode_cf=False) as expected:
        again = xarray.open_zarr(tmp_path / "again.zarr", consolidated=False, decode_cf=False)
        files = [xarray.open_dataset(tmp_path / "again.h5", engine=e, decode_cf=False) for e in ("netcdf4", "h5netcdf")]
        stored = xarray.open_dataset("real", engine="terrace", store=store, decode_cf=False)
        for found in [again, *files, stored]:
            for variable in expected.variables:
                assert found[variable].dims == expected[variable].dims
                assert found[variable].attrs.keys() == expected[variable].attrs.keys()
                for attribute, value in expected[variable].attrs.items():
                    numpy.testing.assert_array_equal(found[variable].attrs[attribute], value, err_msg=attribute)
            for attribute, value in expected.attrs.items():
                numpy.testing.assert_array_equal(found.attrs[attribute], value, err_msg=attribute)


@pytest.mark.parametrize(
    ("name", "count"), [("openpmd_pic_2d_it255", 152), ("elegant_50k_particles_8var", 27), ("rfgun_fields", 24)]
)
def test_real_hdf5_files_keep_those_of_groups(
    store: terrace.Store, data: Path, tmp_path: Path, name: str, count: int
) -> None:
    declaration, left_out = imported(data / f"h5/{name}.h5")
    assert left_out == ""
    store.add_dataset("real", declaration)["file"].export("hdf5", tmp_path / "again.h5")
    with h5py.File(data / f"h5/{name}.h5") as before, h5py.File(tmp_path / "again.h5") as after:
        seen = 0

        def check(path: str, one: Any) -> None:
            nonlocal seen
            for attribute, value in own(one.attrs).items():
                found = after[re.sub(r"\W", "_", path)].attrs if isinstance(one, h5py.Dataset) else after.attrs
                key = f"{path}/{attribute}" if path and not isinstance(one, h5py.Dataset) else attribute
                check_same(found[key], value, f"{path} {attribute}")
                seen += 1

        check("", before)
        before.visititems(check)
        assert seen == count


def test_what_cannot_be_taken_along_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "hard.h5", "w") as file:
        one = file.create_dataset("one", data=numpy.zeros(3))
        one.attrs["reference"] = one.ref
        one.attrs["compound"] = numpy.zeros(1, [("a", "i4")])
        one.attrs["latin"] = numpy.bytes_("é".encode("latin-1"))
        one.attrs["good"] = "é"
        one.attrs.create("lists", [numpy.arange(2), numpy.arange(3)], dtype=h5py.vlen_dtype("i4"), shape=(2,))
        file.create_dataset("text", (2,), "S4", fillvalue=b"none")
    declaration, left_out = imported(tmp_path / "hard.h5")
    assert 'attribute one good = "é"' in declaration
    for words in ["attribute reference of /one", "attribute compound of /one", "attribute latin of /one"]:
        assert words in left_out
    assert "attribute lists of /one" in left_out and "fill value of /text" in left_out
    assert len(left_out.splitlines()) == 5


@pytest.mark.parametrize("version", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
def test_classic_netcdf_files_keep_theirs(store: terrace.Store, tmp_path: Path, version: Any) -> None:
    with netCDF4.Dataset(tmp_path / "classic.nc", "w", format=version) as file:
        file.title = 'classic, "quoted" and é'
        file.createDimension("time", None)
        file.createDimension("x", 3)
        one = file.createVariable("one", "i2", ("x",), fill_value=-5)
        one.units, one.valid_range, one.scale_factor = "K", numpy.array([1, 2, 3], "i2"), numpy.float32(0.1)
        many = file.createVariable("many", "f8", ("time", "x"), fill_value=7.5)
        many.note = ""
        one[:], many[:2] = [1, 2, 3], numpy.arange(6).reshape(2, 3)
    declaration, left_out = imported(tmp_path / "classic.nc")
    assert left_out == ""
    dataset = store.add_dataset("classic", declaration)
    assert dict(dataset.attrs) == {"title": 'classic, "quoted" and é'}
    variables = dataset["file"].variables
    attrs = variables["one"].attrs
    assert attrs["units"] == "K" and attrs["valid_range"].tolist() == [1, 2, 3] and attrs["valid_range"].dtype == "i2"
    assert (attrs["_FillValue"], attrs["_FillValue"].dtype) == (-5, "i2")
    assert (attrs["scale_factor"], attrs["scale_factor"].dtype) == (numpy.float32(0.1), "f4")
    assert variables["one"].fillvalue == -5 and variables["one"][...].tolist() == [-5, -5, -5]
    assert dict(variables["record"].attrs) == {"many._FillValue": 7.5, "many.note": ""}
    assert (variables["record"][...]["many"] == 7.5).all()
    dataset["file"].write_at(0, (tmp_path / "classic.nc").read_bytes())
    assert variables["one"][...].tolist() == [10, 20, 30] and variables["record"][1]["many"].tolist() == [3, 4, 5]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_stores_keep_theirs(store: terrace.Store, tmp_path: Path, zarr_format: Any) -> None:
    values = numpy.array([[1.5, numpy.nan], [2.5, 3.5]], "f4")
    made = xarray.Dataset(
        {"t": (("y", "x"), values, {"units": "K", "levels": [1, 2], "scale": 0.25, "odd": numpy.nan})},
        attrs={"title": "made"},
    )
    made.t.encoding["_FillValue"] = numpy.float32(-999)
    made.to_zarr(tmp_path / "made.zarr", zarr_format=zarr_format, consolidated=False)
    group = zarr.open_group(tmp_path / "made.zarr")
    group.create_array("plain", shape=(3,), dtype="int16", fill_value=7).attrs.update({"maybe": None, "map": {}})
    declaration, left_out = imported(tmp_path / "made.zarr")
    lines = sorted(left_out.splitlines())
    assert len(lines) == 2 and "attribute map of plain" in lines[0] and "attribute maybe of plain" in lines[1]
    dataset = store.add_dataset("made", declaration)
    t = dataset["t"]["t"]
    assert dict(dataset.attrs) == {"title": "made"} and t.dims == ("y", "x")
    assert (
        t.attrs["_FillValue"] == -999 and t.attrs["_FillValue"].dtype == "f4" and t.attrs["levels"].tolist() == [1, 2]
    )
    assert t.attrs["units"] == "K" and t.attrs["scale"] == 0.25 and numpy.isnan(t.attrs["odd"])
    assert dataset["plain"]["plain"][...].tolist() == [7, 7, 7]
    t[...] = numpy.nan_to_num(values, nan=-999)
    dataset["t"].export("zarr", tmp_path / "again.zarr")
    again = xarray.open_zarr(tmp_path / "again.zarr", consolidated=False)
    numpy.testing.assert_array_equal(again.t, values)
    assert again.attrs == {"title": "made"} and again.t.attrs["levels"] == [1, 2]
