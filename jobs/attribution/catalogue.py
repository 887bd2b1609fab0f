"""Every method the page lists: those that stored groups answer, and those that need a model, a budget or more data."""

from jobs.attribution.methods.base import Method
from jobs.attribution.methods.registry import METHODS

RERUN = Method(
    key="rerun",
    name="Re-run from here",
    sentence="The rest is run again from this step several times; credit is the change in mean reward.",
    needs="the policy, tools that may be called again, a budget",
    paper="VinePPO, arXiv 2410.01679",
    assumes="the same policy still answers, and its tools can be called again without side effects",
    fails="the policy has changed since, or eight continuations are too few for the spread of rewards",
    compute=lambda rollouts: [],
)
JUDGE = Method(
    key="judge",
    name="Judge's marks",
    sentence="A model marks each step; used only as far as it agreed with experts.",
    needs="a judge model and steps marked by experts",
    paper="Let's Verify Step by Step, arXiv 2305.20050",
    assumes="the judge errs on new rollouts as on those that experts marked",
    fails="experts would disagree themselves, or text inside a step talks to the judge",
    compute=lambda rollouts: [],
    is_complete=False,
)
LIVE: dict[str, Method] = {method.key: method for method in (RERUN, JUDGE)}
ALL: dict[str, Method] = {**METHODS, **LIVE}
