"""Prints means of a NetCDF file and of a Zarr group of a bucket, and what is cached of them, as JSON.

Its argument is the address of the server."""

import json
import sys

import fsspec
import xarray

options = {
    "s3": {"key": "key", "secret": "secret", "endpoint_url": sys.argv[1]},
    "terrace": {"store": "store", "check_after": 0},
}
with xarray.open_dataset("terrace::s3://bucket/sst.nc", engine="h5netcdf", storage_options=options) as netcdf:
    group = xarray.open_zarr("terrace::s3://bucket/sst.zarr", storage_options=options)
    means = [float(opened.surface_temperature.mean()) for opened in (netcdf, group)]
files, _ = fsspec.url_to_fs("terrace::s3://bucket", **options)
print(json.dumps({"means": means, "cached": {one.path: one.why for one in files.cached()}}))
