"""unshuffle: a cost-based, partition-aware query optimizer for Apache Spark.

The public names are imported when they are first used, so that the command line does not wait for what it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unshuffle.errors import InternalError, NotOptimizedWarning, UnshuffleError, UserError
    from unshuffle.operators import Aggregator, Combiner, Extractor, Outputter, Processor, Reducer, UserType, function
    from unshuffle.results import Comparison, Measured, Result, Run
    from unshuffle.session import Session

_MODULES = {
    "unshuffle.errors": ("InternalError", "NotOptimizedWarning", "UnshuffleError", "UserError"),
    "unshuffle.operators": (
        "Aggregator",
        "Combiner",
        "Extractor",
        "Outputter",
        "Processor",
        "Reducer",
        "UserType",
        "function",
    ),
    "unshuffle.results": ("Comparison", "Measured", "Result", "Run"),
    "unshuffle.session": ("Session",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Aggregator",
    "Combiner",
    "Comparison",
    "Extractor",
    "InternalError",
    "Measured",
    "NotOptimizedWarning",
    "Outputter",
    "Processor",
    "Reducer",
    "Result",
    "Run",
    "Session",
    "UnshuffleError",
    "UserError",
    "UserType",
    "function",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
