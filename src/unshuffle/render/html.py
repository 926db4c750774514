"""A plan, and what a run measured, as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from unshuffle.render.node import Node

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2rem 1rem .2rem 0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
ul.plan, ul.plan ul { list-style: none; margin: 0; padding-left: 1.4rem; border-left: 1px solid #c8ccd1; }
ul.plan li { margin: .3rem 0; } .operator { font-weight: 600; color: #0b5cad; }
.fact { color: #57606a; } .rows { color: #1a7f37; } code { font-size: .85em; overflow-wrap: anywhere; }
"""


def page(title: str, nodes: Sequence[Node], measured: Mapping[str, object] | None = None) -> str:
    body = [f"<h1>{escape(title)}</h1>"]
    if measured:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td class=number>{escape(str(value))}</td></tr>"
            for name, value in measured.items()
        )
        body.append(f"<h2>Run</h2><table>{rows}</table>")
    body.append("<h2>Plan</h2>")
    body += [f"<ul class=plan>{_item(node)}</ul>" for node in nodes]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(body)}</body></html>\n"


def _item(node: Node) -> str:
    facts = "".join(
        f" <span class=fact>{escape(name)}</span> <code>{escape(value)}</code>" for name, value in node.facts
    )
    rows = "" if node.rows is None else f" <span class=rows>{node.rows:,} rows</span>"
    below = f"<ul>{''.join(_item(child) for child in node.children)}</ul>" if node.children else ""
    return f"<li><span class=operator>{escape(node.operator)}</span>{facts}{rows}{below}</li>"
