"""Makes the HDF5 files beside this one: python3 make.py, with h5py and NumPy."""

import h5py
import numpy as np

SPREAD = np.dtype({"names": ["b", "a"], "formats": ["<f8", "u1"], "offsets": [8, 0], "itemsize": 24})

for name, version in [("old.h5", "earliest"), ("new.h5", "latest")]:
    with h5py.File(name, "w", libver=version) as file:
        file["fields/E/x"] = np.zeros((5, 7))
        file["fields/E/y"] = np.zeros((5, 7), ">f4")
        file["fields/B"] = np.zeros(3, "<c16")
        file["fields_B"] = np.zeros(3, "<f2")
        file["counts"] = np.zeros((2, 3, 4), ">i8")
        file["flags"] = np.zeros(9, bool)
        file["particles"] = np.zeros(11, [("id", "<u4"), ("place", "<f4", (3,)), ("charge", "<i2")])
        file["spread"] = np.zeros(2, SPREAD)
        file["words"] = np.zeros(4, "S10")
        file["scalar"] = np.int8(5)
        file["raw"] = np.zeros(2, "V6")
        colours = h5py.enum_dtype({"RED": 0, "GREEN": 1}, basetype="<u2")
        file.create_dataset("colours", (3,), dtype=colours)
        file.create_dataset("chunked", (100, 100), "<i4", chunks=(10, 10), compression="gzip")
        # What the language cannot say.
        file.create_dataset("texts", (2,), dtype=h5py.string_dtype())
        file.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype(np.int32))
        file.create_dataset("links", (2,), dtype=h5py.ref_dtype)
        file["none"] = h5py.Empty("f4")
        file.create_dataset("growing", (0,), "<f4", maxshape=(None,))
        file["mixed"] = np.zeros(2, [("a", "<f4"), ("b", ">f4")])
        file["more_counts"] = file["counts"]
        file["fields/up"] = file["fields"]
        file["nowhere"] = h5py.SoftLink("/not/there")
        scale = file.create_dataset("dimension", (5,), ">f4")
        scale.make_scale("This is a netCDF dimension but not a netCDF variable.         5")
