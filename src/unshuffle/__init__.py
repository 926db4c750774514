"""unshuffle: a cost-based, partition-aware query optimizer for Apache Spark."""

from unshuffle.errors import InternalError, NotOptimizedWarning, UnshuffleError, UserError
from unshuffle.operators import Aggregator, Combiner, Extractor, Outputter, Processor, Reducer
from unshuffle.session import Comparison, Measured, Result, Run, Session

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
]
