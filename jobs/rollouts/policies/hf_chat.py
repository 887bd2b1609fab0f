"""A Hugging Face chat model as a policy: render, generate, read back. The trainer and the local server share it, so
what is trained, evaluated and served is rendered by one hand.

Portable: standard library, torch and transformers; no Django, no TRL. Tools are rendered in the order given, which is
the agent's: a model that learnt one order loses a quarter of its answers under another.
"""

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicCache

from jobs.rollouts.engine.types import PolicyReply
from jobs.rollouts.policies.following import visible
from jobs.rollouts.policies.generation import Ask, Generation, Stopped

#: For a tokenizer that brings no response template: the form most open models were taught.
FALLBACK_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor_pattern": r"assistant[^\n]*\n+",
    "fields": {
        "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*", "content": "text"},
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"content": "text"},
    },
}

#: The name of a call whose own name could not be read. No tool bears it, so the toolset answers with an error.
UNREADABLE_CALL = "unreadable_call"


PROMPTS_KEPT, SUFFIXES_KEPT = 256, 10_000


def remembered(store: dict[str, list[int]], key: str, most: int, make: Callable[[], list[int]]) -> list[int]:
    """What was made for this key, a copy of its own. The store is emptied when it is full, perhaps by another thread."""
    found = store.get(key)
    if found is None:
        found = make()
        if len(store) >= most:
            store.clear()
        store[key] = found
    return list(found)


