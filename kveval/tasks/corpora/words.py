"""Words that needles and generated text are made of: plain English ones, given names and made-up ones."""

# ruff: noqa: SIM905 (lists of words read better as text)

from __future__ import annotations

import random
import re

ADJECTIVES = tuple(
    """
    amber ancient bitter bold brave brisk broad calm candid careful cheerful clever cloudy coastal cold copper coral
    crimson crisp curious daring deep distant dusty eager early earnest elegant faint fair famous fancy fierce floral
    frosty gentle giant gilded glad golden graceful grand green hasty hazel heavy hidden hollow honest humble icy idle
    ivory jolly keen kind large lively lonely loyal lucky lunar marble mellow merry mighty mild misty modest narrow
    neat nimble noble northern olive orange pale patient placid plain polite proud purple quick quiet rapid rare ready
    robust rough round royal rustic sandy scarlet serene sharp shiny silent silver simple sleepy slender smooth snowy
    solar solid southern spare stable steady stern stormy sturdy subtle sunny swift tall tender thorny tidy timid
    tranquil upper urban valiant vast velvet violet vivid warm western wild windy winter wise witty young zesty
    """.split()
)

NOUNS = tuple(
    """
    acorn anchor anvil apple arrow atlas badger balcony banner barley barrel basin basket beacon beaver bell bench
    birch bison blanket bottle boulder branch bridge bucket buffalo button cabin camel candle canoe canyon carpet
    castle cedar cellar chapel cherry chisel cliff clover cobalt comet compass copse cottage cradle crane cricket
    crown daisy dolphin donkey dragon drum eagle easel elm ember falcon feather fern ferry fiddle finch flute forest
    fountain fox galaxy garden garnet gazelle glacier goose granite grove hammer harbor harp hawk hazelnut heron
    hill hornet island jacket jaguar jasmine juniper kettle kitten ladder lagoon lantern lark laurel ledger lemon
    lion lizard lobster locket lynx magnet mango maple market meadow melon mirror mitten monsoon moose mountain
    mulberry needle nettle nickel oak oasis orchard otter oyster paddle panda parrot pebble pelican pepper piano
    pigeon pillow pine planet plum pond poplar prairie puffin quarry quilt rabbit raven reef ribbon river robin
    rocket saddle salmon sapphire seal shell shovel sparrow spruce squirrel stork summit sunrise swan tavern thistle
    tiger timber tower trout tulip tunnel turtle valley violin walnut walrus wagon waterfall willow window wolf wren
    """.split()
)

GIVEN_NAMES = tuple(
    """
    Aisha Akira Beatrix Bogdan Bronwyn Camilla Cedric Daphne Dmitri Eleanor Emeka Farida Fergus Gareth Giulia Gunnar
    Hannelore Hiroshi Ingrid Isolde Jamila Joaquin Kaito Katarina Kwame Lakshmi Leopold Linnea Ludmila Magnus Malik
    Mireille Nadia Nikhil Nuria Ophelia Oskar Paloma Petros Quentin Rafael Ramona Ruslan Sabine Sanjay Sigrid Soraya
    Svetlana Tamsin Thaddeus Tobias Ursula Valeria Viktor Wilhelmina Xavier Yasmin Yuki Zelda Zoran
    """.split()
)
"""From many languages; none is a common word or a part of one, and none tells where somebody lives."""

INITIALS = "bdfghjklmnprstvwz"
_VOWELS = "aiou"
_SYLLABLES = tuple(initial + vowel for initial in INITIALS for vowel in _VOWELS)

MADE_UP_WORDS = len(_SYLLABLES) ** 3
"""Words of three syllables: enough for long lists, equal in length, and unknown to every model."""
MADE_UP_WORD = re.compile(rf"(?:[{INITIALS}][{_VOWELS}]){{3}}")

_STRIDE = 123_457  # shares no factor with MADE_UP_WORDS, so that neighbours are unlike


def made_up_word(number: int) -> str:
    """Returns a word of six letters such as ``tamiro``, another for every number from 0 to MADE_UP_WORDS - 1."""
    rest, third = divmod(number * _STRIDE % MADE_UP_WORDS, len(_SYLLABLES))
    first, second = divmod(rest, len(_SYLLABLES))
    return _SYLLABLES[first] + _SYLLABLES[second] + _SYLLABLES[third]


def draw_words(count: int, rng: random.Random, initial: str | None = None) -> list[str]:
    """Draws `count` different words, all with the same initial if one is given."""
    firsts = [syllable for syllable in _SYLLABLES if initial in (None, syllable[0])]
    found: dict[str, None] = {}
    while len(found) < count:
        found[rng.choice(firsts) + rng.choice(_SYLLABLES) + rng.choice(_SYLLABLES)] = None
    return list(found)
