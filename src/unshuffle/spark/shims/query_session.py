"""A session for one query: the user's, but for some settings.

A DataFrame runs under the settings of the session that its query execution belongs to. A clone of the session would do, but
what the user registers, caches or observes through the DataFrame would end up in the clone. So a query's session is a copy of
the object. It shares everything with the user's (catalog, functions, cached data, listeners, artifacts) but two things:

- its settings: those of the plan, and beneath them those of the user's session, as they are at the moment
- how it executes other plans. While a plan is lowered, that is in this session. Afterwards (`hand_over`) it is in the user's,
  so whatever the user derives from the DataFrame runs under the user's own settings. The DataFrame itself keeps its session,
  for actions and for writing. A query that unshuffle runs itself is never handed over.

No setting of the user's session is touched, and no other thread sees those of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import java_session
from unshuffle.spark.shims.java_plans import SEPARATOR


def query_session(spark: SparkSession, settings: Mapping[str, str], is_managed: bool) -> Any:
    """Spark's session for a query in a session of the user's. That of a managed query is never handed over."""
    items = SEPARATOR.join(text for pair in settings.items() for text in pair)
    return _sessions(spark).made(java_session(spark), items, is_managed)


def hand_over(spark: SparkSession, query: Any) -> None:
    """From now on, what is derived from the DataFrames of a query's session belongs to the user's."""
    _sessions(spark).handOver(java_session(spark), query)


def _sessions(spark: SparkSession) -> Any:
    return java_object(spark, "unshuffle.QuerySessions", _QUERY_SESSIONS)


_QUERY_SESSIONS = """
package unshuffle;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.AbstractMap;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.internal.config.ConfigReader;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.internal.SQLConf;
import scala.runtime.AbstractFunction2;

public class QuerySessions {
  public QuerySessions() {}

  public Object made(SparkSession user, String items, boolean managed) throws Exception {
    SessionState state = user.sessionState();
    // What is derived from the DataFrame would run with adaptive execution but without reuse, and wait for a leaf of ours.
    if (!managed && state.conf().adaptiveExecutionEnabled() && !state.conf().exchangeReuseEnabled()) return user;
    // What the user's session makes at its first use is made now, so that the copy has the same objects.
    state.catalog();
    state.analyzer();
    state.optimizer();
    state.resourceLoader();
    state.artifactManager();
    user.conf();
    boolean keepsConf = hasField(user, "sqlConf");
    if (keepsConf) user.getClass().getMethod("sqlConf", new Class[0]).invoke(user, new Object[0]);
    SQLConf conf = (SQLConf) copied(state.conf());
    Map settings = new Layered((Map) get(state.conf(), "settings"));
    String[] texts = items.split("\\u0001", -1);
    for (int i = 0; i + 1 < texts.length; i += 2) settings.put(texts[i], texts[i + 1]);
    set(conf, "settings", Collections.synchronizedMap(settings));
    set(conf, "reader", new ConfigReader(settings));
    SparkSession made = (SparkSession) copied(user);
    SessionState own = (SessionState) copied(state);
    set(own, "conf", conf);
    set(own, "createQueryExecution", new InSession(made));
    set(made, "sessionState", own);
    if (keepsConf) set(made, "sqlConf", conf);
    // Settings that are made while outputs are written stay here, too.
    if (managed) set(made, "conf", user.conf().getClass().getConstructors()[0].newInstance(new Object[] {conf}));
    return made;
  }

  public void handOver(SparkSession user, SparkSession query) throws Exception {
    set(query.sessionState(), "createQueryExecution", get(user.sessionState(), "createQueryExecution"));
  }

  private static Object copied(Object original) throws Exception {
    Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
    unsafe.setAccessible(true);
    Object copy = ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(original.getClass());
    for (Class type = original.getClass(); type != Object.class; type = type.getSuperclass()) {
      Field[] fields = type.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (Modifier.isStatic(fields[i].getModifiers())) continue;
        fields[i].setAccessible(true);
        fields[i].set(copy, fields[i].get(original));
      }
    }
    return copy;
  }

  private static Object get(Object of, String name) throws Exception {
    return field(of, name).get(of);
  }

  private static void set(Object of, String name, Object value) throws Exception {
    field(of, name).set(of, value);
  }

  private static boolean hasField(Object of, String name) {
    return find(of, name) != null;
  }

  private static Field field(Object of, String name) {
    Field found = find(of, name);
    if (found == null) throw new IllegalStateException(of.getClass() + " has no field " + name);
    found.setAccessible(true);
    return found;
  }

  private static Field find(Object of, String name) {
    for (Class type = of.getClass(); type != null; type = type.getSuperclass()) {
      Field[] fields = type.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (fields[i].getName().equals(name)) return fields[i];
      }
    }
    return null;
  }

  /** Makes query executions of a session, with Spark's defaults for all else. */
  public static class InSession extends AbstractFunction2 {
    private final SparkSession session;

    public InSession(SparkSession session) {
      this.session = session;
    }

    public Object apply(Object plan, Object mode) {
      try {
        Constructor constructor = QueryExecution.class.getConstructors()[0];
        Class[] types = constructor.getParameterTypes();
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
          if (types[i] == SparkSession.class) arguments[i] = session;
          else if (types[i] == LogicalPlan.class) arguments[i] = plan;
          else if (types[i] == scala.Enumeration.Value.class) arguments[i] = mode;
          else arguments[i] = QueryExecution.class.getMethod("$lessinit$greater$default$" + (i + 1), new Class[0])
              .invoke(null, new Object[0]);
        }
        return constructor.newInstance(arguments);
      } catch (java.lang.reflect.InvocationTargetException e) {
        throw raised(e.getCause());
      } catch (Exception e) {
        throw raised(e);
      }
    }

    private static RuntimeException raised(Throwable cause) {
      return cause instanceof RuntimeException ? (RuntimeException) cause : new RuntimeException(cause);
    }
  }

  /** Settings of a query over those of the user's session, which stay the user's own. */
  public static class Layered extends AbstractMap {
    private final Map below;
    private final HashMap own = new HashMap();

    public Layered(Map below) {
      this.below = below;
    }

    public synchronized Object get(Object key) {
      return own.containsKey(key) ? own.get(key) : below.get(key);
    }

    public synchronized boolean containsKey(Object key) {
      return own.containsKey(key) || below.containsKey(key);
    }

    public synchronized Object put(Object key, Object value) {
      return own.put(key, value);
    }

    public synchronized Set entrySet() {
      HashMap all;
      synchronized (below) {
        all = new HashMap(below);
      }
      all.putAll(own);
      return all.entrySet();
    }
  }
}
"""