class HfChat:
    """A model with its tokenizer."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase, *, max_batch: int = 128) -> None:
        self.model, self.tokenizer, self.max_batch = model, tokenizer, max_batch
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        declared = getattr(model.generation_config, "eos_token_id", None)
        declared = declared if isinstance(declared, list) else [declared]
        self.eos_ids = {token for token in (*declared, tokenizer.eos_token_id) if token is not None}
        self.reader = ReplyReader(tokenizer)
        self._suffixes: dict[str, list[int]] = {}
        self._prompts: dict[str, list[int]] = {}
        self._openings: dict[str, list[int]] = {}
        self._keeps_argument_text = self._try_argument_text()

    def _try_argument_text(self) -> bool:
        """Whether the template writes call arguments given as text unchanged. Then the model reads back exactly what it
        wrote; otherwise they are parsed first."""
        text = '{"x":1}'
        call = {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": text}}
        talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        try:
            return text in self.tokenizer.apply_chat_template(talk, tokenize=False)
        except (TypeError, ValueError, TemplateError):
            return False

    @property
    def context(self) -> int:
        """How many tokens fit, prompt and reply together."""
        return int(getattr(self.model.config.get_text_config(), "max_position_embeddings", 0) or 1_000_000)

    def prompt_ids(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        """The conversation as tokens, up to where the assistant begins to write. The tries of one item begin alike, so
        what was rendered last is remembered."""
        key = json.dumps([messages, tools], default=str)
        return remembered(
            self._prompts, key, PROMPTS_KEPT, lambda: self._render(messages, tools, add_generation_prompt=True)
        )

    def reply_ids(self, messages: list[dict[str, Any]], turn: dict[str, Any], tools: list[dict[str, Any]]) -> list[int]:
        """The tokens by which the policy would write this turn, its closing token included. ValueError where the template
        does not simply append it."""
        before = self.prompt_ids(messages, tools)
        after = self._render([*messages, turn], tools, add_generation_prompt=False)
        if after[: len(before)] != before:
            raise ValueError(
                "The chat template writes a finished turn otherwise than one that is being written, so it cannot be learnt "
                "token by token. Use the model's training template (one that only appends)."
            )
        wrote = after[len(before) :]
        end = next((place for place, token in enumerate(wrote) if token in self.eos_ids), len(wrote) - 1)
        return wrote[: end + 1]

    def continuation_ids(self, messages: list[dict[str, Any]]) -> list[int]:
        """What follows the policy's own closing token when `messages` (tool results, or a user's next turn) are appended: the rest of its
        turn, the results, the opening of its next turn. Found by rendering a small conversation with and without."""
        key = json.dumps(messages, sort_keys=True, default=str)
        return remembered(self._suffixes, key, SUFFIXES_KEPT, lambda: self._render_continuation(messages))

    def _render_continuation(self, messages: list[dict[str, Any]]) -> list[int]:
        names = [message.get("name") or "tool" for message in messages if message.get("role") == "tool"]
        calls = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": {}}}
            for n, name in enumerate(names)
        ]
        said = {"content": "", "tool_calls": calls} if calls else {"content": "x"}  # a user's next turn follows words
        opening = [{"role": "user", "content": "x"}, {"role": "assistant", **said}]
        before = remembered(
            self._openings, json.dumps(names), PROMPTS_KEPT,
            lambda: self._render(opening, [], add_generation_prompt=False),
        )  # fmt: skip
        after = self._render(opening + messages, [], add_generation_prompt=True)
        if after[: len(before)] != before:
            raise ValueError(
                "The chat template rewrites earlier turns when tool results follow, so a rollout's tokens would not be "
                "the ones that were sampled. Use the model's training template (one that only appends)."
            )
        end = max((place for place, token in enumerate(before) if token in self.eos_ids), default=len(before) - 1)
        return after[end + 1 :]

    def _render(self, messages: list, tools: list, *, add_generation_prompt: bool) -> list[int]:
        rendered = self.tokenizer.apply_chat_template(
            [as_template_message(message, keep_text=self._keeps_argument_text) for message in messages],
            tools=tools or None,
            add_generation_prompt=add_generation_prompt,
            tokenize=True,
            return_dict=True,
        )
        return list(rendered["input_ids"])

    def generate(self, asks: Sequence[Ask], *, should_stop: Callable[[], bool] = bool) -> list[Generation]:
        """Continue every prompt, in batches. Raises `Stopped` soon after `should_stop` turns true."""
        done: list[Generation] = []
        for start in range(0, len(asks), self.max_batch):
            done += self._generate_batch(asks[start : start + self.max_batch], should_stop)
        return done

    @torch.no_grad()
    def _generate_batch(self, asks: Sequence[Ask], should_stop: Callable[[], bool]) -> list[Generation]:
        was_training = self.model.training
        self.model.eval()
        try:
            return Decoding(self, asks).run(should_stop)
        finally:
            self.model.train(was_training)

    def reply(self, ask: Ask, generation: Generation, *, text: str | None = None) -> PolicyReply:
        """A generation as an assistant message with its counts; `text` where it was cut at a stop text."""
        text = self.tokenizer.decode(generation.ids) if text is None else text
        message = self.reader.read(text, prefix=self.tokenizer.decode(ask.prompt[-64:]))
        count = len(generation.ids)
        finish = "tool_calls" if message["tool_calls"] and generation.finish_reason == "stop" else None
        return PolicyReply(
            text=message["content"],
            reasoning=message["reasoning"],
            tool_calls=message["tool_calls"],
            finish_reason=finish or generation.finish_reason,
            input_tokens=len(ask.prompt),
            output_tokens=count,
            logprob_sum=sum(generation.logprobs),
            entropy_mean=sum(generation.entropies) / count if generation.entropies else None,
        )


class Decoding:
    """One batch on its way: left-padded prompts, a growing cache, rows that end one by one."""

    def __init__(self, chat: HfChat, asks: Sequence[Ask]) -> None:
        self.chat, self.asks = chat, asks
        self.out = [Generation() for _ in asks]
        self.live = [n for n, ask in enumerate(asks) if ask.max_tokens > 0]
        device = chat.model.device
        longest = max((len(asks[n].prompt) for n in self.live), default=0)
        pad = chat.tokenizer.pad_token_id
        rows = [[pad] * (longest - len(asks[n].prompt)) + asks[n].prompt for n in self.live]
        self.ids = torch.tensor(rows, dtype=torch.long, device=device)
        self.mask = torch.tensor(
            [[0] * (longest - len(asks[n].prompt)) + [1] * len(asks[n].prompt) for n in self.live],
            dtype=torch.long,
            device=device,
        )
        self.positions = (self.mask.cumsum(-1) - 1).clamp(min=0)
        self.cache = DynamicCache(config=chat.model.config)

    def run(self, should_stop: Callable[[], bool]) -> list[Generation]:
        while self.live:
            if should_stop():
                raise Stopped
            result = self.chat.model(
                input_ids=self.ids,
                attention_mask=self.mask,
                position_ids=self.positions,
                past_key_values=self.cache,
                use_cache=True,
                logits_to_keep=1,
            )
            self.take(result.logits[:, -1].float())
        return self.out

    def take(self, logits: torch.Tensor) -> None:
        """Draw one token for every live row, write it down, and let ended rows go."""
        tokens, logprobs, entropies = choose([self.asks[n] for n in self.live], logits)
        stay = []
        for row, n in enumerate(self.live):
            out = self.out[n]
            out.ids.append(tokens[row])
            out.logprobs.append(logprobs[row])
            out.entropies.append(entropies[row])
            watch = self.asks[n].watch
            if tokens[row] in self.chat.eos_ids or (watch is not None and watch(tokens[row])):
                out.finish_reason = "stop"
            elif len(out.ids) < self.asks[n].max_tokens:
                stay.append(row)
        device = logits.device
        self.ids = torch.tensor([[tokens[row]] for row in stay], dtype=torch.long, device=device)
        if len(stay) < len(self.live) and stay:
            rows = torch.tensor(stay, device=device)
            self.cache.batch_select_indices(rows)
            self.mask, self.positions = self.mask[rows], self.positions[rows]
        self.live = [self.live[row] for row in stay]
        self.mask = torch.cat([self.mask, self.mask.new_ones((self.mask.shape[0], 1))], dim=1)
        self.positions = self.positions[:, -1:] + 1


def choose(asks: list[Ask], logits: torch.Tensor) -> tuple[list[int], list[float], list[float]]:
    """A token for each row with its log-probability, and the entropy it was drawn under."""
    if not torch.isfinite(logits).all():
        raise FloatingPointError("The model's output is not finite; its weights are broken.")
    scale = torch.tensor([[ask.temperature if ask.temperature > 0 else 1.0] for ask in asks], device=logits.device)
    logprobs = torch.log_softmax(logits / scale, dim=-1)
    probs = logprobs.exp()
    entropies = -(probs * logprobs).sum(-1)
    draws = torch.tensor([[ask.draw() if ask.temperature > 0 else 0.0] for ask in asks], dtype=torch.float64)
    kept = nucleus(probs, asks) if any(ask.top_p < 1 for ask in asks) else probs
    ladder = kept.double().cumsum(-1)
    tokens = torch.searchsorted(ladder, draws.to(ladder.device) * ladder[:, -1:], right=True).squeeze(-1)
    greedy = torch.tensor([ask.temperature <= 0 for ask in asks], device=logits.device)
    tokens = torch.where(greedy, logits.argmax(-1), tokens.clamp(max=logits.shape[-1] - 1))
    taken = logprobs.gather(-1, tokens[:, None]).squeeze(-1)
    return tokens.tolist(), taken.tolist(), entropies.tolist()


def nucleus(probs: torch.Tensor, asks: list[Ask]) -> torch.Tensor:
    """Zero for what lies outside each row's smallest set with mass `top_p`."""
    order = probs.argsort(dim=-1, descending=True)
    ranked = probs.gather(-1, order)
    limits = torch.tensor([[ask.top_p] for ask in asks], device=probs.device)
    ranked = ranked * (ranked.cumsum(-1) - ranked < limits)
    return torch.zeros_like(probs).scatter(-1, order, ranked)


