"""Names, values and messages that others chose: a page runs no script, a graph stays one graph, a terminal obeys nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.cli.main import main
from unshuffle.errors import InternalError, Source, UserError
from unshuffle.explain.render.html import page
from unshuffle.explain.render.node import DisplayNode
from unshuffle.printable import json_text, printable
from unshuffle.session import Session

ATTACKS = (
    "<script>document.title = 'owned'</script>",
    '"><img src=x onerror="document.title = \'owned\'">',
    "' onmouseover='document.title = 1",
    "</title></style></pre></code><svg onload=\"document.title = 'owned'\">",
    "javascript:document.title='owned'",
    "<a href=\"javascript:document.title='owned'\">x</a>",
    "<!--<iframe srcdoc='<script>alert(1)</script>'>",
    "&lt;script&gt; &#60;script&#62;",
    '\\" ]; evil [label=\\"x',
    "\x1b[2J\x1b]0;owned\x07 \x9b31m \x00 \r \u202e \u2066",
)
ELEMENTS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "pre", "code"}
ELEMENTS |= {"table", "tr", "th", "td", "ul", "li", "span", "figure", "figcaption"}
ELEMENTS |= {"svg", "defs", "pattern", "g", "rect", "path", "text", "tspan"}
ATTRIBUTES = {"class", "lang", "charset", "http-equiv", "content"}
# What drawings have besides: a browser loads and runs nothing for these values.
DRAWN = {
    "xmlns": re.compile(r"http://www\.w3\.org/2000/svg"),
    "role": re.compile("img"),
    "aria-label": re.compile(r".*", re.DOTALL),
    "id": re.compile(r"hatch\d+"),
    "fill": re.compile(r"url\(#hatch\d+\)"),
    "patternunits": re.compile("userSpaceOnUse"),
    "patterntransform": re.compile(r"rotate\(45\)"),
    "d": re.compile(r"[MHVv\d. -]+"),
    "viewbox": re.compile(r"[\d. ]+"),
    **{name: re.compile(r"-?\d+(\.\d)?") for name in ("x", "y", "width", "height", "rx")},
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Strict(HTMLParser):
    """Collects what a browser could run or load."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.styles: list[str] = []
        self.policies: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, f"<{tag}> is not ours"
        found = dict(attrs)
        assert len(found) == len(attrs)
        for name, value in attrs:
            assert name in ATTRIBUTES or DRAWN[name].fullmatch(str(value)), f"<{tag} {attrs}>"
        if tag != "meta":
            self._open.append(tag)
        elif "http-equiv" in found:
            assert found["http-equiv"] == "Content-Security-Policy"
            self.policies.append(str(found["content"]))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.styles.append(data)
        else:
            self.text += data


def checked(text: str) -> Strict:
    parsed = Strict(text)
    assert not CONTROL.search(text)
    (policy,) = parsed.policies
    (style,) = parsed.styles
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    return parsed


def _hostile(folder: Path) -> tuple[Path, str]:
    """A folder of tables with hostile names, of columns with hostile names; and a query of all of it."""
    name = 'x" onload="a'
    columns = {f"c{i} {attack}": [i, 2] for i, attack in enumerate(ATTACKS) if "\x00" not in attack}
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    quoted = [f"`{column.replace('`', '``')}`" for column in columns]
    literals = [json.dumps(attack) for attack in ATTACKS[:-2]]
    listed = ", ".join(f"{a} as `{b.replace('`', '')}`" for a, b in zip(literals, ATTACKS, strict=False))
    return folder, f"select {', '.join(quoted)}, {listed} from `{name}` where {quoted[0]} = {literals[0]} order by 1"


