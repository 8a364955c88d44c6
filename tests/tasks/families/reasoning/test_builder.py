from __future__ import annotations

import re

import pytest
from support.families import build, context_of, names_of

from kveval.errors import ConfigError
from kveval.tasks.families.reasoning.arithmetic import Ledger
from kveval.tasks.families.reasoning.moves import Sort, StateMachine

NAMES = names_of("reasoning")


@pytest.mark.parametrize("name", NAMES)
def test_a_scripted_model_that_errs_from_a_step_on_is_right_up_to_there(tasks, name):
    for sample in build(tasks[name], 4096, samples=4, questions=2):
        answers = sample.doc["answers"]
        steps = tasks[name].metadata["steps"]
        assert len(answers) == steps
        half = steps // 2
        text = "\n".join([*answers[:half], *(f"Step {k}: nothing" for k in range(half + 1, steps + 1))])
        metrics = tasks[name].score(sample.doc, text)
        assert metrics["score"] == half / steps
        assert [metrics[f"score_q{k}"] for k in range(1, 5)] == [1, 1, 0, 0]
        assert metrics["answer"] == 0


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


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_who_follows_the_text_finds_every_value(tasks, name):
    trace = globals()[f"traced_{name.split('_')[1]}"]
    for sample in build(tasks[name], 4096):
        text = " ".join(context_of(tasks[name], sample).split())
        values = [f"Step {k}: {value}" for k, value in enumerate(trace(text, sample.doc["question"]), 1)]
        assert values == sample.doc["answers"]


def test_parameters_out_of_range_are_named():
    with pytest.raises(ConfigError, match="steps=2001; use a whole number from 1 to 2000"):
        Ledger(steps=2001)
    with pytest.raises(ConfigError, match="states=1; use a whole number from 2 to 12"):
        StateMachine(states=1)
    with pytest.raises(ConfigError, match="steps=81"):
        Sort(steps=81)
