"""A plan, and the measurements of a run, as one self-contained HTML page.

Names, values and messages in it are chosen by others. All text is escaped. The page also forbids the browser to run any
script, to load anything and to use any style but its own, so a mistake in the escaping would run nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from hashlib import sha256

from unshuffle.explain.phrases import numbers
from unshuffle.explain.render.escaping import escape
from unshuffle.explain.render.node import ENFORCERS, DisplayNode, DisplayStage
from unshuffle.explain.render.part_style import STYLE
from unshuffle.frozen import dataclass
from unshuffle.results import Measured

_LIGHT = """--text: #1b1f24; --back: #ffffff; --rule: #c8ccd1; --operator: #0b5cad; --moves: #a34f00; --fact: #57606a;
--rows: #1a7f37; --layout: #8250df;"""
_DARK = """--text: #e6edf3; --back: #0d1117; --rule: #3d444d; --operator: #58a6ff; --moves: #f0a04b; --fact: #9ea7b3;
--rows: #3fb950; --layout: #bc8cff;"""
_STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
@media print {{ :root {{ color-scheme: light; {_LIGHT} }} figure {{ break-inside: avoid; }} h2 {{ break-after: avoid; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: var(--text);
background: var(--back); }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; }} td, th {{ text-align: left; padding: .2rem 1rem .2rem 0; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
ul.plan, ul.plan ul {{ list-style: none; margin: 0; padding-left: 1.4rem; border-left: 1px solid var(--rule); }}
ul.plan li {{ margin: .3rem 0; }} .operator {{ font-weight: 600; color: var(--operator); }} .moves {{ color: var(--moves); }}
.fact {{ color: var(--fact); }} .rows {{ color: var(--rows); }} .layout {{ color: var(--layout); }}
code {{ font-size: .85em; overflow-wrap: anywhere; }} pre {{ white-space: pre-wrap; font-size: .85em; }}
figure {{ margin: 1rem 0 2rem; }} figcaption {{ margin-top: .3rem; }}
{STYLE}"""


@dataclass(frozen=True, slots=True)
class Figure:
    """An SVG, in which all text is escaped, and the text below it, which is not."""

    svg: str
    caption: str


def page(
    title: str,
    nodes: Sequence[DisplayNode],
    measured: Mapping[str, object] | None = None,
    texts: Mapping[str, str] | None = None,
    figures: Sequence[Figure] = (),
    stages: Sequence[DisplayStage] = (),
) -> str:
    """`texts` are further sections, by heading. `figures` show the parts of tables."""
    body = [f"<h1>{escape(title)}</h1>"]
    if measured:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td class=number>{escape(str(value))}</td></tr>"
            for name, value in measured.items()
        )
        body.append(f"<h2>Run</h2><table>{rows}</table>")
    body.append("<h2>Plan</h2>")
    body += [f"<ul class=plan>{_item(node)}</ul>" for node in nodes]
    body += [_stages(stages)] if stages else []
    body += ["<h2>Parts of tables</h2>"] if figures else []
    body += [
        f"<figure>{each.svg}<figcaption><pre>{escape(each.caption)}</pre></figcaption></figure>" for each in figures
    ]
    body += [f"<h2>{escape(head)}</h2><pre>{escape(text)}</pre>" for head, text in (texts or {}).items()]
    head = f'<meta charset="utf-8">{_policy()}<title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(body)}</body></html>\n"


def _stages(stages: Sequence[DisplayStage]) -> str:
    rows = "".join(
        f"<tr><td class=number>{stage.number}</td><td class=number>{stage.tasks:,}</td>"
        f"<td>{escape(', '.join(stage.operators))}</td><td>{', '.join(map(str, stage.reads))}</td></tr>"
        for stage in stages
    )
    head = "<tr><th>Stage</th><th>Tasks</th><th>Operators</th><th>Reads stages</th></tr>"
    return f"<h2>Stages</h2><table>{head}{rows}</table>"


def _policy() -> str:
    style = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _item(node: DisplayNode) -> str:
    facts = "".join(
        f" <span class=fact>{escape(name)}</span> <code>{escape(value)}</code>" for name, value in node.facts
    )
    below = f"<ul>{''.join(_item(child) for child in node.children)}</ul>" if node.children else ""
    kind = "operator moves" if node.operator in ENFORCERS else "operator"
    return f'<li><span class="{kind}">{escape(node.operator)}</span>{facts}{_numbers(node)}{below}</li>'


def _numbers(node: DisplayNode) -> str:
    if node.execution is None:
        return "" if node.rows is None else f" <span class=rows>{node.rows:,} rows</span>"
    execution = node.execution
    layout = f" <span class=layout>→ {escape(execution.layout)}</span>" if execution.changes_layout else ""
    shown = [numbers.rows(execution.rows), numbers.size(execution.bytes)]
    shown += [numbers.seconds(execution.seconds)] if execution.seconds > 0 else []
    stage = f" <span class=fact>stage {execution.stage}</span>"
    return f"{layout} <span class=rows>{', '.join(shown)}</span>{stage}"


def run_page(title: str, nodes: Sequence[DisplayNode], measured: Measured) -> str:
    """A plan with what its run measured."""
    shown = {
        "seconds": f"{measured.seconds[-1]:.2f}",
        "exchanges": measured.exchanges,
        "shuffled": f"{measured.shuffle_bytes:,} bytes",
        "spilled": f"{measured.spill_bytes:,} bytes",
        "task seconds": f"{measured.task_seconds:.2f}",
        "memory of a task": f"{measured.peak_memory_bytes:,} bytes",
        "rows": f"{measured.rows:,}",
    }
    return page(title, nodes, shown)