@pytest.mark.parametrize("logical", [False, True])
def test_a_page_of_hostile_names_and_literals(tmp_path: Path, logical: bool) -> None:
    folder, query = _hostile(tmp_path)
    with Session(tables=folder) as session:
        parsed = checked(session.explain(query, format="html", why=not logical, logical=logical))
        for attack in ATTACKS[:3]:
            assert attack in parsed.text
        graph = session.explain(query, format="dot", logical=logical)
        content = json.loads(session.explain(query, format="json", logical=logical))
        text = session.explain(query, logical=logical)
    assert "script" in json.dumps(content)
    assert not CONTROL.search(text)
    labels = re.compile(
        r'n\d+ \[label="(?:[^"\\]|\\.)*"(, style=filled, fillcolor=lightyellow)?\];|n\d+ -> n\d+;|'
        r'subgraph cluster_\d+ \{ label="stage \d+, \d+ tasks?"; color=gray; (n\d+; )+\}'
    )
    body = graph.splitlines()[3:-1]
    assert body
    for line in body:
        assert labels.fullmatch(line.strip()), line


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_place_of_a_page_is_escaped(attack: str) -> None:
    node = DisplayNode(attack, ((attack, attack),), (), 1, (DisplayNode("Scan", (), (), None, ()),))
    parsed = checked(page(attack, [node], {attack: attack}, {attack: attack}))
    assert parsed.text.count(printable(attack)) >= 7


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium here")
def test_a_real_browser_runs_nothing(tmp_path: Path) -> None:
    """The page as it is; one with scripts that nobody escaped, which the policy of the page must stop; and, to see that
    these scripts work, one without the policy."""
    node = DisplayNode("Scan", tuple((attack, attack) for attack in ATTACKS), (), None, ())
    escaped = page("plan", [node], texts=dict(zip(ATTACKS, ATTACKS, strict=True)))
    scripts = "".join(attack for attack in ATTACKS if "\x1b" not in attack)
    unescaped = escaped.replace("</body>", f"{scripts}</body>")
    unprotected = re.sub(r"<meta http-equiv[^>]*>", "", unescaped)
    for name, text, title in (
        ("escaped", escaped, "plan"),
        ("unescaped", unescaped, "plan"),
        ("unprotected", unprotected, "owned"),
    ):
        file = tmp_path / f"{name}.html"
        file.write_text(text, encoding="utf-8")
        assert f"<title>{title}</title>" in rendered(file)


def rendered(file: Path) -> str:
    """The page as Chromium has it after its scripts ran, if it ran any."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={file}.profile"]
    done = subprocess.run(
        [*command, "--dump-dom", "--virtual-time-budget=2000", file.as_uri()], capture_output=True, text=True
    )
    return done.stdout


# --- terminals


def test_printable() -> None:
    assert printable("a\x1b[2J\x07\x9b\u202e\x00\ud800") == r"a\x1b[2J\x07\x9b\u202e\x00\ud800"
    assert printable("tab\t, line\r\nand é😀 שלום") == "tab\t, line\nand é😀 שלום"
    assert json.loads(json_text({"\x9b\u202e": "\x1b"})) == {"\x9b\u202e": "\x1b"}
    assert not CONTROL.search(json_text({"\x9b\u202e": "\x1b"}))


def test_messages_have_no_control_characters() -> None:
    source = Source("\x1b]0;name\x07.scope", "select \x1b[31m\tx, y\r\nfrom t")
    error = UserError("no \x1b[2J", source.span(source.text.index("x,"), source.text.index("x,") + 1), "\x9bhint")
    assert not CONTROL.search(str(error))
    shown, marks = str(error).splitlines()[1:3]
    assert shown.index("x,") == marks.index("^")
    assert not CONTROL.search(str(InternalError("\x1b[2J")))


def _output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr("sys.argv", ["unshuffle", *arguments])
    with pytest.raises(SystemExit):
        main()
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_commands_print_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    column = "a\x1b[2J\x9b\u202e\x07"
    path = tmp_path / "t\x1b[31m.parquet"
    pq.write_table(pa.table({column: [1, 2]}), path)
    query = tmp_path / "q.sql"
    query.write_text(f"select `{column}x` from `t\x1b[31m`", encoding="utf-8")
    tables = ("--tables", str(tmp_path))
    for arguments in (
        ("analyze", str(path)),
        ("analyze", str(path), "--json"),
        ("explain", str(query), *tables),
        ("explain", str(query), *tables, "--format", "json"),
        ("explain", str(tmp_path / "\x1b[31m.sql")),
    ):
        printed = _output(capsys, monkeypatch, *arguments)
        assert "1b[" in printed or "u001b" in printed
        assert not CONTROL.search(printed)
    query.write_text(f"select `{column}` from `t\x1b[31m`", encoding="utf-8")
    for format in ("text", "json", "dot", "html"):
        assert not CONTROL.search(_output(capsys, monkeypatch, "explain", str(query), *tables, "--format", format))
