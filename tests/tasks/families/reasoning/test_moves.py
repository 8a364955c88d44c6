from __future__ import annotations

import re

import pytest
from support.families import build, context_of

from kveval.errors import ConfigError
from kveval.tasks.families.reasoning.moves import Sort, StateMachine


def traced_states(text, question):
    machine, state = re.findall(r"Machine (\S+) begins in state (\w+)", question)[0]
    for signal in re.findall(r"signals (.*?)\. ", question)[0].split(", "):
        [state] = re.findall(rf"Machine {machine}: in state {state}, the signal {signal} leads to state (\w+)", text)
        yield state


def traced_walk(text, question):
    place, ways = re.findall(r"Begin at (\S+) and .* of (\d+) ways", question)[0]
    for _ in range(int(ways)):
        [place] = re.findall(rf"The way from {place} leads to (\S+)\.", text)
        yield place


def traced_sort(text, question):
    numbers = re.findall(rf"List {re.findall(r'list ([^:]+):', question)[0]} is ([\d ]+)\.", text)[0].split()
    for k in range(len(numbers) - 1):
        i = numbers.index(min(numbers[k:]))
        numbers[k], numbers[i] = numbers[i], numbers[k]
        yield " ".join(numbers)


READERS = {
    "trace_states": traced_states,
    "trace_states_long": traced_states,
    "trace_walk": traced_walk,
    "trace_walk_long": traced_walk,
    "trace_sort": traced_sort,
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_who_follows_the_text_finds_every_value(tasks, name):
    for sample in build(tasks[name], 4096):
        text = " ".join(context_of(tasks[name], sample).split())
        values = [f"Step {k}: {value}" for k, value in enumerate(READERS[name](text, sample.doc["question"]), 1)]
        assert values == sample.doc["answers"]


def test_parameters_out_of_range_are_named():
    with pytest.raises(ConfigError, match="states=1; use a whole number from 2 to 12"):
        StateMachine(states=1)
    with pytest.raises(ConfigError, match="steps=81"):
        Sort(steps=81)
