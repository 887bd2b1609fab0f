"""What the pages of a grader show, gathered once for the whole page and for its fragments."""

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from graders.forms import Node, node_of
from graders.formula import Formula, FormulaError
from graders.formula_words import formula_range, formula_words
from graders.kinds.base import nearest
from graders.kinds.registry import KINDS
from graders.models import Grader, GraderVersion
from graders.network import judge_names
from graders.recipe_files import is_same_recipe
from graders.sample_sources import EXAMPLES, Choice, examples_chosen, version_choices, version_chosen
from graders.secrets import shown_config
from graders.selectors import grader_version_newest
from graders.types import Problem
from graders.validation import children, grader_problems, has_errors, is_costly, normalised, variables_of
from rftstudio.teams.permissions import Permission, can

SAMPLE_CHIPS = (
    ("answer", "{{ sample.output_text }}"),
    ("answer as JSON", "{{ sample.output_json }}"),
    ("tool calls", "{{ sample.output_tools }}"),
)
FIELD_CHIPS = 14
#: Keys of an item that are no columns of its own.
ALWAYS_THERE = {"messages", "tools", "parallel_tool_calls"}


@dataclass
class Editor:
    """A draft as it is being edited: its form, its problems, and the dataset it is checked against."""

    grader: Grader
    config: Any
    choice: Choice
    problems: list[Problem] = field(default_factory=list)
    node: Node | None = None
    newest: GraderVersion | None = None

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.level == "error"]

    @property
    def is_valid(self) -> bool:
        return not has_errors(self.problems)


def editor_of(grader: Grader, config: Any, *, dataset: str = "") -> Editor:
    """Check a recipe against its own rules and the chosen dataset's fields."""
    newest = grader_version_newest(grader=grader)
    # A fresh grader is first tried on the rows it came with; a dataset is chosen when there is one to train on.
    on_examples = grader.started_from and (dataset == EXAMPLES or (not dataset and newest is None))
    wanted = {variable.field for _, variable in variables_of(config) if variable.root == "item"} - ALWAYS_THERE
    choice = (
        examples_chosen(grader.started_from)
        if on_examples
        else version_chosen(team=grader.team, public_id=dataset, wanted=wanted)
    )
    problems = grader_problems(config, fields=choice.fields or None)
    problems += judge_problems(config, judge_names(grader.team))
    editor = Editor(grader, config, choice, problems, newest=newest)
    editor.node = node_of(shown_config(config) if isinstance(config, dict) else config, problems)
    editor.node.name = editor.node.name or grader.name
    return editor


def judge_problems(config: Any, names: list[str], path: str = "") -> list[Problem]:
    """Judges that the team does not have: samples would stay ungraded."""
    if not isinstance(config, dict):
        return []
    found = []
    model = config.get("model")
    if config.get("type") in ("score_model", "label_model") and isinstance(model, str) and model and model not in names:
        fix = nearest(model, names) if names else "Add one under Agents, Models."
        said = f"The team has no model named {model}; samples would stay ungraded."
        found.append(Problem(f"{path}model", "judge_unknown", said, fix, "warning"))
    for where, child in children(config):
        found += judge_problems(child, names, f"{path}{where}.")
    return found


def editor_context(request: HttpRequest, editor: Editor, tab: str) -> dict[str, Any]:
    """What every tab of a grader needs."""
    grader, newest = editor.grader, editor.newest
    shown = shown_config(editor.config) if isinstance(editor.config, dict) else editor.config
    return {
        "grader": grader,
        "editor": editor,
        "node": editor.node,
        "newest": newest,
        "next_number": (newest.number if newest else 0) + 1,
        "next_text": str((newest.number if newest else 0) + 1),
        "newest_text": str(newest.number) if newest else "",
        "has_changes": newest is None
        or not is_same_recipe(shown_config(newest.config), shown_config(_as_published(grader))),
        "can_edit": can(request.actor, Permission.GRADER_EDIT),
        "kinds": KINDS,
        "part_kinds": [kind for kind in KINDS.values() if kind.type != "multi"],
        "config": shown,
        "chips": chips_of(editor.choice),
        "words": words_of(editor),
        "is_costly": is_costly(editor.config),
        "judge_names": judge_names(grader.team),
        "version": editor.choice.version,
        "versions": version_choices(team=grader.team),
        "tabs": tabs_of(request.actor.team.slug, editor, tab),
        "dataset": dataset_of(editor),
    }


def _as_published(grader: Grader) -> Any:
    """What publishing now would freeze: the saved draft, not what stands unsaved in the form."""
    return normalised(grader.draft, grader.name) if isinstance(grader.draft, dict) else grader.draft


def tabs_of(team: str, editor: Editor, at: str) -> list[dict[str, Any]]:
    """Links with their own addresses; the form carries the number of problems."""
    public_id = editor.grader.public_id
    query = f"?dataset={dataset_of(editor)}" if dataset_of(editor) else ""
    named = [
        ("detail", "Form", None, len(editor.errors)),
        ("json", "JSON", None, 0),
        ("set", "On a set", None, 0),
        ("agreement", "Agreement with experts", None, 0),
        ("gaming", "Attempts to game it", None, 0),
        ("versions", "Versions", editor.newest.number if editor.newest else 0, 0),
    ]
    return [
        {
            "label": label,
            "url": reverse(f"graders:grader-{key}", args=[team, public_id]) + query,
            "count": count,
            "problems": problems,
            "is_current": key == at,
        }
        for key, label, count, problems in named
    ]


def dataset_of(editor: Editor) -> str:
    """The choice of a dataset as addresses carry it."""
    if editor.choice.is_examples:
        return EXAMPLES
    return editor.choice.version.public_id if editor.choice.version else ""


def chips_of(choice: Choice) -> list[dict[str, str]]:
    """Variables to insert by click: parts of the sample, then the fields of the dataset, commonest first."""
    names = sorted(choice.fields, key=lambda name: -choice.fields[name]["present"])
    names = [name for name in names if name not in ALWAYS_THERE][:FIELD_CHIPS]
    fields = [{"label": f"item: {name.replace('_', ' ')}", "text": _written(name)} for name in names]
    return [*({"label": label, "text": text} for label, text in SAMPLE_CHIPS), *fields]


def _written(name: str) -> str:
    from graders.templating import Variable

    return f"{{{{ {Variable('item', (name,))} }}}}"


def words_of(editor: Editor) -> dict[str, Any]:
    """The formula in words and what it can give; empty for a grader without one."""
    config = editor.config
    if not isinstance(config, dict) or config.get("type") != "multi" or not isinstance(config.get("graders"), dict):
        return {}
    parts = config["graders"]
    try:
        formula = Formula(config.get("calculate_output", ""), parts)
    except FormulaError:
        return {}
    ranges = {key: _range_of(part) for key, part in parts.items()}
    names = {
        key: str((part or {}).get("name") or key) if isinstance(part, dict) else key for key, part in parts.items()
    }
    return {"words": formula_words(formula, names), "range": formula_range(formula, ranges)}


def _range_of(part: Any) -> tuple[float, float]:
    ends = part.get("range") if isinstance(part, dict) else None
    if isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
        return float(ends[0]), float(ends[1])
    return 0.0, 1.0
