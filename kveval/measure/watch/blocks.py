"""When a variant's server is looked at again, and which questions it is asked again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from kveval.measure.haystacks import HaystackSamples
from kveval.run.records import Record
from kveval.tasks.sample import Sample

# Of the questions, and of the tokens to compute: a question asked again may have to fill the prefix cache again.
SHARE_OF_QUESTIONS = 0.02
_SHARE_OF_TOKENS = 0.05
LEAST_SENTINELS = 3
# Candidates for sentinels: enough that some of them were right at the start.
_POOL = 6
_LOOKS = 12
_LEAST_BLOCK = 10


def sentinel_pool(haystacks: Iterable[HaystackSamples]) -> list[Sample]:
    """Chooses questions to ask again: of the shortest contexts, which cost least, from every task in turn."""
    asked = list(haystacks)
    shortest = min((haystack.cell[0] for haystack in asked), default=0)
    tasks: dict[str, list[Sample]] = {}
    for haystack in asked:
        length, task = haystack.cell
        if length == shortest:
            tasks.setdefault(task, []).extend(haystack.samples)
    in_turn = chain.from_iterable(zip_longest(*tasks.values()))
    pool = [sample for sample in in_turn if sample is not None]
    pool += [sample for haystack in asked if haystack.cell[0] != shortest for sample in haystack.samples]
    return pool[:_POOL]


def sentinels_of(haystacks: Sequence[HaystackSamples], total_tokens: int) -> int:
    """Returns how many questions are asked again: at most 2% of all, but at least 3.

    Args:
        haystacks: of the variant.
        total_tokens: tokens to compute for all their samples.
    """
    samples = sum(len(haystack.samples) for haystack in haystacks)
    cost = max((len(sample.prompt) + sample.max_output_tokens for sample in sentinel_pool(haystacks)), default=1)
    wanted = min(SHARE_OF_QUESTIONS * samples, _SHARE_OF_TOKENS * total_tokens / cost)
    return min(max(int(wanted), LEAST_SENTINELS), samples)


class Blocks:
    """The blocks of one variant's questions, counted in answers.

    Args:
        haystacks: of the variant, in the order they are asked.
        total_tokens: tokens to compute for all their samples.
        records: the answers from earlier launches.

    Attributes:
        answered: questions answered so far, those of earlier launches included.
        questions: of the variant.
    """

    def __init__(self, haystacks: Sequence[HaystackSamples], total_tokens: int, records: Iterable[Record]) -> None:
        self._pool = sentinel_pool(haystacks)
        self.questions = sum(len(haystack.samples) for haystack in haystacks)
        sentinels = sentinels_of(haystacks, total_tokens)
        blocks = max(sentinels, min(_LOOKS, self.questions // _LEAST_BLOCK), 1)
        self._ends = {-(-self.questions * number // blocks): number for number in range(1, blocks + 1)}
        # Sentinels are spread evenly over the blocks. The last block always has one.
        self._asks_again = {
            number: number * sentinels // blocks
            for number in range(1, blocks + 1)
            if number * sentinels // blocks > (number - 1) * sentinels // blocks
        }
        self._outcomes = {record.sample_id: record.outcome for record in records}
        self._due: deque[int] = deque()

    @property
    def answered(self) -> int:
        return len(self._outcomes)

    @property
    def is_over(self) -> bool:
        """Whether every question is answered."""
        return self.answered >= self.questions

    def plan_to_ask(self, questions: int) -> None:
        """Notes that fewer questions are asked than was planned."""
        self.questions = questions

    def end(self) -> None:
        """Notes that nothing more is asked. A variant that ends within a block gets its last sentinel all the same."""
        if self._asks_again and self.answered and self.answered not in self._ends:
            self._due.append(max(self._asks_again.values()))

    def answer(self, record: Record) -> bool:
        """Counts an answer. Returns whether it ends a block: it is time to look at the server again."""
        is_new = record.sample_id not in self._outcomes
        self._outcomes[record.sample_id] = record.outcome
        number = self._ends.get(self.answered) if is_new else None
        if number in self._asks_again:
            self._due.append(self._asks_again[number])
        return number is not None

    def sentinel(self) -> HaystackSamples | None:
        """Returns the question that is due to be asked again, or None.

        It is one that was answered rightly, if there is one: only such an answer can get worse.
        """
        if not self._due:
            return None
        number = self._due.popleft()
        answered = [sample for sample in self._pool if sample.sample_id in self._outcomes]
        right = [sample for sample in answered if self._outcomes[sample.sample_id] == "correct"]
        choice = right or answered
        if not choice:
            return None
        sample = choice[number % len(choice)]
        return HaystackSamples(sample.haystack_id, (sample,))
