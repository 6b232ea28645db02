"""Datasets with the values of files in other formats."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from terrace._dataset import GAP_BYTES, PIECE_BYTES, Dataset, Variable, View
from terrace._errors import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from terrace._store import Store

LIBRARIES = {"hdf5": "h5py", "zarr": "zarr", "numpy": "numpy"}
"""The libraries that read values. Those of classic NetCDF files are copied with the file."""
MAX_PIECE_BYTES = 64 << 20
"""The size of pieces that would be written in rows shorter than `GAP_BYTES` if they were smaller."""


class HdfSource:
    """A dataset of an HDF5 file. Its bytes are read as they are stored, so that nothing is converted."""

    def __init__(self, h5py: Any, dataset: Any) -> None:
        self.h5s, self.id, self.type = h5py.h5s, dataset.id, dataset.id.get_type()
        # These outlive a read: if they were freed after it, Python would lose a Ctrl-C that came during the read.
        self.stored, self.memory = dataset.id.get_space(), None
        self.shape: tuple[int, ...] = dataset.shape
        self.itemsize: int = self.type.get_size()
        self.chunks: tuple[int, ...] | None = dataset.chunks

    def read_into(self, out: NDArray[Any], ranges: Sequence[range]) -> None:
        """Reads the elements at these indices. `out` has a type of as many bytes, and may have more dimensions."""
        if not ranges:
            self.id.read(self.h5s.ALL, self.h5s.ALL, out, self.type)
            return
        lengths = tuple(map(len, ranges))
        self.stored.select_hyperslab(tuple(one.start for one in ranges), lengths)
        self.memory = self.h5s.create_simple(lengths)
        self.id.read(self.memory, self.stored, out, self.type)


class ArraySource:
    """An array that reads its elements when it is indexed: of Zarr, or a mapped NumPy file."""

    def __init__(self, array: Any, chunks: tuple[int, ...] | None = None) -> None:
        self.array, self.chunks = array, chunks
        self.shape: tuple[int, ...] = array.shape
        self.itemsize: int = array.dtype.itemsize

    def read_into(self, out: NDArray[Any], ranges: Sequence[range]) -> None:
        """Reads the elements at these indices. `out` has a type of as many bytes, and may have more dimensions."""
        import numpy

        # Single elements are read in the machine's byte order.
        read = numpy.asarray(self.array[tuple(slice(one.start, one.stop) for one in ranges)], self.array.dtype)
        if read.dtype.kind in "biufc":
            out[...] = read.astype(out.dtype, casting="equiv")
        else:
            out[...] = numpy.ascontiguousarray(read).reshape(-1).view(out.dtype).reshape(out.shape)


Source: TypeAlias = HdfSource | ArraySource


def import_dataset(store: Store, name: str, path: str | os.PathLike[str]) -> Dataset:
    """Adds a dataset with the variables of a file and their values, as `Store.import_dataset` says."""
    format_, declaration, sources, left_out = Dataset.describe_file(path)
    if format_ != "netcdf" and not sources:
        raise RefusedError(f"{os.fspath(path)} has no values; add_dataset adds a dataset by a declaration")
    library = loaded(LIBRARIES[format_]) if format_ in LIBRARIES else None
    Dataset.add(store, name, declaration)
    try:
        dataset = Dataset(store, name)
        if library is None:
            copy_file(dataset["file"], path)
        else:
            views = [dataset[view].variables for view in dataset]
            variables = {variable: one for view in views for variable, one in view.items()}
            with closing(opened(library, path, sources)) as values:
                for (variable, _), source in zip(sources, values):
                    copy(variables[variable], source)
        for what in left_out:
            warnings.warn(f"{os.fspath(path)}: left out: {what}", stacklevel=3)
    except BaseException:
        Dataset.remove(store, name)
        raise
    return dataset


def loaded(library: str) -> Any:
    """Imports a library that reads values."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"{library} reads the values of this file: pip install {library}", name=library) from error


def opened(
    library: Any, path: str | os.PathLike[str], sources: Sequence[tuple[str, str]]
) -> Generator[Source, None, None]:
    """Opens the values of variables, one after the other."""
    if library.__name__ == "h5py":
        with library.File(path, "r") as file:
            for _, of in sources:
                yield HdfSource(library, file[of])
    for _, of in sources:
        if library.__name__ == "zarr":
            array = library.open_array(os.path.join(path, of), mode="r")
            yield ArraySource(array, array.chunks)
        elif library.__name__ == "numpy":
            yield ArraySource(library.load(path, mmap_mode="r"))


def copy_file(view: View, path: str | os.PathLike[str]) -> None:
    """Copies a file to a view that is this file byte for byte. Bytes after its end, which pad the file, are not."""
    with open(path, "rb") as file:
        for at in range(0, view.length, PIECE_BYTES):
            wanted = min(PIECE_BYTES, view.length - at)
            piece = file.read(wanted)
            # Nothing need follow the last value to pad it to 4 bytes.
            if len(piece) + 3 < wanted:
                raise RefusedError(f"{os.fspath(path)} ends within its values; copy it again from where it is whole")
            view.write_at(at, piece)


def copy(variable: Variable, source: Source) -> None:
    """Copies the elements of an array in pieces."""
    import numpy

    # The elements of a source may be arrays, which are further dimensions of a variable or of its own elements.
    whole = (*variable.shape, *variable.dtype.shape)
    ndim, base = len(source.shape), variable.dtype.base
    if whole[:ndim] != tuple(source.shape) or prod(whole[ndim:]) * base.itemsize != source.itemsize:
        raise RefusedError(f"the file has changed while {variable.name} was imported; import it again")
    for ranges in pieces(source):
        out = numpy.empty([*map(len, ranges), *whole[ndim:]], base)
        source.read_into(out, ranges)
        variable.write_elements(out, ranges)
        del out


def pieces(source: Source) -> Iterator[tuple[range, ...]]:
    """Cuts an array into pieces of whole chunks."""
    if 0 in source.shape:
        return
    lengths = piece_lengths(source, PIECE_BYTES)
    if row_bytes(source, lengths) < GAP_BYTES:
        lengths = piece_lengths(source, MAX_PIECE_BYTES)
    for first in product(*(range(0, length, step) for length, step in zip(source.shape, lengths))):
        yield tuple(range(at, min(at + step, length)) for at, step, length in zip(first, lengths, source.shape))


def piece_lengths(source: Source, most: int) -> list[int]:
    """Returns the lengths of pieces of at most this many bytes with as many of the last dimensions whole as possible. A
    longer chunk is a piece of its own, because libraries read no less."""
    lengths = list(source.shape)
    for axis, chunk in enumerate(source.chunks or [1] * len(lengths)):
        one = prod(lengths[:axis]) * prod(lengths[axis + 1 :]) * source.itemsize
        fit = most // one // chunk * chunk
        lengths[axis] = min(lengths[axis], max(fit, chunk))
        if fit >= chunk:
            break
    return lengths


def row_bytes(source: Source, lengths: list[int]) -> int:
    """Returns how many bytes of a piece lie together in a view."""
    row = source.itemsize
    for length, whole in zip(reversed(lengths), reversed(source.shape)):
        row *= length
        if length < whole:
            break
    return row
