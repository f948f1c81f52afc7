"""Continuous batching: sequences join and leave the running batch with every step."""

from __future__ import annotations

from collections import deque
from typing import Any

from ratchet.models.failure import ModelUnavailable
from ratchet.models.policy import attention
from ratchet.models.policy.base import Base
from ratchet.models.policy.batch import TokenBatch, TokenSpan
from ratchet.models.policy.cache import KeyValueCache
from ratchet.models.policy.forward import ModelForward
from ratchet.models.policy.generation import Generation, TopTokens
from ratchet.models.policy.llama import LlamaForward, is_llama_like
from ratchet.models.policy.lora import LoadedAdapter
from ratchet.models.policy.prefixes import PrefixStore
from ratchet.models.policy.sampling import sample

STEP_ROWS = 512
"""Maximum number of tokens that a step reads, besides one for each answer: it bounds a step's
duration."""

PREFIX_BYTES = 512 * 1024 * 1024
"""Bytes of keys and values of finished sequences that are kept."""

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Settings that only a mixture of experts has."""

ROW_MULTIPLE = 16
"""The number of rows in a batch whose results do not depend on one another is a multiple of
this."""


class PolicyEngine:
    """Generates answers for many requests at once.

    Each step reads the newest token of every answer, and parts of new prompts beside them.
    What was computed for a sequence is kept, and used by those of the same version that begin
    alike.

    A *deterministic* engine gives a request the same tokens and log-probabilities, bit for bit,
    whatever else is in the batch, and whatever was computed before. Every pass then has the same
    number of rows; attention is computed for each row at a length that follows from its position.

    Args:
        base: The model; it belongs to the engine from then on.
        slots: Sequences at once; more wait.
        context: Tokens of a sequence; at most what the model was trained for.
        deterministic: See above.
        prefix_bytes: Bytes of keys and values that are kept of finished sequences.
        fused: Whether Llama and its relatives run by the quicker `LlamaForward`.

    Raises:
        ModelUnavailable: The model cannot be served, or not deterministically.
    """

    def __init__(
        self,
        base: Base,
        *,
        slots: int = 16,
        context: int | None = None,
        deterministic: bool = False,
        prefix_bytes: int = PREFIX_BYTES,
        fused: bool = True,
    ) -> None:
        import torch

        self._torch = torch
        self.base, self.deterministic = base, deterministic
        self.slots = slots
        self.context = min(context or base.context, base.context)
        config = base.model.config.get_text_config()
        weight = base.model.get_input_embeddings().weight
        self._device = weight.device
        heads = getattr(config, "num_attention_heads", None)
        if heads is None:
            raise self._unusual("it has no attention heads")
        self.cache = KeyValueCache(
            layers=config.num_hidden_layers,
            slots=slots,
            heads=getattr(config, "num_key_value_heads", None) or heads,
            width=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=weight.dtype,
            device=weight.device,
        )
        self.prefixes = PrefixStore(prefix_bytes)
        self._forward: LlamaForward | ModelForward = (
            LlamaForward(base.model, self.cache, self.context, independent=deterministic)
            if fused and is_llama_like(base.model)
            else ModelForward(base.model, self.cache, independent=deterministic)
        )
        self._rows = -(-slots // ROW_MULTIPLE) * ROW_MULTIPLE
        self._waiting: deque[Generation] = deque()
        self._decoding: list[Generation] = []
        """By slot, from 0."""
        self._reading: list[Generation] = []
        """Sequences whose prompt is being read, by slot, after those that are decoding."""
        self._batch: TokenBatch | None = None
        """The last batch, if the next is the same with each position one higher."""
        self.steps = 0
        self.tokens = 0
        """Tokens generated."""
        with torch.inference_mode():
            self._check_attention()
            if deterministic:
                self._check_rows()

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._waiting or self._decoding or self._reading)

    def uses(self, adapter: LoadedAdapter) -> bool:
        """Whether a request with this adapter waits or runs."""
        return any(
            generation.adapter is adapter
            for generation in (*self._waiting, *self._decoding, *self._reading)
        )

    def forget(self, adapter: LoadedAdapter) -> None:
        """Drop what was prepared for an adapter that nothing uses."""
        self._forward.forgotten(adapter)

    def submit(self, generation: Generation) -> None:
        """Add a request; `step` generates it. May be called from a different thread."""
        self._waiting.append(generation)

    def run(self) -> None:
        """Take steps until there is nothing to do."""
        while not self.idle:
            self.step()

    def step(self) -> None:
        """Read one batch, and add a token to each answer whose prompt was read.

        When the step fails, as for want of memory, its sequences end with the error.
        """
        with self._torch.inference_mode():
            try:
                self._leave()
                self._admit()
                self._make_room()
                if self._decoding or self._reading:
                    self._step()
            except Exception as error:
                self._fail(error)

    def _step(self) -> None:
        batch, ends = self._next_batch()
        scored = self._scored(batch)
        wanted = [
            *ends,
            *(row for span, _ in scored for row in range(span.row, span.row + span.count)),
        ]
        rows: list[int] | None = wanted
        if wanted == list(range(len(batch.ids))) or (self.deterministic and scored):
            rows = None
        elif self.deterministic and wanted:
            rows = wanted + [0] * (self._rows - len(wanted))  # the same number in each pass
        logits = self._forward(batch, rows)
        logits = logits[wanted] if rows is None and self.deterministic else logits[: len(wanted)]
        self.steps += 1
        self._score_prompts(scored, logits[len(ends) :])
        ready = self._read(batch)
        finishing = [*self._decoding, *ready]
        same = not self._reading and batch.decoding == len(finishing)
        self._decoding = finishing
        self._reading = self._reading[len(ready) :]
        if not finishing:
            return
        tokens, logprobs, all_logprobs = sample(
            logits[: len(ends)], [generation.row for generation in finishing]
        )
        self._keep_top(finishing, all_logprobs)
        for generation, token, logprob in zip(
            finishing, tokens.tolist(), logprobs.tolist(), strict=True
        ):
            if generation.max_tokens == 0:
                generation.finish_reason = "length"
            else:
                generation.add(token, logprob, self.context)
                self.tokens += 1
        if same:
            batch.ids = tokens
        self._batch = batch if same else None

    def _read(self, batch: TokenBatch) -> list[Generation]:
        """Count what was read; return those whose prompt is now read whole."""
        for generation in self._decoding:
            generation.read += 1
        ready = []
        spans = {span.slot: span.count for span in batch.spans}
        for generation in self._reading:
            generation.read += spans.get(generation.slot, 0)
            if generation.read == len(generation.prompt):
                ready.append(generation)
                self.prefixes.add(
                    generation.version, generation.prompt, self.cache, generation.slot
                )
        return ready

    def _leave(self) -> None:
        """Remove finished sequences from their slots; the last sequences move into the gaps."""
        if not any(generation.ended for generation in (*self._decoding, *self._reading)):
            return
        self._batch = None
        for generation in [*self._decoding, *self._reading]:
            if generation.ended:
                if generation.error is None:
                    ids = [*generation.prompt, *generation.response][: generation.read]
                    self.prefixes.add(generation.version, ids, self.cache, generation.slot)
                self.cache.clear(generation.slot)
                generation.slot = -1
        self._decoding = self._close_gaps(self._decoding, 0)
        self._reading = self._close_gaps(self._reading, len(self._decoding))

    def _close_gaps(self, sequences: list[Generation], first: int) -> list[Generation]:
        left = [generation for generation in sequences if generation.slot >= 0]
        wanted = set(range(first, first + len(left)))
        free = sorted(wanted - {generation.slot for generation in left})
        for generation in sorted(left, key=lambda generation: generation.slot, reverse=True):
            if generation.slot not in wanted:
                target = free.pop(0)
                self.cache.move(generation.slot, target, generation.read)
                generation.slot = target
        return sorted(left, key=lambda generation: generation.slot)

    def _admit(self) -> None:
        """Give slots to those that wait."""
        passed: list[Generation] = []
        while self._waiting and len(self._decoding) + len(self._reading) < self.slots:
            generation = self._waiting.popleft()
            if generation.ended:
                continue
            generation.keys = generation.keys or self.prefixes.keys(
                generation.version, generation.prompt
            )
            if self._is_being_read(generation):
                passed.append(generation)
                continue
            try:
                # Room for the prompt and the answer's beginning; it grows with the answer.
                self.cache.reserve(len(generation.prompt) + 1)
            except ModelUnavailable as error:
                generation.error = error
                continue
            if generation.adapter is not None:
                self._forward.adapted(generation.adapter)
            generation.slot = len(self._decoding) + len(self._reading)
            self.cache.clear(generation.slot)
            if not generation.score_prompt:
                generation.read = generation.cached = self.prefixes.restore(
                    generation.version, generation.prompt, self.cache, generation.slot
                )
            self._reading.append(generation)
            self._batch = None
        self._waiting.extendleft(reversed(passed))

    def _is_being_read(self, generation: Generation) -> bool:
        """Whether another sequence is reading the same beginning, which then need not be read
        twice."""
        if (
            generation.score_prompt
            or not generation.keys
            or self.prefixes.covers(generation.keys[-1])
        ):
            return False
        return any(
            generation.keys[-1] in reader.keys
            for reader in self._reading
            if not reader.score_prompt
        )

    def _make_room(self) -> None:
        """Let the cache grow with the longest answer; if memory runs out, that answer ends."""
        longest = max((generation.length for generation in self._decoding), default=0)
        if longest <= self.cache.capacity:
            return
        self._batch = None
        try:
            self.cache.reserve(longest)
        except ModelUnavailable as error:
            for generation in self._decoding:
                if generation.length > self.cache.capacity:
                    generation.error = error
            self._leave()

    def _next_batch(self) -> tuple[TokenBatch, list[int]]:
        """The next batch, and the rows that are followed by a new token, by slot."""
        batch = self._batch
        if batch is None or self.deterministic or self._wasteful(batch.length + 1):
            return self._new_batch()
        batch.positions += 1
        batch.cells += 1
        batch.length += 1
        self.cache.mask.view(-1).index_fill_(0, batch.cells, 0)
        return batch, list(range(batch.decoding))

    def _wasteful(self, length: int) -> bool:
        total = sum(generation.length for generation in self._decoding)
        return length * len(self._decoding) > attention.WASTE * total

    def _new_batch(self) -> tuple[TokenBatch, list[int]]:
        torch, capacity = self._torch, self.cache.capacity
        members = self._decoding
        ids = [generation.response[-1] for generation in members]
        places = [(generation.slot, generation.length - 1) for generation in members]
        length = max((generation.length for generation in members), default=0)
        together = not (self.deterministic or self._wasteful(length))
        spans = [] if together else [TokenSpan(slot, slot, 1, at) for slot, at in places]
        owners = [generation.adapter for generation in members]
        ends = list(range(len(members)))
        room = self._rows - len(ids) if self.deterministic else STEP_ROWS
        for generation in self._reading:
            count = min(len(generation.prompt) - generation.read, room)
            if count == 0:
                break
            spans.append(TokenSpan(generation.slot, len(ids), count, generation.read))
            ids.extend(generation.prompt[generation.read : generation.read + count])
            places.extend((generation.slot, generation.read + i) for i in range(count))
            owners.extend([generation.adapter] * count)
            room -= count
            if generation.read + count == len(generation.prompt):
                ends.append(len(ids) - 1)
            else:
                break  # those after it would become ready before it
        real = len(ids)
        if self.deterministic:
            ids.extend([0] * (self._rows - real))
        padding = [(self.slots, 0)] * (len(ids) - real)
        cells = [slot * capacity + at for slot, at in (*places, *padding)]
        device = self._device
        batch = TokenBatch(
            ids=torch.tensor(ids, device=device),
            positions=torch.tensor([at for _, at in (*places, *padding)], device=device),
            cells=torch.tensor(cells, device=device),
            decoding=len(members) if together else 0,
            length=length,
            spans=spans,
            adapters=self._adapters(owners, len(ids)),
        )
        self.cache.mask.view(-1).index_fill_(0, batch.cells[:real], 0)
        if self.deterministic:
            attention.prepare_groups(batch, places, self.cache)
        else:
            attention.prepare(batch, self.cache)
        return batch, ends

    def _adapters(self, owners: list[LoadedAdapter | None], rows: int) -> list[tuple[Any, Any]]:
        """Adapters with their rows; None for all."""
        torch = self._torch
        by_version = {adapter.version: adapter for adapter in owners if adapter is not None}
        if len(by_version) == 1 and None not in owners:
            return [(next(iter(by_version.values())), None)]
        out: list[tuple[Any, Any]] = []
        for version, adapter in by_version.items():
            own = [row for row, owner in enumerate(owners) if owner and owner.version == version]
            places = torch.tensor(own, device=self._device)
            if self.deterministic:
                mask = torch.zeros(rows, 1, dtype=torch.bool, device=self._device)
                mask[places] = True
                places = mask
            out.append((adapter, places))
        return out

    def _scored(self, batch: TokenBatch) -> list[tuple[TokenSpan, Generation]]:
        """Parts of prompts whose own tokens' log-probabilities were asked for."""
        by_slot = {
            generation.slot: generation for generation in self._reading if generation.score_prompt
        }
        return [(span, by_slot[span.slot]) for span in batch.spans if span.slot in by_slot]

    def _score_prompts(self, scored: list[tuple[TokenSpan, Generation]], logits: Any) -> None:
        """Keep the log-probabilities of the prompts' own tokens."""
        torch, row = self._torch, 0
        for span, generation in scored:
            following = generation.prompt[span.start + 1 : span.start + span.count + 1]
            logprobs = torch.log_softmax(logits[row : row + len(following)], -1)
            ids = torch.tensor(following, device=self._device, dtype=torch.long)
            generation.prompt_logprobs.extend(logprobs.gather(1, ids[:, None])[:, 0].tolist())
            if generation.top:
                generation.prompt_tops.extend(_top(logprobs, generation.top))
            row += span.count

    def _keep_top(self, finishing: list[Generation], logprobs: Any) -> None:
        for row, generation in enumerate(finishing):
            if generation.top and generation.max_tokens:
                generation.tops.extend(_top(logprobs[row : row + 1], generation.top))

    def _fail(self, error: Exception) -> None:
        """End what was in the batch; what waits continues."""
        self._batch = None
        for generation in [*self._decoding, *self._reading]:
            generation.slot = -1
            if not generation.ended:
                generation.error = error
        self._decoding, self._reading = [], []
        self.cache.mask.fill_(-self._torch.inf)

    def _check_attention(self) -> None:
        """Check with one token that all attention is computed here; limit the context
        accordingly.

        Raises:
            ModelUnavailable: The model computes attention in a way of its own.
        """
        forward = self._forward
        if isinstance(forward, LlamaForward):
            return
        try:
            forward(self._probe(1), None)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise self._unusual(str(error)) from None
        if forward.attended != self.base.model.config.get_text_config().num_hidden_layers:
            raise self._unusual("its attention cannot be replaced")
        # Within its window, a layer attends to all tokens.
        self.context = min(self.context, forward.window or self.context)

    def _unusual(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(
            f"{type(self.base.model).__name__} cannot be served here: {why}.",
            hint="Most decoder models of transformers can: Llama, Qwen, Mistral, Gemma, Phi, "
            "OLMo, …",
        )

    def _check_rows(self) -> None:
        """Check that a deterministic engine is deterministic: a row's scores do not depend on
        its place.

        Raises:
            ModelUnavailable: They do.
        """
        torch, rows = self._torch, self._rows
        config = self.base.model.config.get_text_config()
        if any(getattr(config, name, None) for name in EXPERTS):
            # Which rows an expert gets, and so the size of its product, depends on all rows.
            raise self._dependent()
        size = self.base.model.get_input_embeddings().num_embeddings
        numbers = torch.Generator().manual_seed(0)
        outputs = []
        for row in range(rows):
            probe = self._probe(rows)
            probe.ids = torch.randint(size, (rows,), generator=numbers).to(self._device)
            probe.ids[row] = 1
            outputs.append(self._forward(probe, None)[row])
        if not all(torch.equal(output, outputs[0]) for output in outputs):
            raise self._dependent()

    def _dependent(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self.base.name} cannot be served deterministically on this machine: its answers "
            "depend on what else is in the batch.",
            hint="Leave out --deterministic. Mixtures of experts are among such models.",
        )

    def _probe(self, rows: int) -> TokenBatch:
        """First tokens of no sequence."""
        torch, device = self._torch, self._device
        zeros = torch.zeros(rows, dtype=torch.long, device=device)
        first = self.slots * self.cache.capacity
        cells = torch.arange(first, first + rows, device=device)
        return TokenBatch(ids=zeros, positions=zeros, cells=cells, decoding=0, length=1, spans=[])


def _top(logprobs: Any, count: int) -> list[TopTokens]:
    best = logprobs.topk(min(count, logprobs.shape[1]), -1)
    return [
        list(zip(ids, values, strict=True))
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
