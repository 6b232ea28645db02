"""Datasets: elements that are declared once, and read and written as arrays in several layouts."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from terrace import _arrays, _terrace
from terrace._errors import ConflictError, RefusedError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from terrace._store import Store

GAP_BYTES = 64 << 10
"""The longest distance of wanted elements at which those between them are read, too: the store verifies this many bytes
at once."""
PIECE_BYTES = 8 << 20
"""Elements are chosen from at most this many bytes at a time."""


class Attributes(Mapping[str, Any]):
    """The attributes of a dataset or of a variable: texts, numbers of NumPy, and arrays and lists of these.

    They are part of the declaration, which `Dataset.edit` changes."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @classmethod
    def described(cls, described: Any) -> Attributes:
        """Makes attributes of their names, types, lengths and items."""
        return cls({name: value_of(*value) for name, value in described})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Attributes({self._values!r})"


class Dataset(_terrace.Dataset):
    """An open dataset: a mapping from the names of its views to the views."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store

    @property
    def attrs(self) -> Attributes:
        """The attributes of the dataset. `edit` changes them."""
        return Attributes.described(self.describe())

    def __getitem__(self, view: str) -> View:
        return View(self.store, self.name, view)

    def __iter__(self) -> Iterator[str]:
        return iter(self.views)

    def __len__(self) -> int:
        return len(self.views)

    def __contains__(self, view: object) -> bool:
        return view in self.views

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.store, self.name)

    def __repr__(self) -> str:
        return f"<Dataset {self.name!r}: {', '.join(self.views)}>"


class View(_terrace.View):
    """An open view: a mapping from the names of its variables to arrays in the store.

    A view of one variable can be used as that array: `view[10:20]`, `view[:] = 0`, `numpy.asarray(view)`.
    """

    def __init__(self, store: Store, dataset: str, name: str) -> None:
        self._made = store, dataset, name

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables by name, with the lengths that they have now."""
        if (described := self.describe()) is None:
            advice = "declare a view without these flags, or export this one"
            raise RefusedError(f"the view {self.name!r} is in tiles, in blocks or along a curve; {advice}")
        return {one["name"]: Variable.described(self, one) for one in described}

    def _only(self) -> Variable:
        variables = self.variables
        if len(variables) != 1:
            raise TypeError(f"the view {self.name!r} has several variables; choose one: {', '.join(variables)}")
        return next(iter(variables.values()))

    def __getitem__(self, what: Any) -> Any:
        return self.variables[what] if isinstance(what, str) else self._only()[what]

    def __setitem__(self, what: Any, value: ArrayLike) -> None:
        if isinstance(what, str):
            self.variables[what][...] = value
        else:
            self._only()[what] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, variable: object) -> bool:
        return variable in self.variables

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self._only().__array__(dtype, copy)

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return View, self._made

    def __repr__(self) -> str:
        return f"<View {self.name!r} of {self._made[1]!r}: {', '.join(self)}>"


