"""Plain English words: keys of needles and the generated haystack are made of them."""

# ruff: noqa: SIM905 (lists of words read better as text)

from __future__ import annotations

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
