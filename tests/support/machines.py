"""Sessions that plan for another machine than the one they run on."""

from __future__ import annotations

from dataclasses import replace

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.target import Target


def plan_for(session: Session, machine: Machine) -> None:
    """From now on, the session plans for `machine`, with the settings of its Spark."""
    usual = session.pipeline.target

    def target(is_managed: bool = True) -> Target:
        return replace(usual(is_managed), machine=machine)

    session.pipeline.target = target  # type: ignore[method-assign]