@dataclass(frozen=True, eq=False, repr=False)
class Variable:
    """A variable of a view: an array whose elements are read and written when it is indexed, by integers, slices and
    `...`.

    Elements that lie together are read, and are written, at one moment.
    """

    view: View
    name: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    """The names of the dimensions, which are those of the view's indices; empty for those without."""
    dtype: numpy.dtype[Any]
    offset: int
    """The first byte in the view."""
    attrs: Attributes
    """The attributes. Those of a struct's members are named `member.name`, as in HDF5."""
    fill: bytes | None
    """The bytes of an element that was never written, if they are not zero."""

    @classmethod
    def described(cls, view: View, one: dict[str, Any]) -> Variable:
        """Makes a variable of its description."""
        shape, dims, dtype = tuple(one["shape"]), tuple(one["dims"]), dtype_of(one["dtype"])
        return cls(
            view, one["name"], shape, dims, dtype, one["offset"], Attributes.described(one["attributes"]), one["fill"]
        )

    @property
    def fillvalue(self) -> Any:
        """What elements are that were never written."""
        import numpy

        return numpy.zeros((), self.dtype)[()] if self.fill is None else numpy.frombuffer(self.fill, self.dtype)[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single element has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        import numpy

        ranges, single = self._ranges(index)
        out = numpy.empty([len(one) for one in ranges], self.dtype)
        self._read(out, self.offset, ranges, 0)
        return out[tuple(0 if axis in single else slice(None) for axis in range(self.ndim))]

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        import numpy

        _arrays.refuse_masked(value)
        ranges, single = self._ranges(index)
        # Elements that are arrays are further dimensions of the values.
        base, inner = self.dtype.base, self.dtype.shape
        shape = [len(one) for axis, one in enumerate(ranges) if axis not in single]
        given = numpy.broadcast_to(numpy.asarray(value, base), [*shape, *inner])
        self.write_elements(given.reshape([*map(len, ranges), *inner]), ranges)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        import numpy

        if copy is False:
            raise ValueError("the elements are in the store, so reading them makes a copy")
        return numpy.asarray(self[...], dtype)

    def __repr__(self) -> str:
        return f"<Variable {self.name!r}: {self.shape} of {self.dtype}>"

    def _ranges(self, index: Any) -> tuple[list[range], set[int]]:
        """Returns the wanted indices of each dimension, and the dimensions with a single wanted index."""
        wanted = list(index) if isinstance(index, tuple) else [index]
        marks = [at for at, one in enumerate(wanted) if one is Ellipsis]
        if len(marks) > 1:
            raise IndexError("an index has at most one ...")
        at = marks[0] if marks else len(wanted)
        given = len(wanted) - len(marks)
        if given > self.ndim:
            raise IndexError(f"{given} indices are too many for {self.ndim} dimensions")
        wanted[at : at + len(marks)] = [slice(None)] * (self.ndim - given)
        ranges, single = [], set()
        for axis, (one, length) in enumerate(zip(wanted, self.shape)):
            if isinstance(one, slice):
                ranges.append(range(length)[one])
                continue
            try:
                if isinstance(one, bool):  # To NumPy, a mask.
                    raise TypeError
                number = range(length)[operator.index(one)]
            except TypeError:
                kinds = "integers, slices and ...; read a range, and choose from that"
                raise IndexError(f"{one!r} is no index of a variable in the store, which are {kinds}") from None
            except IndexError:
                raise IndexError(f"index {one} is beyond dimension {axis}, which is {length} long") from None
            ranges.append(range(number, number + 1))
            single.add(axis)
        return ranges, single

    def _is_whole(self, ranges: list[range], axis: int) -> bool:
        """Whether the elements at these indices lie together, from dimension `axis` on."""
        inner = zip(ranges[axis + 1 :], self.shape[axis + 1 :])
        return axis == self.ndim or (ranges[axis].step == 1 and all(one == range(length) for one, length in inner))

    def _row(self, axis: int) -> int:
        """The bytes from one index of a dimension to the next."""
        return prod(self.shape[axis + 1 :]) * self.dtype.itemsize

    def _read(self, out: NDArray[Any], offset: int, ranges: list[range], axis: int) -> None:
        """Fills `out` with the elements at these indices, from dimension `axis` on."""
        import numpy

        if out.size == 0:
            return
        if self._is_whole(ranges, axis):
            first = ranges[axis].start * self._row(axis) if axis < self.ndim else 0
            self._fill(out, offset + first)
            return
        wanted, row = ranges[axis], self._row(axis)
        distance = row * abs(wanted.step)
        if distance > GAP_BYTES:
            for at, index in enumerate(wanted):
                self._read(out[at, ...], offset + index * row, ranges, axis + 1)
            return
        count = max(1, PIECE_BYTES // max(1, distance))
        inner = tuple(as_slice(one) for one in ranges[axis + 1 :])
        for at in range(0, len(wanted), count):
            part = wanted[at : at + count]
            least, most = min(part), max(part)
            room = numpy.empty((most + 1 - least, *self.shape[axis + 1 :]), self.dtype)
            self._fill(room, offset + least * row)
            out[at : at + count] = room[(slice(None, None, part.step), *inner)]

    def _fill(self, out: NDArray[Any], offset: int) -> None:
        if out.nbytes and self.view.read_into(offset, _arrays.room(out)) < out.nbytes:
            raise ConflictError(f"the view {self.view.name!r} has become shorter; look the variable up again")

    def write_elements(self, given: NDArray[Any], ranges: Sequence[range]) -> None:
        """Writes elements, which have this variable's type, at these indices of the first dimensions."""
        self._write(given, self.offset, [*ranges, *map(range, self.shape[len(ranges) :])], 0)

    def _write(self, given: NDArray[Any], offset: int, ranges: list[range], axis: int) -> None:
        """Writes elements at these indices, from dimension `axis` on. What lies between them is not written, because
        others may write it meanwhile."""
        import numpy

        if given.size == 0:
            return
        if self._is_whole(ranges, axis):
            first = ranges[axis].start * self._row(axis) if axis < self.ndim else 0
            self.view.write_at(offset + first, _arrays.room(numpy.ascontiguousarray(given)))
            return
        for at, index in enumerate(ranges[axis]):
            self._write(given[at, ...], offset + index * self._row(axis), ranges, axis + 1)


def value_of(kind: str | None, lengths: list[int], items: Any) -> Any:
    """Returns the value with these items."""
    import numpy

    if kind is None:
        if not lengths:
            return items[0]
        return numpy.array(items, object).reshape(lengths).tolist()
    values: NDArray[Any] = numpy.frombuffer(items, kind).reshape(lengths)
    return values if lengths else values[()]


def as_slice(wanted: range) -> slice:
    """Returns the slice with the indices of a range."""
    return slice(wanted.start, wanted.stop if wanted.stop >= 0 else None, wanted.step)


def dtype_of(described: Any) -> numpy.dtype[Any]:
    """Returns the dtype that is described by a name, by a base type and its shape, or by fields."""
    import numpy

    made: numpy.dtype[Any]
    if isinstance(described, dict):
        fields: Any = described | {"formats": [dtype_of(one) for one in described["formats"]]}
        made = numpy.dtype(fields)
    elif isinstance(described, list):
        made = numpy.dtype((dtype_of(described[0]), tuple(described[1])))
    else:
        made = numpy.dtype(described)
    return made
