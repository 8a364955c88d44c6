"""Answers that were taken from an earlier run: from which, and how they were confirmed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kveval.run.storage import Stored

Count = Annotated[int, Field(ge=0)]


class Moved(Stored):
    """How two answers to the same questions differ.

    Attributes:
        questions: answered twice.
        turned: right in one answer, and wrong in the other.
        differing: with another output.
        expected: questions with two expected scores; `expected_moved`: the mean absolute difference of these, or None.
    """

    questions: Count
    turned: Count
    differing: Count
    expected: Count = 0
    expected_moved: Annotated[float, Field(ge=0, le=1)] | None = None


class Confirmation(Stored):
    """What the questions that were asked again say about the earlier answers.

    Attributes:
        haystacks: asked again.
        moved: the answers of now against the earlier ones.
        noise: the earlier run's baseline against its A/A run. None without one.
        refusal: why the earlier answers are not used. None if they are.
    """

    haystacks: Count
    moved: Moved
    noise: Moved | None
    refusal: str | None = None


class Reuse(Stored):
    """What a variant took from an earlier run, or why it took nothing.

    Attributes:
        path: of the run, or what the configuration names if no run fits.
        run_id, created: of the run. None if no run fits.
        answers: taken. The others of the variant were asked in this run.
        asked_from, asked_until: when the taken answers were given, UTC, as ISO 8601.
        confirmed_by: the variant whose questions were asked again: for an A/A run, the baseline.
        refusal: why nothing was taken.
    """

    path: str
    run_id: str | None = None
    created: str | None = None
    answers: Count = 0
    asked_from: str | None = None
    asked_until: str | None = None
    confirmed_by: str | None = None
    confirmation: Confirmation | None = None
    refusal: str | None = None

    def in_words(self) -> str:
        """Returns what was taken, from when and how it was confirmed, or why nothing was."""
        if self.refusal is not None:
            return f"nothing is taken from an earlier run: {self.refusal}"
        told = f"{self.answers:,} answers are taken from {self.path} (run {self.run_id}, asked {self._when()})"
        if self.confirmation is None:
            return f"{told}, confirmed by the questions of {self.confirmed_by} that were asked again"
        moved, noise = self.confirmation.moved, self.confirmation.noise
        expected = ""
        if moved.expected_moved is not None:
            expected = f", the expected score moved by {100 * moved.expected_moved:.2g} points on average"
        against = "there was no A/A run to compare with"
        if noise is not None:
            against = f"in the A/A run of then {noise.turned} of {noise.questions} turned, {noise.differing} differ"
            if noise.expected_moved is not None:
                against += f", and it moved by {100 * noise.expected_moved:.2g} points"
        return (
            f"{told}; of {moved.questions} questions asked again, {moved.turned} turned right or wrong, "
            f"{moved.differing} have another output{expected} ({against})"
        )

    def _when(self) -> str:
        return (
            str(self.asked_from) if self.asked_from == self.asked_until else f"{self.asked_from} to {self.asked_until}"
        )
