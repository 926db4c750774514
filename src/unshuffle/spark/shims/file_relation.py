"""What Spark knows of the files of the relations of a plan, in one call: Spark's objects answer one question a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.plan_tree import PlanTree
from unshuffle.spark.shims.recently_made import RecentlyMade


@dataclass(frozen=True, slots=True)
class FileRelation:
    """A relation of files. Classes are without their packages."""

    format: str  # the class that reads the files
    index: str  # the class that lists them
    paths: tuple[str, ...]  # that were asked for
    options: Mapping[str, str]  # by their names in lower case
    columns: int
    partition_columns: tuple[str, ...]
    overlapping_columns: bool  # whether files have a column that their folders have, too
    bucket_columns: tuple[str, ...]
    buckets: int  # 0 if the table is in none
    bytes: int
    table: tuple[str, ...] | None  # the qualified name of a table of the catalog
    listing: str  # a digest of the files that Spark has listed, and will read; empty if it has not listed them


class FileRelations:
    """The relations of a plan, by their paths in it."""

    def __init__(self, tree: PlanTree) -> None:
        self._tree, self._numbers = tree, tree.relations
        described = _relations(tree.spark).described(tree.java) if self._numbers else "[]"
        self._found = [_relation(each) for each in json.loads(described)]

    @cached_property
    def _java(self) -> Any:
        return _relations(self._tree.spark).of(self._tree.java)

    def at(self, path: str) -> FileRelation | None:
        """None for a relation of another source."""
        number = self._numbers.get(path)
        return None if number is None else self._found[number]

    def listed_files(self, path: str) -> tuple[str, ...]:
        """The files that Spark has listed for a relation, and will read. The same object for the same files."""
        number = self._numbers[path]
        relation = self._found[number]
        if relation is None:
            raise InternalError(f"the relation at {path!r} is not read from files")

        def files() -> tuple[str, ...]:
            return tuple(sorted(json.loads(self._java.files(number))))

        return _LISTED.get(relation.listing, files) if relation.listing else files()


def _relation(found: dict[str, Any] | None) -> FileRelation | None:
    if found is None:
        return None
    lists = ("paths", "partition_columns", "bucket_columns")
    options = {key.lower(): value for key, value in found["options"].items()}
    table = tuple(found["table"]) if found["table"] is not None else None
    return FileRelation(**{**found, **{each: tuple(found[each]) for each in lists}, "options": options, "table": table})


# The files of an index by a digest of their paths: thousands of paths take longer to transfer than all else.
_LISTED: RecentlyMade[str, tuple[str, ...]] = RecentlyMade(64)


def _relations(spark: SparkSession) -> Any:
    return java_object(spark, "unshuffle.FileRelations", _FILE_RELATIONS)


_FILE_RELATIONS = """
package unshuffle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import scala.Tuple2;
import scala.collection.Iterator;

public class FileRelations {
  public FileRelations() {}

  public Object of(Object tree) throws Exception {
    return new Relations((ArrayList) tree.getClass().getMethod("relations", new Class[0]).invoke(tree, new Object[0]));
  }

  public String described(Object tree) throws Exception {
    return ((Relations) of(tree)).described();
  }

  public static class Relations {
    final ArrayList relations;
    final HashMap listings = new HashMap();

    public Relations(ArrayList relations) {
      this.relations = relations;
    }

    public String described() throws Exception {
      ArrayList all = new ArrayList();
      for (int i = 0; i < relations.size(); i++) {
        HashMap found = FileRelations.described((LogicalRelation) relations.get(i));
        if (found != null) found.put("listing", found.get("format").equals("ParquetFileFormat") ? digest(i) : "");
        all.add(found);
      }
      return new ObjectMapper().writeValueAsString(all);
    }

    // Files that cannot be listed are a problem of whoever asks for them.
    String digest(int number) {
      try {
        return listing(number).digest();
      } catch (Exception error) {
        return "";
      }
    }

    Listing listing(int number) throws Exception {
      Integer key = Integer.valueOf(number);
      if (!listings.containsKey(key)) listings.put(key, FileRelations.listing((LogicalRelation) relations.get(number)));
      return (Listing) listings.get(key);
    }

    public String files(int number) throws Exception {
      return listing(number).paths();
    }
  }

  static HashMap described(LogicalRelation relation) throws Exception {
    if (!(relation.relation() instanceof HadoopFsRelation)) return null;
    HadoopFsRelation source = (HadoopFsRelation) relation.relation();
    HashMap found = new HashMap();
    found.put("format", source.fileFormat().getClass().getSimpleName());
    found.put("index", source.location().getClass().getSimpleName());
    found.put("paths", texts(source.location().rootPaths().iterator()));
    HashMap options = new HashMap();
    Iterator pairs = source.options().iterator();
    while (pairs.hasNext()) {
      Tuple2 pair = (Tuple2) pairs.next();
      options.put(pair._1(), pair._2());
    }
    found.put("options", options);
    found.put("columns", Integer.valueOf(source.schema().length()));
    found.put("partition_columns", source.partitionSchema().fieldNames());
    found.put("overlapping_columns", Boolean.valueOf(source.overlappedPartCols().nonEmpty()));
    BucketSpec buckets = source.bucketSpec().isDefined() ? (BucketSpec) source.bucketSpec().get() : null;
    found.put("buckets", Integer.valueOf(buckets == null ? 0 : buckets.numBuckets()));
    found.put("bucket_columns", buckets == null ? new ArrayList() : texts(buckets.bucketColumnNames().iterator()));
    found.put("bytes", Long.valueOf(listed(source).sizeInBytes()));
    CatalogTable table = relation.catalogTable().isDefined() ? (CatalogTable) relation.catalogTable().get() : null;
    found.put("table", table == null ? null : texts(table.identifier().nameParts().iterator()));
    return found;
  }

  static ArrayList texts(Iterator each) {
    ArrayList found = new ArrayList();
    while (each.hasNext()) found.add(each.next().toString());
    return found;
  }

  static Listing listing(LogicalRelation relation) throws Exception {
    FileIndex index = listed((HadoopFsRelation) relation.relation());
    return new Listing(((PartitioningAwareFileIndex) index).allFiles().iterator());
  }

  // The catalog's own index of a partitioned table lists nothing, and says that the table has 8 EiB unless ANALYZE was run.
  static FileIndex listed(HadoopFsRelation source) {
    if (!(source.location() instanceof CatalogFileIndex)) return source.location();
    return ((CatalogFileIndex) source.location()).filterPartitions(PythonUtils.toSeq(new ArrayList()));
  }

  public static class Listing {
    final ArrayList found = new ArrayList();

    public Listing(Iterator statuses) {
      while (statuses.hasNext()) found.add(((FileStatus) statuses.next()).getPath().toString());
    }

    public String digest() throws Exception {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (int i = 0; i < found.size(); i++) {
        byte[] path = ((String) found.get(i)).getBytes(StandardCharsets.UTF_8);
        digest.update(path);
        digest.update((byte) 0);
      }
      return new BigInteger(1, digest.digest()).toString(16);
    }

    public String paths() throws Exception {
      return new ObjectMapper().writeValueAsString(found);
    }
  }
}
"""
