"""A plan: everything decided before an engine starts."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.config.sweep import SweepConfig
from kveval.engines.base import Installation
from kveval.engines.emulation import emulation_findings
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.batch_invariance import invariance_finding, why_not_invariant
from kveval.engines.vllm.reasoning_parsers import parser_markers
from kveval.measure.divergence.texts import PlannedText, plan_texts
from kveval.measure.haystacks import HaystackSamples, group_by_haystack, spread_over_time
from kveval.measure.looks.schedule import LookPlan, plan_looks
from kveval.measure.plan.asked_again import aa_sample_ids, cold_samples
from kveval.measure.plan.growth import EarlierPlan, by_stage, grown_cells, growth_findings, plan_growth
from kveval.measure.plan.limits import longest_request
from kveval.measure.plan.prompts import Route, plan_prompts
from kveval.measure.plan.references import PlannedReferences, plan_references
from kveval.measure.plan.samples import fixed_counts, plan_samples
from kveval.measure.plan.sharing import engines_of, prefills_to_share, sharing_findings
from kveval.measure.plan.tasks import check_lengths, plan_cells, plan_tasks, with_lengths
from kveval.measure.plan.variants import flags_of, plan_variants
from kveval.measure.questions.choose import ClusteringOf, careful_clustering, choose_questions, kept_number
from kveval.models.checkpoint import Model
from kveval.models.generation import serving_temperature
from kveval.run.facts import Finding
from kveval.run.manifest import ChosenQuestions, Growth
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.external.echoes import echo_findings
from kveval.tasks.sample import Sample
from kveval.tasks.scoring.model_reasoning import ModelReasoning
from kveval.tasks.task import Cell, Task


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided before an engine starts.

    Attributes:
        model: the checkpoint of every variant that names no other.
        models: the checkpoint of each variant, by its name.
        variants: in launch order: baseline, its A/A run, candidates, controls.
        tasks: by name.
        routes: by task, for tasks that can be asked through the chat endpoint.
        reasoning: how the model marks its thinking.
        questions: per haystack, of every cell for which the configuration leaves them open.
        cells: of generated tasks.
        samples: every sample of the run, the same for all variants.
        growth: what was added to the run since it was first planned, in order. The last one may be new.
        references: what is forced for each sample that has a reference, by its id; `without_reference`: why each other
            sample has none.
        aa_sample_ids: what the A/A run asks: whole haystacks.
        looks: when candidates are judged while they are asked.
        texts: what every variant is made to write, to see how far it moves from the baseline.
        max_model_len: tokens of the longest prompt and its output together, forced ones too, and no fewer than smoke
            questions need.
    """

    config: SweepConfig
    installation: Installation
    model: Model
    models: dict[str, Model]
    variants: list[ResolvedVariant]
    tasks: dict[str, Task]
    prompt_format: PromptFormat
    routes: dict[str, Route]
    reasoning: ModelReasoning
    questions: tuple[ChosenQuestions, ...]
    cells: list[Cell]
    samples: list[Sample]
    growth: tuple[Growth, ...]
    references: dict[str, PlannedReferences]
    without_reference: dict[str, str]
    aa_sample_ids: frozenset[str]
    looks: LookPlan
    texts: list[PlannedText]
    max_model_len: int

    def samples_of(self, variant: ResolvedVariant) -> list[Sample]:
        """Returns what a variant is asked."""
        if variant.role == "aa":
            return [sample for sample in self.samples if sample.sample_id in self.aa_sample_ids]
        return self.samples

    @property
    def stages(self) -> tuple[tuple[Sample, ...], ...]:
        """Returns the samples of the first plan, then those that each growth added."""
        return by_stage(self.samples, self.growth)

    @property
    def in_order(self) -> list[HaystackSamples]:
        """Returns the haystacks in the order they are asked: spread over time, and what was added after the rest."""
        return [one for stage in self.stages for one in spread_over_time(group_by_haystack(stage))]

    @property
    def findings(self) -> list[Finding]:
        """Returns what a reader must know of what is asked, and of how every server runs."""
        baseline, device = self.variants[0], self.installation.device
        of_all = {one.name: (self.models[one.name], flags_of(self.config, one.config)) for one in self.variants}
        reasons = {one.name: why_not_invariant(one, *of_all[one.name], device) for one in self.variants}
        return [
            *echo_findings(self.samples),
            *growth_findings(self.config, self.growth),
            *emulation_findings(self.variants, device),
            *sharing_findings(baseline.name, *of_all[baseline.name]),
            *([invariance_finding(reasons)] if self.config.engine.batch_invariant else ()),
        ]

    def leading_of(self, variant: ResolvedVariant) -> int:
        """Returns how many questions of a haystack are asked one after another, until the others share a prefill."""
        return prefills_to_share(self.models[variant.name], flags_of(self.config, variant.config))

    def prefills_of(self, variant: ResolvedVariant) -> int:
        """Returns how often a haystack is prefilled at most."""
        return self.leading_of(variant) * engines_of(flags_of(self.config, variant.config))

    @property
    def tool_tasks(self) -> frozenset[str]:
        """Returns the tasks that are asked through a chat endpoint with tools."""
        return frozenset(name for name, route in self.routes.items() if route.form == "tools")

    @property
    def serving_temperature(self) -> float:
        """Returns the temperature of expected scores, the same for all variants."""
        return self.config.requests.serving_temperature or serving_temperature(self.model.path)

    @property
    def cold_samples(self) -> list[Sample]:
        """What the baseline and the candidates are asked once more, without the prefix cache."""
        return cold_samples(self.stages, self.config.cold_check, self.config.seed, self.looks.first_look)


