from __future__ import annotations

import re

import pytest
from support.families import build, context_of


def traced_ledger(text, question):
    account, balance = re.findall(r"Account (\S+) begins with (\d+)", question)[0]
    total = int(balance)
    for verb, amount in re.findall(rf"of account {account}: it (\w+) (\d+) euros", text):
        total += int(amount) if verb == "receives" else -int(amount)
        yield str(total)


def traced_join(text, question):
    buyer = re.findall(r"buyer (\S+)\.", question)[0]
    total = 0
    for item in re.findall(rf"of buyer {buyer} is for item (\S+)\.", text):
        total += int(re.findall(rf"Item {item} costs (\d+)", text)[0])
        yield str(total)


def traced_program(text, question):
    name, x, rounds = re.findall(r"Program (\S+) begins with x = (\d+).* to (\d+)", question)[0]
    even, odd = map(int, re.findall(rf"program {name}: .*?x / 2 \+ (\d+);.*?x \+ (\d+);", text)[0])
    x = int(x)
    for k in range(1, int(rounds) + 1):
        x = (x // 2 + even if x % 2 == 0 else x + odd) + int(str(k)[-1])
        yield str(x)


READERS = {
    "trace_ledger": traced_ledger,
    "trace_ledger_long": traced_ledger,
    "trace_join": traced_join,
    "trace_program": traced_program,
    "trace_program_long": traced_program,
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_who_follows_the_text_finds_every_value(tasks, name):
    for sample in build(tasks[name], 4096):
        text = " ".join(context_of(tasks[name], sample).split())
        values = [f"Step {k}: {value}" for k, value in enumerate(READERS[name](text, sample.doc["question"]), 1)]
        assert values == sample.doc["answers"]
