"""Reads the body of `POST /v1/fine_tuning/jobs`: every field by its rule, every unknown one refused by name."""

import math
from dataclasses import dataclass, field
from typing import Any

from graders.secrets import SHOWN
from graders.validation import children
from jobs.agents.tools.spec import PLACEHOLDER
from jobs.plan import AUTO, FIELDS
from rftstudio.api.doors import check_known
from rftstudio.api.job_wire import SUPERVISED_NAMES
from rftstudio.core.errors import UserError
from rftstudio.core.outbound import allowed_hosts, check_url
from rftstudio.orders import parts

KNOWN = {
    "model", "training_file", "validation_file", "suffix", "seed", "metadata", "integrations", "method",
    "hyperparameters", "trainingType",
}  # fmt: skip
REINFORCEMENT = {"grader", "hyperparameters", "response_format", "tools", "max_episode_steps"}
TOOL = {"name", "server_url", "headers"}
METHOD = "method.reinforcement"
#: What a supervised job is measured by, before and after: the reference names no grader for it.
LIKE_THE_EXAMPLE = {
    "type": "text_similarity", "name": "like_the_example", "input": "{{ sample.output_text }}",
    "reference": "{{ item.reference_answer }}", "evaluation_metric": "fuzzy_match",
}  # fmt: skip
MOST_STEPS = 1_000

#: Names of the reference: kind, lowest, highest; the lowest of those in OPEN is excluded.
WIRE: dict[str, tuple[type, float, float]] = {
    "n_epochs": (int, 1, 50),
    "batch_size": (int, 1, 256),
    "learning_rate_multiplier": (float, 0, math.inf),
    "compute_multiplier": (float, 0.00001, 10),
    "eval_interval": (int, 1, math.inf),
    "eval_samples": (int, 1, math.inf),
}
OPEN = {"learning_rate_multiplier", "compute_multiplier"}
#: Our own that mean something to a supervised job, where nothing is tried and graded.
OWN_SUPERVISED = {
    "max_steps", "learning_rate", "lr_schedule", "eval_interval", "eval_samples", "max_eval_items", "max_completion_tokens",
    "lora_r", "lora_alpha", "lora", "keep_best", "keep_days", "stop_usd", "extras",
}  # fmt: skip
EFFORTS = ("default", "low", "medium", "high")


@dataclass
class JobRequest:
    """What was asked for, checked; files and model are still names."""

    kind: str
    model: str
    training_file: str
    validation_file: str | None
    suffix: str
    seed: int | None
    metadata: dict[str, str] | None
    integrations: list[dict[str, Any]]
    grader: dict[str, Any]
    tools: list[dict[str, Any]]
    hyperparameters: dict[str, Any]
    max_episode_steps: int | None
    response_format: dict[str, Any] | None
    warnings: list[str] = field(default_factory=list)

    def method(self) -> dict[str, Any]:
        """The method as it is kept and read back: defaults filled in, header values hidden."""
        if self.kind == "supervised":
            filled = {**dict.fromkeys(SUPERVISED_NAMES, AUTO), **self.hyperparameters}
            return {"type": "supervised", "supervised": {"hyperparameters": filled}}
        told: dict[str, Any] = {
            "grader": hidden(self.grader),
            "hyperparameters": {**dict.fromkeys(WIRE, AUTO), "reasoning_effort": "default", **self.hyperparameters},
            "response_format": self.response_format,
        }
        if self.tools:
            told["tools"] = [hidden(tool) for tool in self.tools]
        if self.max_episode_steps is not None:
            told["max_episode_steps"] = self.max_episode_steps
        return {"type": "reinforcement", "reinforcement": told}


