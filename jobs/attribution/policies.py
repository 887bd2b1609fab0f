"""Which policy acted, and whether it can still be asked."""

from jobs.rollouts.models import RolloutBatch


def why_gone(batch: RolloutBatch) -> str:
    """Why the policy of a batch cannot be asked any more; empty when its model is the one that acted.

    Batches of a job name the base, whose weights moved with every train step; only the first step had them unmoved.
    """
    first = {RolloutBatch.Kind.TRAIN_STEP: 1, RolloutBatch.Kind.VALIDATION: 0}
    if batch.kind not in first or (batch.train_step or 0) <= first[RolloutBatch.Kind(batch.kind)]:
        return ""
    return (
        f"It was made by the weights of train step {batch.train_step}, which moved on. "
        "Evaluate a checkpoint of the job; its rollouts can be."
    )
