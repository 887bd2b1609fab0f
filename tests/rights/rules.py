"""Who may use which address: one rule for each URL of the house. A new URL without a rule fails `test_rights`."""

from dataclasses import dataclass, field
from typing import Any

from rftstudio.teams.permissions import Permission as P
from tests.rights.api_rules import API_RULES, ApiRule


@dataclass(frozen=True)
class TeamRule:
    """A page of a team: the right that each method asks for (None: the method is not offered).

    `of` names the things of the world whose ids stand in the address, `query` those in its query; `data` is posted.
    """

    get: P | None = None
    post: P | None = None
    of: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OtherRule:
    """An address outside teams. `kind`: open to all; person: asks to log in; key: asks for an API key; secret: the
    address itself is the right; unset: not there until the environment sets it up. `status`: what our own key gets for a
    call without a body."""

    kind: str
    of: tuple[str, ...] = ()
    method: str = "get"
    status: int = 200


def see(*of: str, **more: Any) -> TeamRule:
    return TeamRule(get=P.VIEW, of=of, **more)


def act(right: P, *of: str, **more: Any) -> TeamRule:
    return TeamRule(post=right, of=of, **more)


def form(right: P, *of: str, **more: Any) -> TeamRule:
    """A page that only those with the right may open, and its form."""
    return TeamRule(get=right, post=right, of=of, **more)


def edit(right: P, *of: str, **more: Any) -> TeamRule:
    """A page that all members read, with a form for those with the right."""
    return TeamRule(get=P.VIEW, post=right, of=of, **more)


