"""The pieces that screens are made of: text in cells, plots, core strips, tables, places."""

from __future__ import annotations

import pytest

from runtime.contract.states import ComponentState, Role
from runtime.contract.view import HostView
from support.pictures import component, large_view, live, small_view
from tianjictl.tui import plots, strips, tables
from tianjictl.tui.glyphs import ASCII, BLOCK, BRAILLE, glyphs_for
from tianjictl.tui.layout import FOOTER_LINES, HEADER_LINES, Content, arrange
from tianjictl.tui.panels import running
from tianjictl.tui.scene import VIEWS, Scene
from tianjictl.tui.text import clean, cut, ends, fit, fit_line, fitting, line, line_width, plain, width, wrap
from tianjictl.tui.views.frame import draw


def words(row: object) -> str:
    return plain([row])[0]  # type: ignore[list-item]


def test_text_is_measured_in_cells():
    assert [width(text) for text in ("abc", "日本", "e\u0301", "⣀─█", "✖")] == [3, 4, 1, 3, 1]
    assert cut("abcdef", 4) == "abc…"
    assert cut("日本語", 4) == "日…"
    assert width(fit("日本語", 4)) == 4
    assert fit("7", 3, right=True) == "  7"


def test_text_of_hosts_cannot_steer_the_terminal():
    assert clean("a\x1b[31mb\nc\td\x9b2J") == "a\\x1b[31mb c d\\x9b2J"
    assert clean("x\u202ey\u200bz") == "x\\u202ey\\u200bz"
    assert clean("[bold]no markup[/bold]") == "[bold]no markup[/bold]"


def test_lines_are_cut_and_padded_to_their_cells():
    spans = line(("abc", "bold"), "def")
    assert [words(fit_line(spans, cells)) for cells in (8, 6, 5, 4, 3, 1)] == [
        "abcdef",
        "abcdef",
        "abcd…",
        "abc…",
        "ab…",
        "…",
    ]
    assert all(line_width(fit_line(spans, cells)) == cells for cells in range(12))
    assert words(ends(line("left side"), line("right"), 13)) == "left si…right"
    assert words(fitting([line("one"), line("two"), line("three")], (", ", ""), 9)) == "one, two"


def test_sentences_are_broken_at_blanks_and_end_with_a_mark_where_they_do_not_fit():
    assert wrap("the learner is the limit", 11, 3) == ["the learner", "is the", "limit"]
    assert wrap("the learner is the limit", 11, 2) == ["the learner", "is the lim…"]
    assert wrap("unbreakable-word", 6, 2) == ["unbre…"]


@pytest.mark.parametrize("kind", ["braille", "block", "ascii"])
def test_a_rising_curve_rises(kind):
    rows = plots.curve(((0.0, 0.0), (1.0, 1.0), (2.0, 2.0)), 12, 4, 0.0, 2.0, kind)
    assert [len(row) for row in rows] == [12] * 4
    first = [min(index for index, char in enumerate(row) if char not in " ") for row in rows]
    assert first == sorted(first, reverse=True)


def test_a_silence_in_the_history_is_a_gap_in_the_curve():
    steady = tuple((float(n), 1.0) for n in range(60))
    broken = steady[:20] + steady[45:]
    row = plots.curve(broken, 60, 1, 0.0, 2.0, "ascii")[0]
    assert " " * 20 in row
    assert " " not in plots.curve(steady, 60, 1, 0.0, 2.0, "ascii")[0]


def test_one_value_and_none_can_be_plotted():
    assert plots.curve((), 5, 2, 0.0, 1.0, "braille") == ("     ", "     ")
    assert any(plots.curve(((3.0, 7.0),), 5, 2, 6.0, 8.0, "braille"))


def test_bars_show_a_trace_of_what_is_rare():
    assert plots.bars([1, 1000, 0], 2, BRAILLE) == [" █ ", "▁█ "]
    assert plots.meter(0.5, 4, BRAILLE) == "██  "
    assert plots.meter(2.0, 3, ASCII) == "###"