def hidden(value: Any) -> Any:
    """The same with the values of every `headers` object as asterisks."""
    if isinstance(value, list):
        return [hidden(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: dict.fromkeys(one, SHOWN) if key == "headers" and isinstance(one, dict) else hidden(one)
        for key, one in value.items()
    }


def refuse(message: str, where: str, *, fix: str = "", code: str = "") -> UserError:
    return UserError(message, where=where, fix=fix, code=code)


def job_request(body: dict[str, Any]) -> JobRequest:
    """Check the whole body. UserError names the parameter at fault."""
    check_known(body, KNOWN)
    kind, method, at = _method(body)
    request = JobRequest(
        kind=kind,
        model=_text(body, "model", most=200),
        training_file=_text(body, "training_file", most=64),
        validation_file=_text(body, "validation_file", most=64) if body.get("validation_file") is not None else None,
        suffix=_suffix(body.get("suffix")),
        seed=_whole(body.get("seed"), "seed", 0, 2**31 - 1),
        metadata=_metadata(body.get("metadata")),
        integrations=_integrations(body.get("integrations")),
        **(_supervised(method, at) if kind == "supervised" else _reinforcement(method)),
    )
    found = parts.check_grader(request.grader, where=f"{METHOD}.grader")
    request.warnings += [f"Grader, {one.path}: {one.message} {one.fix}".strip() for one in found]
    request.warnings += _warnings(body, request)
    return request


def _reinforcement(method: dict[str, Any]) -> dict[str, Any]:
    check_known(method, REINFORCEMENT, path=f"{METHOD}.")
    if method.get("grader") is None:
        raise _missing(f"{METHOD}.grader")
    steps = method.get("max_episode_steps")
    return {
        "grader": method["grader"],
        "tools": _tools(method.get("tools")),
        "hyperparameters": _hyperparameters(
            method.get("hyperparameters"),
            f"{METHOD}.hyperparameters",
            {*WIRE, "reasoning_effort", *FIELDS, "lora", "extras"},
        ),
        "max_episode_steps": _whole(steps, f"{METHOD}.max_episode_steps", 1, MOST_STEPS),
        "response_format": _response_format(method.get("response_format")),
    }


def _supervised(method: dict[str, Any], at: str) -> dict[str, Any]:
    check_known(method, {"hyperparameters"}, path=at)
    known = {*SUPERVISED_NAMES, *OWN_SUPERVISED}
    return {
        "grader": LIKE_THE_EXAMPLE,
        "tools": [],
        "hyperparameters": _hyperparameters(method.get("hyperparameters"), f"{at}hyperparameters", known),
        "max_episode_steps": None,
        "response_format": None,
    }


def _method(body: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
    """Which method, what it holds and the path to that. As with the reference, a body without `method` asks for a supervised job."""
    method, old = body.get("method"), body.get("hyperparameters")
    if method is None:
        return "supervised", {"hyperparameters": old}, ""
    if not isinstance(method, dict):
        raise refuse(
            "method must be an object with the type reinforcement or supervised.", "method",
            fix='Send {"type": "reinforcement", "reinforcement": {"grader": {…}}}.', code="invalid_type",
        )  # fmt: skip
    kind = method.get("type")
    if kind == "dpo":
        raise refuse(
            "No backend of this installation takes preference fine-tuning (DPO).", "method.type",
            fix="Send a supervised job with the preferred answers, or a reinforcement job whose grader prefers them.",
            code="method_not_available",
        )  # fmt: skip
    if kind not in ("reinforcement", "supervised"):
        raise refuse(
            f"method.type cannot be {str(kind)[:40]!r}.", "method.type", fix="Send reinforcement or supervised."
        )
    check_known(method, {"type", kind}, path="method.")
    if old:
        raise refuse(
            "The top-level hyperparameters belong to a body without method.", "hyperparameters",
            fix=f"Send them as method.{kind}.hyperparameters.",
        )  # fmt: skip
    inner = method.get(kind)
    if inner is None and kind == "supervised":
        inner = {}
    if not isinstance(inner, dict):
        raise _missing(f"method.{kind}")
    return kind, inner, f"method.{kind}."


def _missing(where: str) -> UserError:
    return refuse(f"Missing required parameter: {where}.", where, code="missing_required_parameter")


def _text(body: dict[str, Any], name: str, *, most: int) -> str:
    value = body.get(name)
    if value is None:
        raise _missing(name)
    if not isinstance(value, str) or not value.strip() or len(value) > most:
        raise refuse(f"{name} must be a text of 1 to {most} characters.", name)
    return value.strip()


def _suffix(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= 64:
        raise refuse("suffix must be a text of 1 to 64 characters.", "suffix")
    return value.strip()


def _whole(value: Any, where: str, low: int, high: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refuse(f"{where} must be a whole number from {low} to {high}.", where)
    return value


def _metadata(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > 16:
        raise refuse("metadata must be an object of at most 16 pairs.", "metadata")
    for key, one in value.items():
        if not 1 <= len(key) <= 64:
            raise refuse("A metadata key has 1 to 64 characters.", f"metadata.{key[:64]}")
        if not isinstance(one, str) or len(one) > 512:
            raise refuse("A metadata value is a text of at most 512 characters.", f"metadata.{key}")
    return value


def _integrations(value: Any) -> list[dict[str, Any]]:
    """At most one, to Weights & Biases; each of its fields by its rule."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise refuse("integrations must be a list.", "integrations")
    if len(value) > 1:
        raise refuse("A job has at most one integration: its run there bears the job's own id.", "integrations[1]")
    for one in value:
        if not isinstance(one, dict) or one.get("type") != "wandb":
            raise refuse("An integration has the type wandb.", "integrations[0].type")
        check_known(one, {"type", "wandb"}, path="integrations[0].")
        _check_wandb(one.get("wandb"), "integrations[0].wandb")
    return value


def _check_wandb(inner: Any, at: str) -> None:
    if not isinstance(inner, dict) or not inner.get("project"):
        raise _missing(f"{at}.project")
    check_known(inner, {"project", "name", "entity", "tags"}, path=f"{at}.")
    for name in ("project", "name", "entity"):
        text = inner.get(name)
        if text is not None and (not isinstance(text, str) or not 1 <= len(text) <= 128):
            raise refuse(f"{name} must be a text of 1 to 128 characters.", f"{at}.{name}")
    tags = inner.get("tags")
    if tags is not None and not (
        isinstance(tags, list) and len(tags) <= 20 and all(isinstance(tag, str) and 1 <= len(tag) <= 64 for tag in tags)
    ):
        raise refuse("tags must be a list of at most 20 texts of 1 to 64 characters.", f"{at}.tags")


def _tools(value: Any) -> list[dict[str, Any]]:
    """Name, address and headers of each; every fault of every tool is told."""
    where = f"{METHOD}.tools"
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > 128:
        raise refuse("tools must be a list of at most 128 tools.", where)
    for place, tool in enumerate(value):
        _check_tool(tool, f"{where}[{place}]")
    names = [tool["name"] for tool in value]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise refuse(f"Two tools are named {twice}.", where, fix="Take one of them out.", code="invalid_tools")
    parts.check_tools(value, where=where)
    for place, tool in enumerate(value):
        check_url(tool["server_url"], allowed=allowed_hosts(), where=f"{where}[{place}].server_url")
    return value


def _check_tool(tool: Any, at: str) -> None:
    if not isinstance(tool, dict):
        raise refuse("A tool is an object with name and server_url.", at)
    check_known(tool, TOOL, path=f"{at}.")
    for key in ("name", "server_url"):
        if not isinstance(tool.get(key), str) or not 1 <= len(tool[key]) <= 2000:
            raise refuse(f"{key} must be a text.", f"{at}.{key}", code="invalid_tools")
    headers = tool.get("headers")
    if headers is None:
        return
    if not isinstance(headers, dict) or not all(isinstance(one, str) for one in headers.values()):
        raise refuse("Headers are an object of texts.", f"{at}.headers", code="invalid_tools")
    for name, one in headers.items():
        if "\n" in f"{name}{one}" or "\r" in f"{name}{one}":
            raise refuse(f"The header {name[:40]!r} is not one line of text.", f"{at}.headers", code="invalid_tools")
        if one and set(one) == {"*"}:
            raise refuse(
                f"The value of the header {name} is hidden, as it is when a job is read back.", f"{at}.headers.{name}",
                fix="Send the real value.", code="invalid_tools",
            )  # fmt: skip


def _hyperparameters(value: Any, where: str, known: set[str]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refuse("hyperparameters must be an object.", where)
    check_known(value, known, path=f"{where}.")
    for name, one in value.items():
        at = f"{where}.{name}"
        if name == "reasoning_effort":
            if one not in (None, *EFFORTS):
                raise refuse(f"reasoning_effort cannot be {str(one)[:40]!r}.", at, fix=f"One of {', '.join(EFFORTS)}.")
        elif name in WIRE:
            _check_number(name, one, at)
        elif name in FIELDS and one not in (None, AUTO):
            try:
                FIELDS[name].read(one)
            except UserError as exc:
                raise refuse(exc.message, at, fix=exc.fix) from exc
    return {name: one for name, one in value.items() if one is not None}


def _check_number(name: str, value: Any, at: str) -> None:
    if value in (None, AUTO):
        return
    kind, low, high = WIRE[name]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    whole = kind is float or (number and float(value).is_integer())
    if not number or not whole or not low <= value <= high or (name in OPEN and value == low):
        noun = "a whole number" if kind is int else "a number"
        above = f"above {low:g}" if name in OPEN else f"{low:g} or more"
        most = "" if high == math.inf else f" and at most {high:g}"
        raise refuse(f"{name} must be {noun}, {above}{most}, or 'auto'.", at)


def _response_format(value: Any) -> dict[str, Any] | None:
    """As Chat Completions nests it; the flat form of Responses is taken too and kept nested."""
    where = f"{METHOD}.response_format"
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("type") not in ("json_schema", "json_object", "text"):
        raise refuse("response_format must be an object with the type json_schema.", where)
    if value["type"] != "json_schema":
        check_known(value, {"type"}, path=f"{where}.")
        return value
    nested = value.get("json_schema")
    if nested is None:
        nested = {key: one for key, one in value.items() if key != "type"}
    if not isinstance(nested, dict) or not isinstance(nested.get("schema"), dict):
        raise _missing(f"{where}.json_schema.schema")
    check_known(nested, {"name", "description", "schema", "strict"}, path=f"{where}.json_schema.")
    return {"type": "json_schema", "json_schema": nested}


def _warnings(body: dict[str, Any], request: JobRequest) -> list[str]:
    """What is accepted and yet worth a word in the job's story. No value of a header is ever repeated."""
    found = _placeholders("the grader", [request.grader, *_parts_of(request.grader)])
    found += _placeholders("tools", request.tools)
    if request.response_format is None and "output_json" in str(request.grader):
        found.append(
            "The grader reads sample.output_json and the job has no response_format; answers that are no JSON stay ungraded."
        )
    if request.validation_file is None:
        found.append(
            "There is no validation file: nobody sees whether it memorises, and the baseline is measured on train items."
        )
    if body.get("method") is None:
        found.append("No method was named, so this is a supervised job, as with the hosted service.")
    if body.get("trainingType") is not None:
        found.append("trainingType has no meaning here and is not used.")
    return found


def _parts_of(grader: Any) -> list[Any]:
    return (
        [part for _, child in children(grader) for part in (child, *_parts_of(child))]
        if isinstance(grader, dict)
        else []
    )


def _placeholders(where: str, holders: list[Any]) -> list[str]:
    names: dict[str, None] = {}
    for holder in holders:
        headers = holder.get("headers") if isinstance(holder, dict) else None
        for name, value in headers.items() if isinstance(headers, dict) else ():
            if isinstance(value, str) and PLACEHOLDER.search(value):
                names[f"{name} ({holder['name']})" if where == "tools" else name] = None
    if not names:
        return []
    return [f"Header values of {where} look like placeholders and are sent as they stand: {', '.join(names)}."]
