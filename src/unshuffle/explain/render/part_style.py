"""The colours of drawings of parts: on light and dark pages, in print, and in files of their own."""

from __future__ import annotations

WIDTH = 960  # of a drawing, in pixels

LIGHT = """--ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --band: #eef2f6; --band-other: #dde4ec; --one: #2f6db5;
--several: #b35900; --on-bar: #ffffff; --pale: #f6f8fa; --hatch: #c8d0d8; --edge: #8c959f;"""
DARK = """--ink: #e6edf3; --soft: #9ea7b3; --line: #3d444d; --band: #161b22; --band-other: #232a33; --one: #58a6ff;
--several: #f0a04b; --on-bar: #0d1117; --pale: #0d1117; --hatch: #363d46; --edge: #6e7681;"""
STYLE = f"""
svg.parts {{ {LIGHT} }}
@media (prefers-color-scheme: dark) {{ svg.parts {{ {DARK} }} }}
@media print {{ svg.parts {{ {LIGHT} print-color-adjust: exact; -webkit-print-color-adjust: exact; }} }}
svg.parts {{ display: block; width: 100%; max-width: {WIDTH}px; height: auto; }}
svg.parts text {{ font: 11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft); }}
svg.parts text.table {{ font-size: 13px; }} svg.parts tspan {{ font-weight: 600; fill: var(--ink); }}
svg.parts text.on-bar {{ font-size: 10.5px; fill: var(--on-bar); text-anchor: middle; }}
svg.parts text.on-pale {{ font-size: 10.5px; text-anchor: middle; }}
svg.parts text.middle {{ text-anchor: middle; }} svg.parts text.end {{ text-anchor: end; }}
svg.parts text.task {{ text-anchor: middle; fill: var(--ink); }}
svg.parts .band {{ fill: var(--band); }} svg.parts .band-other {{ fill: var(--band-other); }}
svg.parts .line {{ stroke: var(--line); fill: none; }}
svg.parts .boundary {{ stroke: var(--ink); stroke-dasharray: 3 3; opacity: .6; }}
svg.parts .one {{ fill: var(--one); }} svg.parts .several {{ fill: var(--several); }}
svg.parts .unread {{ stroke: var(--edge); stroke-width: .7; }}
svg.parts .pale {{ fill: var(--pale); }} svg.parts .hatch {{ stroke: var(--hatch); stroke-width: 1.2; }}
svg.parts g:hover > rect {{ opacity: .75; }}
"""


def picture(svg: str) -> str:
    """A drawing as a file of its own. It is light on pages of any colour."""
    style = f"<style>{STYLE.replace(DARK, LIGHT)}</style>"
    head, body = svg.split(">", 1)
    return f'{head} width="{WIDTH}">{style}<rect width="100%" height="100%" rx="6" fill="#ffffff"/>{body}\n'