@pytest.mark.parametrize(
    ("encoding", "environment", "expected"),
    [
        ("utf-8", {"LANG": "de_DE.UTF-8", "TERM": "xterm-256color"}, BRAILLE),
        ("utf-8", {}, BRAILLE),
        ("utf-8", {"LANG": "C.UTF-8", "TERM": "linux"}, BLOCK),
        ("utf-8", {"LANG": "C"}, ASCII),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, ASCII),
        ("utf-8", {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, ASCII),
        ("utf-8", {"LANG": "de_DE.ISO-8859-1"}, ASCII),
        ("ascii", {"LANG": "C.UTF-8"}, ASCII),
        (None, {}, ASCII),
    ],
)
def test_the_characters_fit_the_terminal(encoding, environment, expected):
    assert glyphs_for(encoding, environment) is expected


def strip(host: HostView, *components: object) -> list[tuple[str, str]]:
    return strips.cells(host, components, BRAILLE)  # type: ignore[arg-type]


def test_each_core_has_the_letter_of_its_role_and_shines_by_its_work():
    host = HostView(name="h", state="connected", cores=(0, 1, 2, 3, 9))
    found = strip(
        host,
        component("learner-0", "h", (0, 1), cpu_percent=180.0),
        component("buffer-0", "h", (2,), cpu_percent=3.0),
        component("actor-0", "h", (3,), cpu_percent=40.0),
    )
    assert found == [("L", "learner hi"), ("L", "learner hi"), ("B", "buffer low"), ("A", "actor mid"), ("·", "dim")]


def test_a_shared_core_shows_its_first_role_and_the_work_of_all():
    host = HostView(name="h", state="connected", cores=(0,))
    shared = [component(f"actor-{n}", "h", (0,), cpu_percent=30.0) for n in range(2)]
    assert strip(host, *shared, component("buffer-0", "h", (0,), cpu_percent=10.0)) == [("B", "buffer hi")]


def test_cores_that_are_lost_are_crossed_out():
    host = HostView(name="h", state="connected", cores=(0, 1, 2))
    failed = component("actor-0", "h", (1,), state=ComponentState.FAILED)
    gone = component("actor-1", "h", (2,), state=ComponentState.EXITED)
    assert "".join(text for text, _ in strip(host, failed, gone)) == "·x·"
    assert "".join(text for text, _ in strip(host.model_copy(update={"state": "lost"}), failed)) == "xxx"


def test_a_strip_too_long_for_its_line_says_how_much_is_missing():
    cells = [("A", "actor hi")] * 64
    assert words(strips.cut_row(cells, 20)) == "A" * 17 + "+47"
    assert [line_width(row) for row in strips.rows(cells, 24)] == [24, 24, 16]


def test_trouble_comes_first_and_names_sort_by_their_numbers():
    names = [found.name for found in tables.sorted_components(large_view().components, "trouble")]
    assert names[:8] == ["actor-40", "actor-17", "actor-81", "actor-145", "actor-77", "actor-5", "actor-90", "actor-91"]
    assert names[8:10] == ["learner-0", "learner-1"]
    by_name = [found.name for found in tables.sorted_components(large_view().components, "name")]
    assert by_name[8:11] == ["actor-0", "actor-1", "actor-2"]


def test_many_components_are_summed_up_by_role_and_state():
    assert words(tables.summary(large_view().components)) == (
        "184 actors running, 1 failed, 3 away, 1 frozen, 3 restarting; 4 learners, 4 buffers running"
    )
    assert words(tables.summary(())) == "no components yet"


@pytest.mark.parametrize(
    ("filter", "count"),
    [("", 200), ("actor", 192), ("node17", 3), ("!running", 8), ("ACTOR !running !away", 5), ("!", 200)],
)
def test_a_filter_looks_at_names_hosts_states_and_reasons(filter, count):
    assert len(tables.filtered_components(large_view().components, filter)) == count


