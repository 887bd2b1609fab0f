"""Makes the example's base model from nothing: tokenizer, a small Llama, and a warm start on noisy demonstrations.

Run by hand, a few minutes of one core: `python rftstudio/demo/recipe/make_base_model.py OUT`. The shipped folder
`rftstudio/demo/base_model/` is what this wrote; its manifest holds the checksums.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: waiting threads cost more than they give here
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import hashlib
import json
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() not in {ROOT, Path(__file__).resolve().parent}]
import torch  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402

sys.path.append(str(ROOT))  # last: the house has a package `datasets` of its own
from rftstudio.demo import world  # noqa: E402
from rftstudio.demo.recipe.demonstrations import demonstrations  # noqa: E402

SEED = 7
SAMPLES = 20_000
STEPS = 800
FAULTLESS_SAMPLES, FAULTLESS_STEPS = 16_000, 400
BATCH = 64
LEARNING_RATE = 4e-3
#: Phrases of the desk that are one token each. They keep conversations short, and because they take the spaces with
#: them, a good is the same token wherever it stands: copying it from question to call is then easily learnt.
PHRASES = [
    "system\n",
    "user\n",
    "assistant\n",
    "tool\n",
    "You are the duty desk. ",
    "Look up the good in the tariff, then answer with one number.",
    "You answer customs questions.",
    ": the ship carries ",
    " and ",
    ". What is the rate for ",
    ". The ",
    " is worth ",
    " pounds. What is the duty on ",
    "see ",
    "no entry for ",
]
SPECIALS = ["<|endoftext|>", "<|im_end|>", "<|im_start|>", "<tool_call>", "</tool_call>"]
HERE = Path(__file__).resolve().parent

#: How a reply is read back: calls between their markers, the rest is text.
RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open_pattern": r"<tool_call>(?P<name>[A-Za-z0-9_-]+)",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*|$", "content": "text"},
    },
}


def make_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE with whole words and digits in pairs. Bytes make the vocabulary open: nothing is unknown. A rate is
    then one token and a duty two, which leaves less to go wrong in copying than four single digits would."""
    tokenizer = Tokenizer(models.BPE())
    split = Regex(r"\d{1,2}|[A-Za-z]+|\s+|[^\sA-Za-z\d]+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(split, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        min_frequency=2,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in PHRASES])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|endoftext|>",  # noqa: S106
        eos_token="<|im_end|>",  # noqa: S106
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = (HERE / "chat_template.jinja").read_text(encoding="utf-8")
    fast.response_template = RESPONSE_TEMPLATE
    return fast


def tool_schemas() -> list[dict]:
    keys = ("name", "description", "parameters")
    return [{"type": "function", "function": {key: tool[key] for key in keys}} for tool in world.TOOLS]


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=192,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def encode(tokenizer: PreTrainedTokenizerFast, conversations: list[list[dict]]) -> list[tuple[list[int], list[int]]]:
    """Token ids, and 1 where the assistant wrote."""
    out = tokenizer.apply_chat_template(
        conversations, tools=tool_schemas(), tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    return list(zip(out["input_ids"], out["assistant_masks"], strict=True))


def batch_of(rows: list[tuple[list[int], list[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), longest), pad)
    attention = torch.zeros((len(rows), longest), dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    for row, (tokens, mask) in enumerate(rows):
        size = len(tokens)
        ids[row, :size] = torch.tensor(tokens)
        attention[row, :size] = 1
        labels[row, :size] = torch.where(torch.tensor(mask) == 1, torch.tensor(tokens), -100)
    return ids, attention, labels


def warm_start(model: LlamaForCausalLM, faultless: list, noisy: list, pad: int) -> float:
    """Supervised steps, first on faultless then on noisy demonstrations; the last loss."""
    rng = random.Random(SEED)  # noqa: S311
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LEARNING_RATE, total_steps=STEPS)
    began = time.time()
    for step in range(STEPS):
        rows = faultless if step < FAULTLESS_STEPS else noisy
        ids, attention, labels = batch_of(rng.sample(rows, BATCH), pad)
        loss = model(input_ids=ids, attention_mask=attention, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 25 == 24:
            print(f"step {step + 1}/{STEPS} loss {loss.item():.4f} {time.time() - began:.0f} s", flush=True)
    return loss.item()


def write_manifest(folder: Path) -> None:
    """File names with their SHA-256."""
    files = sorted(path for path in folder.iterdir() if path.name not in {"manifest.json", "README.md"})
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (folder / "manifest.json").write_text(json.dumps({"sha256": sums}, indent=2) + "\n", encoding="utf-8")


def main(out: Path) -> None:
    conversations = demonstrations(SAMPLES, SEED)
    plain = [message.get("content") or "" for talk in conversations[:3000] for message in talk]
    tools = ["lookup(good)\ncalc(a, b)\n", "\nsystem\nuser\nassistant\ntool\n"] * 50
    calls = [
        call["function"]["name"] + call["function"]["arguments"]
        for talk in conversations[:3000]
        for message in talk
        for call in message.get("tool_calls", ())
    ]
    pairs = [f"{number:02d}" for number in range(100)] * 50
    tokenizer = make_tokenizer(plain + calls + tools + pairs)
    model = make_model(tokenizer)
    print(f"{len(tokenizer)} tokens, {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    rows = encode(tokenizer, conversations)
    faultless = encode(tokenizer, demonstrations(FAULTLESS_SAMPLES, SEED + 1, is_faultless=True))
    print(f"mean length {sum(len(ids) for ids, _ in rows) / len(rows):.1f}", flush=True)
    warm_start(model, faultless, rows, tokenizer.pad_token_id)
    out.mkdir(parents=True, exist_ok=True)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    for path in out.iterdir():
        path.chmod(0o644)
    write_manifest(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
