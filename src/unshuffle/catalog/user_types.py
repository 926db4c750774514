"""User-defined types of columns: a struct whose values are, for user code, instances of a class.

The class is a mark in the metadata of the struct's first field. Arrow compares types without it, so for everything but user
code the column is the struct: it is joined, grouped, sorted and stored as one, and the mark passes through with the type.
"""

from __future__ import annotations

import json

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.frozen import dataclass

_KEY = b"unshuffle.type"


@dataclass(frozen=True, slots=True)
class TypeMark:
    """The class of a type's values, and the folders in which its module is looked for."""

    module: str
    name: str
    folders: tuple[str, ...]


def marked(type: pa.StructType, mark: TypeMark) -> pa.DataType:
    """The struct as the type of a class."""
    text = json.dumps([mark.module, mark.name, list(mark.folders)])
    first, *others = (type.field(i) for i in range(type.num_fields))
    return pa.struct([first.with_metadata({_KEY: text}), *others])


def mark_of(type: DataType) -> TypeMark | None:
    """The class of a type's values, if it has one."""
    if type is None or not pa.types.is_struct(type) or not type.num_fields:
        return None
    text = (type.field(0).metadata or {}).get(_KEY)
    if text is None:
        return None
    module, name, folders = json.loads(text)
    return TypeMark(module, name, tuple(folders))
