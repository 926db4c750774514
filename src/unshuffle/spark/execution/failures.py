"""Turns Spark's errors into ours: what failed and where, without a Java stack trace.

A fault in user code is recognized by the text that `user_code.UserCodeFailed` carries through Spark. For every other error,
Spark's first sentence and its error condition (`[DIVIDE_BY_ZERO]`) become the message, and the advice after it the hint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from unshuffle.errors import JobProblem, Span, UserCodeProblem, UserError, disk_problem
from unshuffle.spark.udf.user_code import MARK

_USER_CODE = re.compile(re.escape(MARK) + r"(\{.*\})")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] (.+?)(?= SQLSTATE: |\n\n|\n== |\n\s+at |$)", re.DOTALL)
# These conditions only wrap another failure.
_WRAPPERS = ("TASK_WRITE_FAILED", "FAILED_EXECUTE_UDF", "FAILED_READ_FILE", "WRITING_JOB_ABORTED", "STREAM_FAILED")
# The first line that is not indented ends a Python traceback.
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z`\"'])|\n")


def explain_failure(error: Exception, spans: Mapping[str, Span]) -> UserError:
    """The error to show. `spans` tells where a script uses each user class (see `user_operators.spans_of`)."""
    if isinstance(error, UserError):
        return error
    texts = list(_texts(error))
    for text in texts:
        if found := _USER_CODE.search(text):
            told = json.loads(found[1])
            return UserCodeProblem(told["message"], spans.get(told["where"]))
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return JobProblem("Spark's Java process ended, or cannot be reached", hint="was it short of memory?")
    if isinstance(error, OSError):
        return disk_problem("the query failed", error)
    for text in texts:
        if found := _TRACEBACK.search(text):
            return JobProblem(f"Python code in a Spark worker failed: {found[1]}")
    conditions = [found for text in texts for found in _CONDITION.finditer(text)]
    if conditions:
        best = next((c for c in conditions if not c[1].startswith(_WRAPPERS)), conditions[0])
        sentence, *rest = _SENTENCE.split(best[2].strip(), maxsplit=1)
        return JobProblem(f"[{best[1]}] {sentence}", hint=" ".join(rest[0].split()) if rest else None)
    return JobProblem(_root(error))


def _texts(error: Exception) -> Iterator[str]:
    if isinstance(error, CapturedException):
        yield error._desc or ""
        yield error._stackTrace or ""
    else:
        yield str(error)


def _root(error: Exception) -> str:
    """The first line of the innermost cause."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        name, text = cause.getClass().getSimpleName(), cause.getMessage()
    elif isinstance(error, CapturedException):
        *_, deepest = re.findall(
            r"^(?:Caused by: )?([\w.$]+(?:Exception|Error))(?:: (.*))?$", error._stackTrace or "", re.M
        )
        name, text = deepest
    elif isinstance(error, PySparkException | Py4JError):
        name, text = "Spark failed", str(error)
    else:
        name, text = type(error).__name__, str(error)
    first = text.strip().splitlines()[0] if text and text.strip() else ""
    name = name.rpartition(".")[2]
    return f"{name}: {first}" if first else name