RULES: dict[str, TeamRule | OtherRule | ApiRule] = {
    # people and keys
    "teams:home-redirect": OtherRule("person"),
    "teams:log-in": OtherRule("open"),
    "teams:log-out": OtherRule("open", method="post"),
    "teams:theme-set": OtherRule("person", method="post"),
    "teams:account": OtherRule("person"),
    "teams:session-end": OtherRule("person", of=("session",), method="post"),
    "teams:password-reset": OtherRule("open"),
    "teams:password-reset-sent": OtherRule("open"),
    "teams:password-reset-confirm": OtherRule("secret", of=("nonsense", "nonsense")),
    "account_login": OtherRule("open"),
    "mfa_authenticate": OtherRule("open"),
    "openid_connect_login": OtherRule("unset", of=("nonsense",)),
    "openid_connect_callback": OtherRule("unset", of=("nonsense",)),
    "account_reauthenticate": OtherRule("person"),
    "mfa_reauthenticate": OtherRule("person"),
    "mfa_index": OtherRule("person"),
    "mfa_activate_totp": OtherRule("person"),
    "mfa_deactivate_totp": OtherRule("person"),
    "mfa_view_recovery_codes": OtherRule("person"),
    "mfa_download_recovery_codes": OtherRule("person"),
    "mfa_generate_recovery_codes": OtherRule("person"),
    "teams:invitation-accept": OtherRule("secret", of=("nonsense",)),
    "teams:home": see(),
    "teams:member-list": edit(P.TEAM_MANAGE, data={"email": "x@example.com", "role": "viewer"}),
    "teams:service-account-new": act(P.TEAM_MANAGE, data={"name": "robot", "role": "viewer"}),
    "teams:member-role": act(P.TEAM_MANAGE, "member", data={"role": "viewer"}),
    "teams:member-remove": act(P.TEAM_MANAGE, "member"),
    "teams:invitation-revoke": act(P.TEAM_MANAGE, "invitation"),
    "teams:audit-list": TeamRule(get=P.TEAM_MANAGE),
    "teams:audit-export": TeamRule(get=P.TEAM_MANAGE),
    "teams:key-list": edit(P.KEY_MANAGE, data={"name": "x", "role": "viewer"}),
    "teams:key-revoke": act(P.KEY_MANAGE, "key"),
    # money
    "usage:cost-list": TeamRule(get=P.COST_VIEW),
    "usage:cost-spend": TeamRule(get=P.COST_VIEW),
    "usage:ledger-list": TeamRule(get=P.COST_VIEW),
    "usage:ledger-export": TeamRule(get=P.COST_VIEW),
    "usage:line-correct": form(P.BUDGET_APPROVE, "line", data={"usd": "1", "note": "x"}),
    "usage:quota-list": TeamRule(get=P.COST_VIEW, post=P.BUDGET_APPROVE, data={"whose": "team", "usd_month": "9"}),
    "usage:time-zone-set": act(P.TEAM_MANAGE, data={"time_zone": "Europe/Berlin"}),
    "usage:month-list": TeamRule(get=P.COST_VIEW),
    "usage:month-close": act(P.BUDGET_APPROVE, data={"month": "2020-01"}),
    "usage:month-reopen": act(P.BUDGET_APPROVE, data={"month": "2020-01", "reason": "x"}),
    "usage:price-list": TeamRule(get=P.COST_VIEW),
    "usage:approval-list": TeamRule(get=P.BUDGET_APPROVE),
    "usage:approval-approve": act(P.BUDGET_APPROVE, "approval", data={"reason": "x"}),
    "usage:approval-decline": act(P.BUDGET_APPROVE, "approval", data={"reason": "x"}),
    # datasets
    "datasets:dataset-list": see(),
    "datasets:dataset-new": form(P.DATASET_EDIT),
    "datasets:source-file-map": form(P.DATASET_EDIT, "file", query={"dataset": "dataset"}),
    "datasets:version-detail": see("draft"),
    "datasets:import-progress": see("draft"),
    "datasets:item-detail": see("draft", "zero"),
    "datasets:line-edit": edit(P.DATASET_EDIT, "draft", "problem"),
    "datasets:problems-csv": see("draft"),
    "datasets:version-compare": see("draft", "version"),
    "datasets:version-export": see("draft", "jsonl"),
    "datasets:kind-fix": act(P.DATASET_EDIT, "draft", data={"code": "not_json"}),
    "datasets:lines-skip": act(P.DATASET_EDIT, "draft"),
    "datasets:items-drop": act(P.DATASET_EDIT, "draft"),
    "datasets:items-map": act(P.DATASET_EDIT, "draft"),
    "datasets:change-undo": act(P.DATASET_EDIT, "draft"),
    "datasets:version-split": act(
        P.DATASET_EDIT, "draft", data={"train": "80", "validation": "10", "test": "10", "seed": "0"}
    ),
    "datasets:version-freeze": act(P.DATASET_EDIT, "draft"),
    "datasets:version-copy": act(P.DATASET_EDIT, "draft"),
    "datasets:near-repeats": act(P.DATASET_EDIT, "draft"),
    "datasets:near-found": see("draft"),
    "datasets:encodings": TeamRule(get=P.DATASET_EDIT, of=("draft",)),
    "datasets:file-reread": act(P.DATASET_EDIT, "draft"),
    # labels
    "labels:task-list": see(),
    "labels:task-new": form(P.DATASET_EDIT),
    "labels:task-import": form(P.DATASET_EDIT),
    "labels:task-detail": see("task"),
    "labels:entry-next": TeamRule(get=P.LABEL, of=("task",)),
    "labels:entry-ahead": TeamRule(get=P.LABEL, of=("task", "zero")),
    "labels:label-undo": act(P.LABEL, "task"),
    "labels:labels-apply": act(P.DATASET_EDIT, "task"),
    "labels:task-status": act(P.DATASET_EDIT, "task", data={"status": "closed"}),
    "labels:task-export": TeamRule(get=P.LABEL, of=("task",)),
    "labels:label-save": act(P.LABEL, "task", "entry"),
    "labels:label-submit": act(P.LABEL, "task", "entry"),
    "labels:label-skip": act(P.LABEL, "task", "entry", data={"reason": "x"}),
    "labels:entry-settle": form(P.LABEL, "task", "entry"),
    # graders
    "graders:grader-list": see(),
    "graders:grader-new": form(P.GRADER_EDIT),
    "graders:sandbox": see(),
    "graders:grader-detail": edit(P.GRADER_EDIT, "grader"),
    "graders:grader-json": edit(P.GRADER_EDIT, "grader"),
    "graders:grader-publish": act(P.GRADER_EDIT, "grader"),
    "graders:grader-discard": act(P.GRADER_EDIT, "grader"),
    "graders:grader-versions": see("grader"),
    # Trials that cost nothing are open to all members; a judge's asks for the right to edit (tests/graders/test_trials.py).
    "graders:grader-check": act(P.VIEW, "grader"),
    "graders:grader-test": act(P.VIEW, "grader"),
    "graders:grader-samples": act(P.VIEW, "grader"),
    "graders:grader-set": edit(P.VIEW, "grader"),
    "graders:grader-gaming": edit(P.VIEW, "grader"),
    "graders:grader-agreement": edit(P.VIEW, "grader"),
    # agents
    "agents:agent-list": see(),
    "agents:agent-new": form(P.AGENT_EDIT),
    "agents:tool-list": see(),
    "agents:tool-new": form(P.AGENT_EDIT),
    "agents:tool-detail": edit(P.AGENT_EDIT, "tool"),
    "agents:tool-test": act(P.AGENT_EDIT, "tool"),
    "agents:model-list": see(),
    "agents:model-new": form(P.AGENT_EDIT),
    "agents:model-key-set": act(P.AGENT_EDIT, "model"),
    "agents:agent-detail": see("agent"),
    "agents:agent-publish": act(P.AGENT_EDIT, "agent"),
    # rollouts and credit
    "rollouts:rollout-list": see(),
    "rollouts:rollout-export": see(),
    "rollouts:rollout-group": see("anchor"),
    "rollouts:rollout-peek": see("rollout"),
    "rollouts:step-result": see("rollout", "one", "one"),
    "rollouts:rollout-detail": see("rollout"),
    "rollouts:rollout-histograms": see(),
    "rollouts:tool-panel": see("tool"),
    "rollouts:rollout-import": form(P.EVALUATION_RUN),
    "rollouts:view-save": act(P.LABEL, data={"name": "Mine", "query": "passed=1"}),
    "rollouts:view-remove": act(P.LABEL, "saved_view"),
    "rollouts:mask-list": edit(P.TEAM_MANAGE, data={"kind": "email"}),
    "rollouts:mask-remove": act(P.TEAM_MANAGE, "mask_rule"),
    "rollouts:rollout-ask": form(P.DATASET_EDIT),
    "rollouts:item-panel": see("draft", "zero"),
    "rollouts:rollout-items": form(P.DATASET_EDIT),
    "rollouts:regrade-panel": see("grader"),
    "rollouts:regrade-new": form(P.EVALUATION_RUN, "grader_version"),
    "rollouts:regrade-detail": see("regrade"),
    "rollouts:regrade-cancel": act(P.EVALUATION_RUN, "regrade"),
    "rollouts:regrade-resume": act(P.EVALUATION_RUN, "regrade"),
    "rollouts:regrade-adopt": act(P.EVALUATION_RUN, "regrade"),
    "gateway:tool": OtherRule("secret", of=("nonsense",), method="post"),
    "gateway:grader": OtherRule("secret", of=("nonsense",), method="post"),
    "attribution:method-list": see(),
    "attribution:source-credit": see("evaluation"),
    "attribution:source-compute": act(P.EVALUATION_RUN, "evaluation"),
    "attribution:judge-start": act(P.EVALUATION_RUN, "rollout", query={"model": "model"}),
    "attribution:knowledge-read": act(P.EVALUATION_RUN, "rollout"),
    "attribution:rerun-start": act(P.EVALUATION_RUN, "rollout"),
    "attribution:step-mark": act(P.LABEL, "rollout", "one", data={"mark": "1"}),
    # evaluations and jobs
    "evaluations:evaluation-list": see(),
    "evaluations:evaluation-new": form(P.EVALUATION_RUN),
    "evaluations:evaluation-compare": see(),
    "evaluations:evaluation-detail": see("evaluation"),
    "evaluations:evaluation-live": see("evaluation"),
    "evaluations:evaluation-charts": see("evaluation"),
    "evaluations:evaluation-cancel": act(P.EVALUATION_RUN, "evaluation"),
    "jobs:home-path": see(),
    "jobs:home-needs": see(),
    "jobs:home-running": see(),
    "jobs:home-story": see(),
    "jobs:jump": see(),
    "jobs:version-panel": see("draft"),
    "jobs:job-list": see(),
    "jobs:job-new": form(P.JOB_LAUNCH),
    "jobs:job-estimate": TeamRule(get=P.JOB_LAUNCH),
    "jobs:draft-open": TeamRule(get=P.JOB_LAUNCH, of=("launch_draft",)),
    "jobs:draft-delete": act(P.JOB_LAUNCH, "launch_draft"),
    "jobs:job-compare": see(),
    "jobs:job-detail": see("job"),
    "jobs:job-state": see("job"),
    "jobs:job-charts": see("job"),
    "jobs:job-events": see("job"),
    "jobs:job-result": see("job", "file"),
    "jobs:job-pause": act(P.JOB_LAUNCH, "job"),
    "jobs:job-resume": act(P.JOB_LAUNCH, "job"),
    "jobs:job-cancel": act(P.JOB_LAUNCH, "job"),
    "jobs:alarm-mute": act(P.JOB_LAUNCH, "job", "nonsense"),
    "jobs:checkpoint-evaluate": act(P.JOB_LAUNCH, "checkpoint"),
    # notices
    "notify:notice-list": TeamRule(get=P.VIEW, post=P.TEAM_MANAGE, data={"url": "https://hooks.example.com/"}),
    "notify:mail-choice": act(P.VIEW),
    "notify:webhook-detail": form(P.TEAM_MANAGE, "webhook"),
    "notify:webhook-test": act(P.TEAM_MANAGE, "webhook"),
    "notify:webhook-switch": act(P.TEAM_MANAGE, "webhook"),
    "notify:webhook-remove": act(P.TEAM_MANAGE, "webhook"),
    "notify:delivery-replay": act(P.TEAM_MANAGE, "delivery"),
    "notify:sink-new": act(P.TEAM_MANAGE, data={"kind": "mlflow", "project": "x", "url": "https://x.example/"}),
    "notify:sink-switch": act(P.TEAM_MANAGE, "sink"),
    "notify:sink-remove": act(P.TEAM_MANAGE, "sink"),
    "jobs:checkpoint-promote": act(P.JOB_LAUNCH, "checkpoint"),
    "jobs:checkpoint-download": act(P.JOB_LAUNCH, "checkpoint"),
    "jobs:checkpoint-delete": act(P.JOB_LAUNCH, "checkpoint"),
    "jobs:checkpoint-expiry": act(P.JOB_LAUNCH, "checkpoint", data={"days": "30"}),
    "jobs:checkpoint-try": edit(P.EVALUATION_RUN, "checkpoint"),
    # REST
    "api:rest:schema": OtherRule("open"),
    "api:rest:docs": OtherRule("open"),
    "api:health": OtherRule("open"),
    "api:files": OtherRule("key"),
    "api:file": OtherRule("key", of=("file",)),
    "api:file-content": OtherRule("key", of=("file",)),
    "api:jobs": OtherRule("key"),
    "api:job": OtherRule("key", of=("job",)),
    "api:job-cancel": OtherRule("key", of=("job",), method="post"),
    "api:job-pause": OtherRule("key", of=("job",), method="post"),
    "api:job-resume": OtherRule("key", of=("job",), method="post", status=400),
    "api:job-events": OtherRule("key", of=("job",)),
    "api:job-checkpoints": OtherRule("key", of=("job",)),
    "api:checkpoint-permissions": OtherRule("key", of=("tuned_name",)),
    "api:checkpoint-permission": OtherRule("key", of=("tuned_name", "nonsense"), method="delete", status=404),
    "api:eval": OtherRule("key", of=("eval",)),
    "api:eval-runs": OtherRule("key", of=("eval",)),
    "api:eval-run": OtherRule("key", of=("eval", "eval_run")),
    "api:eval-items": OtherRule("key", of=("eval", "eval_run")),
    "api:eval-item": OtherRule("key", of=("eval", "eval_run", "eval_item")),
    "api:grader-run": OtherRule("key", method="post", status=415),
    "api:grader-validate": OtherRule("key", method="post", status=415),
    "api:tool-run": OtherRule("key", method="post", status=415),
    "api:chat": OtherRule("key", method="post", status=415),
    "api:responses": OtherRule("key", method="post", status=415),
    "api:model-list": OtherRule("key"),
    "api:traces": OtherRule("key", method="post", status=415),
    "api:model-get": OtherRule("key", of=("model_name",)),
    "api:unknown": OtherRule("key", of=("nonsense",), status=404),
}
RULES |= API_RULES
