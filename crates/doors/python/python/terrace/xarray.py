"""Views of datasets for xarray: `xarray.open_dataset("particles", engine="terrace", view="fields")`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from terrace._dataset import Variable
from terrace._store import Store


class LazyVariable(BackendArray):
    """A variable whose elements xarray reads when it needs them.

    Elements that are arrays are further dimensions. Bytes with the attribute `_Encoding`, by which xarray writes texts
    into classic NetCDF files, are characters, which it joins and decodes.
    """

    def __init__(self, variable: Variable) -> None:
        self.variable, self.shape, self.dtype = variable, variable.shape + variable.dtype.shape, variable.dtype.base
        if self.dtype == numpy.uint8 and "_Encoding" in variable.attrs:
            self.dtype = numpy.dtype("S1" if not variable.dtype.shape else f"S{variable.dtype.itemsize}")
            self.shape = variable.shape

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, index: tuple[Any, ...]) -> Any:
        read = numpy.asarray(self.variable[index[: self.variable.ndim]])
        if self.dtype.kind == "S":
            lines = numpy.ascontiguousarray(read).reshape(-1)
            return lines.view(self.dtype).reshape(read.shape[: read.ndim - len(self.variable.dtype.shape)])
        return read[(..., *index[self.variable.ndim :])]


class TerraceBackend(BackendEntrypoint):
    """Opens a view of a dataset. xarray's variables are those of the view."""

    description = "Open views of Terrace's datasets"
    open_dataset_parameters = (
        "filename_or_obj",
        "drop_variables",
        "view",
        "store",
        "dims",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "use_cftime",
        "decode_timedelta",
    )

    def open_dataset(  # type: ignore[override]
        self,
        filename_or_obj: str | os.PathLike[str],
        *,
        drop_variables: str | Iterable[str] | None = None,
        view: str | None = None,
        store: str | os.PathLike[str] | Store | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
    ) -> xarray.Dataset:
        """Opens a view of the dataset of this name.

        `view` may be left out if the dataset has one view. `store` is a store, or its directory. `dims` names the
        dimensions of variables. Otherwise, they are the indices of the view, and `x_0`, `x_1`, ... for a variable `x`
        where these have no names, or the same names in arrays of different lengths. The other options decode by the
        attributes, as those of `xarray.decode_cf` do: `_FillValue` masks, `scale_factor` scales, `units` make times.
        """
        opened = store if isinstance(store, Store) else Store(store)
        dataset = opened.dataset(os.fspath(filename_or_obj))
        if view is None:
            if len(dataset) != 1:
                raise ValueError(f"the dataset {dataset.name!r} has several views; name one: {', '.join(dataset)}")
            view = next(iter(dataset))
        dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        found = [one for one in dataset[view].variables.values() if one.name not in dropped]
        named = named_dims(found) | dict(dims or {})
        variables = {}
        for one in found:
            lazy = LazyVariable(one)
            given = list(named[one.name])
            given += [f"{one.name}_{axis}" for axis in range(len(given), len(lazy.shape))]
            variables[one.name] = xarray.Variable(given, indexing.LazilyIndexedArray(lazy), as_netcdf(one.attrs))
        attrs = {"dataset": dataset.name, "view": view} | as_netcdf(dataset.attrs)
        return xarray.decode_cf(
            xarray.Dataset(variables, attrs=attrs),
            concat_characters=concat_characters,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )


def as_netcdf(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns attributes as NetCDF has them, where a list of one item is the item."""
    return {name: value[0] if numpy.shape(value) == (1,) else value for name, value in attrs.items()}


def named_dims(variables: list[Variable]) -> dict[str, Sequence[str]]:
    """Returns the names of the dimensions of variables, such that each name has one length."""
    lengths: dict[str, set[int]] = {}
    for one in variables:
        for dim, length in zip(one.dims, one.shape):
            lengths.setdefault(dim, set()).add(length)
    return {
        one.name: [
            dim if dim and len(lengths[dim]) == 1 and one.dims.count(dim) == 1 else f"{one.name}_{axis}"
            for axis, dim in enumerate(one.dims)
        ]
        for one in variables
    }