def as_template_message(message: dict[str, Any], *, keep_text: bool) -> dict[str, Any]:
    """As chat templates want it: no developer role, no null fields, call arguments as the template takes them."""
    clean = {key: value for key, value in message.items() if value is not None}
    if clean.get("role") == "developer":
        clean["role"] = "system"
    clean.setdefault("content", "")
    if clean.get("tool_calls") and not keep_text:
        clean["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": parsed(call["function"].get("arguments"))}}
            for call in clean["tool_calls"]
        ]
    return clean


def parsed(arguments: Any) -> Any:
    """Arguments as a mapping; what is no JSON object is kept under one key, so that it stays visible."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"unreadable": arguments}


class ReplyReader:
    """Reads a reply by the tokenizer's response template.

    A call whose arguments do not parse stays a call, with the text as the model wrote it: the toolset then answers with
    an error the model can see. Read as plain text it would become the final answer without a word.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        template = deepcopy(getattr(tokenizer, "response_template", None) or FALLBACK_TEMPLATE)
        calls = template["fields"].get("tool_calls", {})
        if calls.get("content") == "json":
            calls["content"] = "text"  # keep the model's own spelling; JSON is judged where the call is made
        opening = calls.get("open") or calls.get("open_pattern") or ""
        self.template, self.marker = template, _mark(opening)
        thought = template["fields"].get("reasoning_content") or template["fields"].get("thinking") or {}
        self.thinking = tuple(_mark(thought.get(key) or thought.get(f"{key}_pattern")) for key in ("open", "close"))
        # A template whose marks are no plain text is shown when it has been read as a whole.
        self.is_readable_early = (not calls or bool(self.marker)) and (not thought or all(self.thinking))
        tokenizer.parse_response("x", schema=template, prefix="")  # a broken template must not wait for a broken reply

    def early(self, text: str, *, prefix: str) -> str:
        """The content of a reply that is still being written, as far as it is certain."""
        if not self.is_readable_early:
            return ""
        thinking = self.thinking if all(self.thinking) else None
        return visible(text, prefix=prefix, marks=[self.marker] if self.marker else [], thinking=thinking)

    def read(self, text: str, *, prefix: str) -> dict[str, Any]:
        """`content`, `reasoning` and `tool_calls` of a reply."""
        for token in (self.tokenizer.eos_token, self.tokenizer.pad_token):
            text = text.removesuffix(token or "\0")
        try:
            message = self.tokenizer.parse_response(text, schema=self.template, prefix=prefix)
        except (ValueError, TypeError):
            message = {"content": text}
        calls = [read_call(call) for call in message.get("tool_calls") or []]
        content = str(message.get("content") or "").strip()
        if self.marker and self.marker in content:
            content, _, rest = content.partition(self.marker)
            calls.insert(0, {"name": UNREADABLE_CALL, "arguments": rest})
        return {
            "content": content.strip(),
            "reasoning": str(message.get("reasoning_content") or message.get("thinking") or "").strip(),
            "tool_calls": [{"id": f"call_{n}", "type": "function", "function": call} for n, call in enumerate(calls)],
        }


