"""The settings of a Spark session that we depend on, in one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.frozen import dataclass
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import java_session
from unshuffle.spark.shims.java_plans import SEPARATOR


@dataclass(frozen=True, slots=True)
class SessionConf:
    ansi: bool
    precision_loss: bool  # spark.sql.decimalOperations.allowPrecisionLoss
    time_zone: str
    plain_strings: bool  # a backslash in a string of a SQL text is not an escape
    shuffle_partitions: int
    max_partition_bytes: int
    auto_broadcast_bytes: int
    prunes_dynamically: bool
    set_by_user: frozenset[str]  # of the keys that were asked for
    of_context: dict[str, str]  # settings of the context, of those that were asked for
    cores: int


def session_conf(spark: SparkSession, keys: Sequence[str] = (), of_context: Sequence[str] = ()) -> SessionConf:
    java: Any = java_object(spark, "unshuffle.SessionConf", _SESSION_CONF)
    found = json.loads(java.of(java_session(spark), SEPARATOR.join(keys), SEPARATOR.join(of_context)))
    return SessionConf(**{**found, "set_by_user": frozenset(found["set_by_user"])})


_SESSION_CONF = """
package unshuffle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

public class SessionConf {
  public SessionConf() {}

  public String of(SparkSession session, String keys, String ofContext) throws Exception {
    SQLConf conf = session.sessionState().conf();
    HashMap found = new HashMap();
    found.put("ansi", Boolean.valueOf(conf.ansiEnabled()));
    found.put("precision_loss", Boolean.valueOf(conf.decimalOperationsAllowPrecisionLoss()));
    found.put("time_zone", conf.sessionLocalTimeZone());
    found.put("plain_strings", Boolean.valueOf(conf.escapedStringLiterals()));
    found.put("shuffle_partitions", Integer.valueOf(conf.numShufflePartitions()));
    found.put("max_partition_bytes", Long.valueOf(conf.filesMaxPartitionBytes()));
    found.put("auto_broadcast_bytes", Long.valueOf(conf.autoBroadcastJoinThreshold()));
    found.put(
        "prunes_dynamically", Boolean.valueOf(conf.dynamicPartitionPruningEnabled() && conf.exchangeReuseEnabled()));
    ArrayList set = new ArrayList();
    String[] asked = keys.split("\\u0001");
    for (int i = 0; i < asked.length; i++) {
      if (!asked[i].isEmpty() && conf.contains(asked[i])) set.add(asked[i]);
    }
    found.put("set_by_user", set);
    HashMap settings = new HashMap();
    String[] names = ofContext.split("\\u0001");
    for (int i = 0; i < names.length; i++) {
      if (session.sparkContext().conf().contains(names[i])) {
        settings.put(names[i], session.sparkContext().conf().get(names[i]));
      }
    }
    found.put("of_context", settings);
    found.put("cores", Integer.valueOf(session.sparkContext().defaultParallelism()));
    return new ObjectMapper().writeValueAsString(found);
  }
}
"""
