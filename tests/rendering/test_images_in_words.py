"""What a person reads of images: in the line of a call, and in the log."""

from __future__ import annotations

from jp_nb.agent.call_outcome import CallOutcome
from jp_nb.agent.display_events import ToolBegins, ToolEnds
from jp_nb.image import Image
from jp_nb.record.document import Document
from jp_nb.record.turn_view import ToolCall, Turn
from jp_nb.rendering.bench_report import call_report
from jp_nb.rendering.conversation_log import log
from jp_nb.rendering.tool_calls import call_markdown, call_plain
from jp_nb.values.description import Description
from tests.support.fakes import new_stream
from tests.support.images import figure

BEGINS = ToolBegins("c", "plot", {})


def ends(*images: Image, left_out: tuple[str, ...] = (), error: bool = False) -> ToolEnds:
    return ToolEnds("c", "plot", "why", error, 0.04, images=images, left_out=left_out)


def test_the_line_of_a_call_says_how_many_images_the_model_sees() -> None:
    assert call_plain(BEGINS, ends()) == "✓ plot()"
    assert call_plain(BEGINS, ends(figure())) == "✓ plot() · 1 image"
    assert call_plain(BEGINS, ends(figure(), figure(shade=1))) == "✓ plot() · 2 images"
    assert call_markdown(BEGINS, ends(figure()), live=True).endswith(" 0.0 s · 1 image")


def test_the_line_of_a_call_says_which_images_are_left_out_and_why() -> None:
    words = figure("**big**\n![x](http://x)").left_out("record.image_max_bytes is 1")
    shown = call_plain(BEGINS, ends(figure(), left_out=(words,) * 30))
    assert shown.startswith("✓ plot() · 1 image · [image: **big**")
    assert shown.count("record.image_max_bytes is 1") == 20
    assert shown.endswith(" · 10 more left out")
    assert "\n" not in shown
    assert "![x]" not in call_markdown(BEGINS, ends(left_out=(words,)), live=False)


def test_the_log_names_the_images_of_requests_and_results() -> None:
    call = ToolCall("c", "plot", {}, "a plot", False, images=(figure("figure 1"),))
    turn = Turn(0, "What is that?", tool_calls=(call,), images=(figure("asked"),))
    text = log(Document(new_stream()), [turn]).text
    assert "[image: asked, image/png 4×3]" in text
    assert "✓ plot() → a plot · figure 1, image/png 4×3" in text


def test_a_call_names_its_images_only_where_there_are_some() -> None:
    assert "images" not in repr(ToolCall("c", "plot", {}))
    assert "figure 1, image/png 4×3" in repr(ToolCall("c", "plot", {}, images=(figure(),)))


def test_an_image_is_called_the_same_wherever_a_person_reads_of_it() -> None:
    image = Image("image/gif", b"GIF89a\x04\0\x03\0\0", "[figure] 1")
    words = "(figure) 1, image/gif 4×3, 11 B"
    assert repr(image) == f"<{words}>"
    assert words in call_report(CallOutcome("plot", {}, "Here.", images=(image,)), timed=False).text
    assert f"[image: {words}]" in repr(Description("Here.", (image,)))
    assert repr(Image("image/gif", image.content)) == "<image/gif 4×3, 11 B>"
