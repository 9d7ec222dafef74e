"""What happens in a story: which shapes may come next, and what they change in the world."""

from __future__ import annotations

from collections.abc import Callable

from txf.data.storyworld import ending, events, opening
from txf.data.storyworld.grammar import Choice
from txf.data.storyworld.lexicon import FRAGILE, LIGHT, SHE
from txf.data.storyworld.lists import entries
from txf.data.storyworld.teller import Teller

_LIGHT = frozenset(option.value for option in entries(LIGHT))
_FRAGILE = frozenset(option.value for option in entries(FRAGILE))
_FORMS = ("", *SHE)
_CLOSING = frozenset({"close", "fav", "bed", "giver"})


def tell(story: Teller) -> None:
    """Tell one story: an opening, an outing on which one or two things happen, and the way home.

    All choices are the teller's; what the story knows is in its state, so that the same function
    writes a story and reads one.
    """
    state = story.state
    state["giver"] = ""
    story.choose(opening.OPENING)
    story.choose(opening.POSSESSION)
    story.choose(opening.FRIEND)
    topics = {"place", "act", "bt", "at", "close", "bed"}
    if story.choose(opening.PROLOGUE) == "likes":
        topics.add("fav")
        story.choose(opening.OUTING)
    if story.choose(opening.ARRIVAL) != "act":
        story.choose(opening.ACTIVITY)
    if state["giver"]:
        topics.add("giver")
    _events(story, topics)
    _home(story, topics)


def _events(story: Teller, topics: set[str]) -> None:
    """Tell an event about a thing or an animal, one about the two children, or both."""
    about_things = {"lost", "offer", "find"}
    if story.state["at"] in _LIGHT:
        about_things.add("stuck")
    if story.state["at"] in _FRAGILE:
        about_things.add("break")
    about_children = {"food_a", "food_b", "hide_a", "hide_b", "race", "boxes"}
    possible = about_things | about_children | {"chat"}
    while (event := story.choose(events.EVENTS.only(frozenset(possible)))) != "home":
        if event == "chat":
            possible.discard(event)
            continue
        possible -= about_things if event in about_things else about_children
        possible.add("home")
        _EVENTS[event](story, event, topics)


def _home(story: Teller, topics: set[str]) -> None:
    """Tell of one or two topics, none twice, and close."""
    closings = topics & _CLOSING
    for answered in range(3):
        possible = topics if answered else topics - _CLOSING
        told = story.choose(ending.TALK.only(frozenset(possible if answered < 2 else closings)))
        if told in _CLOSING:
            break
        topics.discard(told)
    story.choose(ending.FINAL)


def _cast(story: Teller, x: str) -> None:
    """Give the roles x and y to a and b: x is the one named, y the other."""
    y = "b" if x == "a" else "a"
    state = story.state
    for form in _FORMS:
        state["x" + form] = state[x + form]
        state["y" + form] = state[y + form]


def _repeat(story: Teller, choice: Choice, allowed: set[str], most: int) -> str:
    """Choose until something else than "again" comes, which is after most tries at the latest."""
    state = story.state
    state["spot"] = state["seen"] = ""
    for _ in range(most):
        value = story.choose(choice.only(frozenset(allowed | {"again"})))
        if value != "again":
            return value
        state["seen"] = state["spot"]
    return story.choose(choice.only(frozenset(allowed)))


def _lost(story: Teller, event: str, topics: set[str]) -> None:
    story.choose(events.SORROW)
    finders = {"a", "b", "who"} if story.choose(events.HELP) == "stranger" else {"a", "b"}
    finder = _repeat(story, events.SEARCH, finders, 2)
    if finder == "a":
        story.choose(events.RELIEF)
        return
    story.choose(events.THANKS_B if finder == "b" else events.THANKS_WHO)
    topics.add(f"found_{finder}")


def _stuck(story: Teller, event: str, topics: set[str]) -> None:
    helper = _repeat(story, events.REACH, {"b", "who", "shoulders"}, 2)
    story.choose(events.THANKS_WHO if helper == "who" else events.THANKS_B)
    if helper != "shoulders":
        topics.add("tool")


def _break(story: Teller, event: str, topics: set[str]) -> None:
    story.choose(events.BLAME)
    story.choose(events.MEND)
    story.choose(events.MENDED)
    topics.add("mended")


def _trade(story: Teller, event: str, topics: set[str]) -> None:
    story.choose(events.SWAP)
    if story.choose(events.AFTER_SWAP) == "kept":
        topics -= {"bt", "at", "bed", "giver"}
        topics.add("swapped")


def _lunch(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, event[-1])
    story.choose(events.HUNGRY)
    fate = story.choose(events.SHARE)
    if fate == "stolen":
        story.choose(events.STOLEN)
    topics.add(fate)


def _animal(story: Teller, event: str, topics: set[str]) -> None:
    if story.choose(events.NEED) == "mother":
        topics.add("leaves")
        return
    story.choose(events.NAMING)
    topics.add(story.choose(events.PARTING))


def _hide(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, event[-1])
    holder = "a" if (event[-1] == "b") != ("swapped" in topics) else "b"
    story.state["yc"], story.state["yt"] = story.state[holder + "c"], story.state[holder + "t"]
    _repeat(story, events.SEEK, {"found"}, 2)
    story.choose(events.CAUGHT)
    topics.add("hide")


def _race(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, story.choose(events.RESULT)[-1])
    story.choose(events.PRAISE)
    topics.add("won")


def _boxes(story: Teller, event: str, topics: set[str]) -> None:
    _cast(story, story.choose(events.TIP)[-1])
    story.state["right"] = story.state[story.choose(events.CLUE)]
    story.choose(events.OPENED)
    topics.add("box")


_EVENTS: dict[str, Callable[[Teller, str, set[str]], None]] = {
    "lost": _lost,
    "stuck": _stuck,
    "break": _break,
    "offer": _trade,
    "food_a": _lunch,
    "food_b": _lunch,
    "find": _animal,
    "hide_a": _hide,
    "hide_b": _hide,
    "race": _race,
    "boxes": _boxes,
}
