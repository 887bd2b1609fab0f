"""`manage.py demo`: the whole path for real on this machine, then the pages at a printed address."""

import contextlib
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from rftstudio.ops.supervisor import Group

EMAIL = "demo@example.com"


class Command(BaseCommand):
    help = "Walk the example from dataset to tuned model, print the comparison and serve the pages."

    def handle(self, *args, **options) -> None:
        started = time.monotonic()
        serve = os.environ.get("SERVE", "1") not in {"0", "no", "false"}
        seed = int(os.environ.get("DEMO_SEED", "1"))
        folder = Path(settings.VAR_DIR) / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        password = login_kept(folder / "login.json")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the group is ended on the way out
        with Group() as group:
            self.stdout.write(f"Pages are at {group.address} · sign in as {EMAIL} with {password}\n\n")
            result = self.walk(seed, password)
            result["seconds_total"] = round(time.monotonic() - started, 1)
            (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")
            self.compare(result)
            if serve:
                self.stdout.write(
                    f"\nOpen {group.address} · sign in as {EMAIL} with {password} · Ctrl-C ends all of it\n"
                )
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()

    def walk(self, seed: int, password: str) -> dict:
        """Every arrow of the path, in order."""
        from jobs.models import Job
        from rftstudio.demo import walk

        actor = walk.team_ready(EMAIL, password)
        data = self.said("Dataset imported and frozen", lambda: walk.dataset_ready(actor))
        grader = self.said("Grader published", lambda: walk.grader_ready(actor))
        agent = self.said("Agent published", lambda: walk.agent_ready(actor, walk.model_ready(actor)))
        rung = walk.evaluation_ready(
            actor,
            data=data,
            agent=walk.first_version(agent),
            grader=grader,
            seed=seed,
            policy_label="base model, first prompt",
            max_items=walk.RUNG_ITEMS,
        )
        self.follow("Evaluation of the first prompt", walk.evaluation_progress(rung))
        baseline = walk.evaluation_ready(
            actor, data=data, agent=agent, grader=grader, seed=seed, policy_label="base model"
        )
        self.follow("Baseline evaluation", walk.evaluation_progress(baseline))
        self.demand(baseline.status == "succeeded", f"The baseline ended as {baseline.status}: {baseline.error}")
        job = walk.job_ready(actor, baseline=baseline, seed=seed)
        self.follow("Agent RFT job", walk.job_progress(job))
        self.demand(job.status == Job.Status.SUCCEEDED, f"The job ended as {job.status}: {job.status_note} {job.error}")
        credit = self.follow("Credit for each step", walk.credit_progress(job))
        tuned = walk.evaluation_ready(
            actor,
            data=data,
            agent=agent,
            grader=grader,
            seed=seed,
            model=walk.checkpoint_ready(actor, job),
            policy_label=f"checkpoint, train step {job.best_checkpoint.step_number}",
        )
        self.follow("Evaluation of the best checkpoint", walk.evaluation_progress(tuned))
        self.demand(tuned.status == "succeeded", f"The evaluation ended as {tuned.status}: {tuned.error}")
        return {
            "baseline": walk.evaluation_figures(baseline),
            "tuned": {**walk.evaluation_figures(tuned), "checkpoint": job.best_checkpoint.public_id},
            "job": walk.job_figures(job),
            "tool_calls": walk.tool_call_count(actor),
            "credit": credit,
        }

    def said(self, words: str, make):
        made = make()
        self.stdout.write(f"✓ {words}: {made}")
        self.stdout.flush()
        return made

    def follow(self, words: str, looks: Iterator):
        """Show progress with an ETA until the looks end; returns what the last one came with."""
        bar, last = None, None
        for last in looks:
            bar = bar or tqdm(desc=words, total=last.total, unit=f" {last.unit}", file=sys.stdout, mininterval=0.5)
            bar.total = last.total
            bar.update(last.done - bar.n)
        if bar is not None:
            bar.close()
        return getattr(last, "outcome", None)

    def demand(self, holds: bool, message: str) -> None:
        if not holds:
            raise CommandError(message)

    def compare(self, result: dict) -> None:
        """The comparison a person came for."""
        base, tuned = result["baseline"], result["tuned"]
        items, samples = base["items"], base["samples_per_item"]
        self.stdout.write(f"\nOn {items} held-out items, {samples} rollouts each:")
        self.stdout.write(f"{'':24}{'base':>10}{'tuned':>10}{'change':>10}")
        for key, words in (("mean_reward", "mean reward"), ("pass_rate", "pass rate")):
            change = tuned[key] - base[key]
            self.stdout.write(f"{words:24}{base[key]:>10.3f}{tuned[key]:>10.3f}{change:>+10.3f}")
        job = result["job"]
        self.stdout.write(
            f"\n{job['train_steps']} train steps, {job['rollouts']:,} rollouts, {result['tool_calls']:,} tool calls "
            f"in {job['seconds']:.0f} s of training · credit sums to reward − baseline "
            f"within {result['credit']['max_sum_error']:.1e}"
        )


def login_kept(path: Path) -> str:
    """The demo's password: made once, kept in a file that only this user can read."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(json.dumps({"email": EMAIL, "password": secrets.token_urlsafe(9)}) + "\n")
    return json.loads(path.read_text())["password"]