def make_plan(
    config: SweepConfig,
    installation: Installation,
    earlier: EarlierPlan | None = None,
    clustering_of: ClusteringOf = careful_clustering,
) -> Plan:
    """Plans a sweep, and checks everything that needs no running engine.

    Args:
        earlier: of the run that goes on. Its samples stay, and the configuration may ask for more.
        clustering_of: what is known of how alike the questions of a haystack are.
    """
    manifest = None if earlier is None else earlier.manifest
    config = kept_number(config, manifest)
    variants = plan_variants(config, installation)
    variants.check_launches()
    tasks = plan_tasks(config)
    config = with_lengths(config, tasks, variants.limits)
    check_lengths(config, tasks, variants.limits)
    questions = choose_questions(config, tasks, variants.model.path, installation.device.kind, manifest, clustering_of)
    cells = plan_cells(config, tasks, questions)
    prompts = plan_prompts(variants, tasks)
    growth = plan_growth(config, earlier, cells, fixed_counts(tasks, prompts))
    cells = grown_cells(cells, growth)
    samples = plan_samples(cells, tasks, prompts, variants.limits)
    references, without_reference = plan_references(config, samples, tasks, prompts)
    # Nothing is forced on servers that run already.
    forced_tokens = {} if config.is_attached else {one: planned.most_tokens for one, planned in references.items()}
    stages = by_stage(samples, growth)
    # Of the first plan: the texts of a run stay the same when samples are added.
    texts = plan_texts(config.divergence, stages[0], prompts.format, config.seed)
    for limit in variants.limits:
        for text in texts:
            limit.check(text.where, len(text.prompt_ids), text.tokens)
    return Plan(
        config=config,
        installation=installation,
        model=variants.model,
        models=variants.models,
        variants=variants.variants,
        tasks=tasks.by_name,
        prompt_format=prompts.format,
        routes=prompts.routes,
        reasoning=prompts.reasoning(parser_markers()),
        questions=questions,
        cells=cells,
        samples=samples,
        growth=growth,
        references=references,
        without_reference=without_reference,
        aa_sample_ids=aa_sample_ids(stages, config.aa_share),
        looks=plan_looks(stages),
        texts=texts,
        max_model_len=longest_request(
            samples,
            config.load,
            variants.limits,
            forced_tokens,
            texts,
            least=0 if earlier is None or config.is_attached else earlier.max_model_len,
        ),
    )
