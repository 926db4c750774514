"""The queries of a SQL text, read by the Spark session they will run in; see docs/decisions/018."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unshuffle.catalog.tables import TableFolders
from unshuffle.errors import Source
from unshuffle.frozen import dataclass
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.preprocess import preprocess
from unshuffle.language.parse.spark_text import SparkText, spark_texts
from unshuffle.plan.logical import Scan, TableScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SqlQueries:
    """Reads SQL texts. `table` and `stream` bind what Spark does not know by itself, for a clone of the session."""

    tables: TableFolders
    table: Callable[[str], Scan | TableScan]
    stream: Callable[[str], Scan | TableScan]
    can_clone: bool

    def queries(self, spark: SparkSession, source: Source, parameters: Parameters) -> list[DataFrame] | None:
        """Each query of a text as a DataFrame. Raises `SqlProblem` if Spark rejects one. None if the text has statements of a
        script, or commands, which would run as soon as Spark reads them."""
        texts = _texts(source, parameters)
        if not texts or not all(each.is_query for each in texts):
            return None
        frames = [self._frame(spark, each, parameters) for each in texts]
        parameters.check_all_used()
        return None if None in frames else [frame for frame in frames if frame is not None]

    def statement(self, spark: SparkSession, source: Source, parameters: Parameters) -> DataFrame | None:
        """The one query or command of a text as a DataFrame. A command is run. Raises `SqlProblem` if Spark rejects it. None
        if the text is something else."""
        texts = _texts(source, parameters)
        return self._frame(spark, texts[0], parameters) if texts is not None and len(texts) == 1 else None

    def _frame(self, spark: SparkSession, query: SparkText, parameters: Parameters) -> DataFrame | None:
        from unshuffle.spark.reader.sql_text import argument, read_sql

        views = {name: self.table(name) for name in self.tables.names() if name.lower() in query.words}
        views |= {name: self.stream(path) for name, path in query.streams.items()}
        if views and not self.can_clone:
            return None
        values = {name: parameters.get(name, None) for name in query.parameters}
        return read_sql(
            spark, query.text, views, {name: argument(each.value, each.type) for name, each in values.items()}
        )


def _texts(source: Source, parameters: Parameters) -> list[SparkText] | None:
    texts: list[SparkText] = []
    for piece in preprocess(source, parameters):
        more = spark_texts(piece)
        if more is None:
            return None
        texts += more
    return texts
