"""NumPy arrays as objects. Their dtype determines the encoding, and is stored with them."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import TypeIs

    from terrace._terrace import Object

DTYPE = "numpy.dtype"
SHAPE = "numpy.shape"
ORDER = "numpy.order"


def is_array(data: object) -> TypeIs[NDArray[Any]]:
    """Returns whether an object is an array, without importing NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(data, numpy.ndarray)


def as_array(data: object) -> Any:
    """Converts a NumPy scalar to an array without dimensions; returns other objects unchanged."""
    numpy = sys.modules.get("numpy")
    return numpy.asarray(data) if numpy is not None and isinstance(data, numpy.generic) else data


def element(dtype: numpy.dtype[Any]) -> str | None:
    """Returns the name of a dtype in Terrace's encodings, or `None` if it has no name."""
    if dtype.byteorder == ">" or (dtype.byteorder == "=" and sys.byteorder == "big"):
        return None
    if dtype.kind == "c":
        return f"f{dtype.itemsize * 4}"
    if dtype.kind in "mM":
        return "i64"
    if dtype.kind in "bS" or (dtype.kind in "iu" and dtype.itemsize == 1):
        return "u8"
    if dtype.kind == "U" or (dtype.kind == "V" and dtype.itemsize == 32):
        return "u32" if dtype.kind == "U" else "r32"
    # Half floats have no name of their own; transforms treat all numbers of two bytes alike.
    name = "u16" if dtype.str[1:] == "f2" else f"{dtype.kind}{dtype.itemsize * 8}"
    return name if name in {"i16", "i32", "i64", "u16", "u32", "u64", "f32", "f64"} else None


def laid_out(array: NDArray[Any]) -> tuple[memoryview, dict[str, str]]:
    """Returns the array's bytes, copied only if they are not contiguous, and attributes that describe them."""
    import numpy

    refuse_masked(array)
    if array.dtype.hasobject:
        raise TypeError(f"arrays of {array.dtype} hold Python objects, not bytes; convert them first")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    flat = numpy.ascontiguousarray(array.T if fortran else array)
    attributes = {
        DTYPE: repr(numpy.lib.format.dtype_to_descr(array.dtype)),
        SHAPE: ",".join(map(str, array.shape)),
        ORDER: "F" if fortran else "C",
    }
    return view(flat.reshape(-1)), attributes


def refuse_masked(array: object) -> None:
    """Refuses an array with masked elements, without importing NumPy: their buffer has all values and no mask."""
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray) and masked.is_masked(array):
        advice = "put array.filled(VALUE), or array.data under one key and numpy.ma.getmaskarray(array) under another"
        raise TypeError(f"a masked array would lose its mask; {advice}")


def empty(stat: Object) -> NDArray[Any]:
    """Makes an uninitialised array for an object with these attributes."""
    import numpy

    said = stat.attributes
    if DTYPE not in said:
        advice = "numpy.frombuffer(store.get(key), dtype) makes one of it"
        raise ValueError(f"{stat.key!r} was not put as an array; {advice}")
    dtype = numpy.lib.format.descr_to_dtype(ast.literal_eval(said[DTYPE]))
    shape = tuple(int(length) for length in said[SHAPE].split(",") if length)
    return numpy.empty(shape, dtype, order="F" if said.get(ORDER) == "F" else "C")


def room(array: NDArray[Any]) -> memoryview:
    """Returns the array's memory, which the caller fills."""
    return view(array.reshape(-1, order="A"))


def view(flat: NDArray[Any]) -> memoryview:
    """Returns the bytes of an array of one dimension. Arrays of dates have no buffer of their own."""
    import numpy

    return memoryview(flat.view(numpy.uint8))  # type: ignore[arg-type, unused-ignore]
