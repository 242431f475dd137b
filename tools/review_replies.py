"""Replies about the reviews of tutorial 08, in place of a model: by the sentences in a review."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from tests.support.loopback import Received, Reply

PRAISE: Final = {
    "delivery": (
        "It arrived two days early.",
        "The parcel came on the day they promised.",
        "Delivery was quick, and the box was intact.",
    ),
    "price": (
        "I paid half of what the shop in town asks.",
        "For this price you will not find anything better.",
        "Worth every cent.",
    ),
    "quality": (
        "It feels solid, and after three months nothing is loose.",
        "The seams and the finish are excellent.",
        "It has survived two falls without a scratch.",
    ),
    "service": (
        "Support answered within an hour and sent a spare part for free.",
        "The return was easy, and they were friendly on the phone.",
        "A real person called me back and solved it.",
    ),
    "use": (
        "My mother understood it at once.",
        "I use it every day and do not want to miss it.",
        "Setting it up took me a minute.",
    ),
}
BLAME: Final = {
    "delivery": (
        "It came three weeks late.",
        "The courier left it in the rain.",
        "The box was torn, and a part was missing.",
    ),
    "price": (
        "It is far too expensive for what it does.",
        "Two weeks later it cost a third less.",
        "I could have bought three of the old ones for that.",
    ),
    "quality": (
        "The handle broke in the first week.",
        "It smells of glue, even after a month.",
        "The switch got stuck on the second day.",
    ),
    "service": (
        "Nobody answers my messages.",
        "They want me to pay for the return of a broken thing.",
        "The hotline kept me waiting for forty minutes, then hung up.",
    ),
    "use": (
        "The manual is a riddle.",
        "It is so loud that I leave the room.",
        "I still do not know what the second button is for.",
    ),
}


def reply_to_review(request: Received) -> Reply:
    """Return the mood and the topics of the review in `request`."""
    text = json.dumps(request.body["messages"], ensure_ascii=False)
    praised = _find_topics(text, PRAISE)
    blamed = _find_topics(text, BLAME)

    if "In one word" in text:
        return Reply(text=[*praised, *blamed][0].capitalize() + ".")

    mood = "mixed"
    if not blamed:
        mood = "good"
    elif not praised:
        mood = "bad"
    return Reply(text=json.dumps({"mood": mood, "topics": praised + blamed}), input_tokens=96)


def _find_topics(text: str, sentences: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [topic for topic, known in sentences.items() if any(each in text for each in known)]