def _mark(pattern: Any) -> str:
    """The mark in angle brackets that a template's opening or closing names; nothing where it names none."""
    pattern = pattern[0] if isinstance(pattern, list) and pattern else pattern
    found = re.search(r"<[^>(]+>", pattern.replace("\\", "")) if isinstance(pattern, str) else None
    return found.group(0) if found else ""


def read_call(call: Any) -> dict[str, str]:
    """Name and argument text of one parsed call, whichever form the template gave it."""
    function = call.get("function", call) if isinstance(call, dict) else call
    if isinstance(function, str):
        text = function
        try:
            function = json.loads(text)
        except ValueError:
            name = re.search(r'"name"\s*:\s*"([^"]+)"', text)
            return {"name": name.group(1) if name else UNREADABLE_CALL, "arguments": text}
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return {"name": UNREADABLE_CALL, "arguments": json.dumps(function, ensure_ascii=False)}
    arguments = function.get("arguments", function.get("parameters", {}))
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"name": function["name"], "arguments": arguments}


def load_network(model: str | Path, **how: Any) -> Any:
    """The weights in a folder or of a hub name. A LoRA adapter is merged into the base model it names, which may itself be
    an adapter."""
    adapter = Path(model) / "adapter_config.json"
    if not adapter.is_file():
        return AutoModelForCausalLM.from_pretrained(str(model), **{"use_safetensors": True, **how})
    from peft import PeftModel

    base = load_network(json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"], **how)
    merged = PeftModel.from_pretrained(base, str(model)).merge_and_unload()
    # An adapter trained on these weights names its base by this path: they are those of the adapter, and not of its base.
    merged.name_or_path = merged.config._name_or_path = str(model)
    return merged.requires_grad_(True)  # peft froze the base, and a job may train on


def load_chat(model: str | Path, *, device: str | None = None, max_batch: int = 128) -> HfChat:
    """A folder or a hub name, ready to answer."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    network = load_network(model, dtype=torch.float32 if device == "cpu" else torch.bfloat16)
    return HfChat(network.to(device).eval(), AutoTokenizer.from_pretrained(str(model)), max_batch=max_batch)