def test_columns_keep_their_places_whichever_rows_are_in_sight():
    known = large_view().components
    columns = tables.component_columns(known, 100)
    rows = [words(tables.component_row(each, columns, 100, BRAILLE)) for each in known]
    head = words(tables.header(columns, 100))
    for word in ("state", "host", "cores"):
        assert all(row[head.index(word) - 1] == " " != row[head.index(word)] for row in rows), word


@pytest.mark.parametrize(("cursor", "room"), [(0, 5), (99, 5), (50, 5), (50, 1), (3, 200)])
def test_the_window_holds_the_cursor(cursor, room):
    first, last = tables.window([1] * 100, cursor, room)
    assert first <= cursor < last
    assert last - first == min(room, 100)
    heights = [2] * 100
    first, last = tables.window(heights, cursor, max(2, room))
    assert first <= cursor < last
    assert sum(heights[first:last]) <= max(2, room)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 40), (159, 60), (160, 34), (200, 60), (60, 20), (300, 90)])
@pytest.mark.parametrize(
    "content", [Content(), Content(64, 200, 63, 3, 3, 12), Content(2, 6, 2, 2, 3, 5), Content(limits=0, bins=0)]
)
def test_panels_never_overlap_and_stay_between_header_and_footer(size, content):
    wide, high = size
    taken: set[tuple[int, int]] = set()
    for box in arrange(wide, high, content):
        cells = {(x, y) for x in range(box.x, box.x + box.width) for y in range(box.y, box.y + box.height)}
        assert not cells & taken, box
        taken |= cells
        assert box.y >= HEADER_LINES
        assert box.y + box.height <= high - FOOTER_LINES
        assert box.x + box.width <= wide


def test_larger_terminals_show_more():
    content = Content(64, 200, 63, 3, 3, 12)
    boxes = {size: {box.panel: box for box in arrange(*size, content)} for size in ((80, 24), (120, 40), (200, 60))}
    small, middle, large = boxes.values()
    needed = {"reward", "rates", "freshness", "limits", "hosts", "components", "checkpoints", "events"}
    assert set(small) == needed
    assert set(middle) == needed | {"links"}
    assert set(large) == needed | {"links", "explanation"}
    assert small["components"].height < middle["components"].height < large["components"].height


def test_the_bottleneck_is_said_before_what_is_better():
    sentences = [text for text, _ in running.limit_sentences(Scene(live(small_view())))]
    assert [sentence.split()[0] for sentence in sentences] == ["the", "measured", "better:"]
    assert sentences[1].startswith("measured is 86% of predicted: an update takes")
    assert "tianjictl scale cartpole-ppo L2A4" in sentences[2]


def test_every_role_has_a_letter_of_its_own():
    letters = [
        strip(HostView(name="h", state="connected", cores=(0,)), component(f"{role}-0", "h", (0,)))[0][0]
        for role in Role
    ]
    assert len(set(letters)) == len(Role)


@pytest.mark.parametrize("view", [small_view(), large_view()], ids=["small", "large"])
@pytest.mark.parametrize("height", [4, 5, 6, 9])
def test_the_columns_of_components_have_their_headers_also_where_room_is_scarce(view, height):
    lines = plain(running.components(Scene(live(view)), 39, height))
    assert len(lines) <= height
    assert any(row.split()[:2] == ["component", "state"] for row in lines)
    assert any("actors running" in row for row in lines), "the sum stays, too"
    assert any("actor-" in row and "running" not in row for row in lines), "and the one in trouble"


def test_where_all_components_fit_no_line_is_spent_on_their_sum():
    known = small_view().components[:3]
    lines = plain(running.components(Scene(live(small_view(components=known))), 39, 5))
    assert [row.split()[1] for row in lines[2:]] == ["learner-0", "buffer-0", "actor-0"]


@pytest.mark.parametrize("size", [(40, 10), (41, 10), (59, 12), (80, 24)])
def test_the_header_does_not_run_together(size):
    for view_name in VIEWS:
        first = plain(draw(Scene(live(small_view()), view_name=view_name), *size))[0]
        assert first.endswith(f"  {view_name}"), first
