"""pandas, xarray, dask, pyarrow, h5py and Zarr read and write real files through `terrace://`."""

from pathlib import Path
from typing import Any

import dask.dataframe
import h5py
import numpy
import pandas
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import xarray
import zarr
from fsspec import AbstractFileSystem


@pytest.fixture
def options(place: Path) -> dict[str, Any]:
    return {"store": str(place)}


def test_pandas(files: AbstractFileSystem, options: dict[str, Any], data: Path) -> None:
    files.put(str(data / "tab"), "tab", recursive=True)
    real = pandas.read_parquet(data / "tab/userdata1.parquet")
    frame = pandas.read_parquet("terrace://tab/userdata1.parquet", storage_options=options)
    pandas.testing.assert_frame_equal(frame, real)
    frame.to_parquet("terrace://out/again.parquet", storage_options=options)
    pandas.testing.assert_frame_equal(pandas.read_parquet("terrace://out/again.parquet", storage_options=options), real)
    csv = pandas.read_csv("terrace://tab/userdata1.csv", storage_options=options)
    csv.to_csv("terrace://out/again.csv.gz", storage_options=options, index=False)
    again = pandas.read_csv("terrace://out/again.csv.gz", storage_options=options)
    pandas.testing.assert_frame_equal(again, pandas.read_csv(data / "tab/userdata1.csv"))


def test_dask(files: AbstractFileSystem, options: dict[str, Any], data: Path) -> None:
    files.put(str(data / "iot"), "iot", recursive=True)
    frame = dask.dataframe.read_csv("terrace://iot/*.csv", storage_options=options, blocksize=200_000)
    assert frame.npartitions > 4
    real = pandas.concat(pandas.read_csv(path) for path in sorted((data / "iot").glob("*.csv")))
    assert frame["value"].sum().compute() == pytest.approx(real["value"].sum())
    frame.to_parquet("terrace://out/iot", storage_options=options)
    again = dask.dataframe.read_parquet("terrace://out/iot", storage_options=options).compute()
    assert len(again) == len(real) and again["value"].sum() == pytest.approx(real["value"].sum())


def test_dask_in_other_processes(files: AbstractFileSystem, options: dict[str, Any], data: Path) -> None:
    files.put(str(data / "iot"), "iot", recursive=True)
    frame = dask.dataframe.read_csv("terrace://iot/*.csv", storage_options=options, blocksize=400_000)
    count = frame["value"].count().compute(scheduler="processes", num_workers=2)
    assert count == sum(len(pandas.read_csv(path)) for path in (data / "iot").glob("*.csv"))


def test_pyarrow(files: AbstractFileSystem, data: Path) -> None:
    system = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))
    for name in ["alltypes_tiny_pages_plain.parquet", "lz4_raw_compressed_larger.parquet"]:
        files.put(str(data / "tab" / name), f"tab/{name}")
        table = pyarrow.parquet.read_table(f"tab/{name}", filesystem=system)
        assert table.equals(pyarrow.parquet.read_table(data / "tab" / name))
        pyarrow.dataset.write_dataset(table, f"out/{name}", filesystem=system, format="parquet")
        assert pyarrow.dataset.dataset(f"out/{name}", filesystem=system).to_table().equals(table)


def test_h5py(files: AbstractFileSystem, data: Path) -> None:
    for path in sorted((data / "h5").glob("*.h5")):
        files.put(str(path), f"h5/{path.name}")
        with h5py.File(path) as real, files.open(f"h5/{path.name}", "rb") as opened, h5py.File(opened) as read:
            with files.open(f"out/{path.name}", "w+b") as made, h5py.File(made, "w") as copied:
                for name in read:
                    read.copy(name, copied)
            with files.open(f"out/{path.name}", "rb") as reopened, h5py.File(reopened) as again:
                count = same(real, read) + same(real, again)
        assert count > 0, path


def same(real: h5py.File, other: h5py.File) -> int:
    """Compares all datasets. Returns their number."""
    names: list[str] = []
    real.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    for name in names:
        numpy.testing.assert_array_equal(real[name][()], other[name][()], err_msg=name)
    return len(names)


def test_h5py_changes_a_file_in_place(files: AbstractFileSystem, data: Path) -> None:
    files.put(str(data / "h5/openpmd_femm_3d.h5"), "h5/a.h5")
    with files.open("h5/a.h5", "r+b") as opened, h5py.File(opened, "r+") as file:
        name = file.visititems(lambda name, item: name if isinstance(item, h5py.Dataset) else None)
        before = file[name][()]
        file[name][10:20] = 7
    with files.open("h5/a.h5") as opened, h5py.File(opened) as file:
        assert (file[name][10:20] == 7).all()
        numpy.testing.assert_array_equal(file[name][20:], before[20:])


def netcdf(path: Path) -> xarray.Dataset:
    return xarray.open_dataset(path, engine="h5netcdf", decode_cf=False)


def test_xarray(files: AbstractFileSystem, options: dict[str, Any], data: Path) -> None:
    for path in sorted((data / "nc").glob("*.nc")):
        files.put(str(path), f"nc/{path.name}")
        with netcdf(path) as real:
            with xarray.open_dataset(files.open(f"nc/{path.name}"), engine="h5netcdf", decode_cf=False) as read:
                xarray.testing.assert_identical(read, real)
            real.to_zarr(f"terrace://zarr/{path.stem}", storage_options=options, mode="w", consolidated=False)
            again = f"terrace://zarr/{path.stem}"
            with xarray.open_zarr(again, storage_options=options, consolidated=False, decode_cf=False) as read:
                xarray.testing.assert_equal(read, real)


def test_zarr(files: AbstractFileSystem, options: dict[str, Any], data: Path) -> None:
    files.put(str(data / "npy/camera_wiener_f64.npy"), "npy/camera.npy")
    with files.open("npy/camera.npy") as opened:
        picture = numpy.load(opened)
    array = zarr.create_array(
        "terrace://zarr/picture", shape=picture.shape, chunks=(100, 100), dtype=picture.dtype, storage_options=options
    )
    array[:] = picture
    array[10:20, 90:210] = 0
    picture[10:20, 90:210] = 0
    again = zarr.open_array("terrace://zarr/picture", storage_options=options, mode="r")
    numpy.testing.assert_array_equal(again[:], picture)
    numpy.testing.assert_array_equal(again[5:15:3, ::7], picture[5:15:3, ::7])
