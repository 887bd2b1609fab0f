"""Launch files for machines with GPUs: what `accelerate`, vLLM and Slurm are told. Plain values in, texts out. Portable.

Every process holds the whole model: rollouts run in the training process, and a model whose weights are spread over
processes cannot generate there. What does not fit one GPU is trained as an adapter, or with `zero2`, which spreads the
optimiser's state and the gradients only. vLLM serves one training process.
"""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAINER = Path(__file__).resolve().with_name("train.py")
VLLM_MODES, SHARDS = ("", "colocate", "server"), ("none", "zero2")
VLLM_PORT, RENDEZVOUS_PORT = 8000, 29500


class LaunchError(ValueError):
    """The wish cannot be met; the text says why and what to do."""


@dataclass(frozen=True)
class Machines:
    """What there is: nodes with GPUs, how weights are spread, who generates. `cpu` is for a dry run without GPUs."""

    nodes: int = 1
    gpus: int = 1
    vllm: str = ""
    shard: str = "none"
    cpu: bool = False
    python: str = "python"

    @property
    def processes(self) -> int:
        """Training processes. With a vLLM server one GPU trains and the others serve."""
        return 1 if self.vllm else self.nodes * self.gpus


def check(machines: Machines, plan: dict[str, Any]) -> None:
    """LaunchError where these machines cannot train this plan."""
    if machines.nodes < 1 or machines.gpus < 1:
        raise LaunchError("There must be at least one node with one GPU.")
    if machines.vllm not in VLLM_MODES or machines.shard not in SHARDS:
        raise LaunchError(f"vllm is one of {VLLM_MODES[1:]}, shard one of {SHARDS}.")
    if machines.vllm and machines.nodes > 1:
        raise LaunchError("vLLM serves one training process, so it goes with one node. Leave it out, or take one node.")
    if machines.vllm == "server" and machines.gpus < 2:
        raise LaunchError("A vLLM server needs a GPU of its own. Use colocate, or a node with two GPUs.")
    supervised = plan.get("method") == "supervised"
    each = int(plan["batch_size"]) * (1 if supervised else int(plan["group_size"]))
    if each % machines.processes:
        what = "demonstrations" if supervised else "rollouts"
        raise LaunchError(
            f"{each} {what} a train step do not divide by {machines.processes} processes. Change batch_size or the GPUs."
        )


def launch_files(machines: Machines, *, base_model: str, plan: dict[str, Any]) -> dict[str, str]:
    """File name → text. `train.sh RUN_DIR` is what Studio starts; the README says the steps."""
    check(machines, plan)
    files = {
        "accelerate.yaml": accelerate_yaml(machines),
        "node.sh": node_sh(machines),
        "train.sh": train_sh(machines),
        "README.md": "",
    }
    if machines.vllm == "server":
        files["vllm.sh"] = vllm_sh(machines, base_model)
    if machines.nodes > 1:
        files["job.sbatch"] = sbatch(machines)
    files["README.md"] = readme(machines, files)
    return files


def accelerate_yaml(machines: Machines) -> str:
    """As `accelerate config` would write it. JSON values are YAML values."""
    kind = "NO" if machines.processes == 1 or machines.cpu else "MULTI_GPU"
    told: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED" if machines.shard == "zero2" else kind,
        "mixed_precision": "no",  # the trainer turns bf16 on by itself where there is a GPU
        "num_machines": machines.nodes,
        "num_processes": machines.processes,
        "machine_rank": 0,
        "main_process_port": RENDEZVOUS_PORT,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": machines.cpu,
    }
    lines = [f"{key}: {json.dumps(value)}" for key, value in told.items()]
    if machines.shard == "zero2":
        lines += [
            "deepspeed_config:",
            "  zero_stage: 2",
            "  offload_optimizer_device: none",
            "  zero3_init_flag: false",
        ]
    return "\n".join(lines) + "\n"


def launch_command(machines: Machines) -> list[str]:
    """What runs on one node. Rank and head come from the environment, so every node runs the same file.

    Without GPUs `accelerate launch` starts one process and says nothing, so a rehearsal takes the launcher beneath it.
    """
    if machines.cpu:
        own = [machines.python, "-m", "torch.distributed.run", "--nproc_per_node", str(machines.gpus), "--nnodes",
               str(machines.nodes), "--master_port", str(RENDEZVOUS_PORT)]  # fmt: skip
        if machines.nodes > 1:
            own += ["--node_rank", '"$NODE_RANK"', "--master_addr", '"$HEAD"']
        return [*own, shlex.quote(str(TRAINER)), '"$1"']
    own = [machines.python, "-m", "accelerate.commands.launch", "--config_file", '"$HERE/accelerate.yaml"']
    if machines.nodes > 1:
        own += ["--machine_rank", '"$NODE_RANK"', "--main_process_ip", '"$HEAD"']
    return [*own, shlex.quote(str(TRAINER)), '"$1"']


def node_sh(machines: Machines) -> str:
    lines = [
        "#!/bin/bash",
        "# One node's part: node.sh RUN_DIR",
        "set -euo pipefail",
        'HERE=$(cd "$(dirname "$0")" && pwd)',
    ]
    if machines.nodes > 1:
        lines += [
            ': "${NODE_RANK:=${SLURM_NODEID:?set NODE_RANK, 0 on the head node}}"',
            ': "${HEAD:?set HEAD to the address of the head node}"',
        ]
    if machines.vllm == "server":
        lines.append("export CUDA_VISIBLE_DEVICES=0")
    lines.append("exec " + " ".join(launch_command(machines)))
    return "\n".join(lines) + "\n"


def train_sh(machines: Machines) -> str:
    lines = [
        "#!/bin/bash",
        "# What Studio starts: train.sh RUN_DIR",
        "set -euo pipefail",
        'HERE=$(cd "$(dirname "$0")" && pwd)',
    ]
    if machines.nodes == 1:
        lines.append('exec "$HERE/node.sh" "$1"')
    else:
        # Within an allocation; outside one, run node.sh by hand on every node.
        lines += [
            'export HEAD=${HEAD:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}',
            f'exec srun --nodes={machines.nodes} --ntasks-per-node=1 --kill-on-bad-exit=1 "$HERE/node.sh" "$1"',
        ]
    return "\n".join(lines) + "\n"


def vllm_sh(machines: Machines, base_model: str) -> str:
    """TRL's server: vLLM with the door through which the trainer sends new weights after every train step."""
    serving = ",".join(str(n) for n in range(1, machines.gpus))
    command = [
        "trl", "vllm-serve", "--model", shlex.quote(base_model), "--tensor_parallel_size", str(machines.gpus - 1),
        "--host", "127.0.0.1", "--port", str(VLLM_PORT),
    ]  # fmt: skip
    return f"#!/bin/bash\n# Start it before the job, on the same node.\nset -euo pipefail\nexport CUDA_VISIBLE_DEVICES={serving}\nexec {' '.join(command)}\n"


def sbatch(machines: Machines) -> str:
    return (
        "#!/bin/bash\n"
        f"#SBATCH --nodes={machines.nodes}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={machines.gpus}\n"
        "#SBATCH --job-name=rft-studio\n"
        "# sbatch job.sbatch RUN_DIR · RUN_DIR and this folder lie on storage that all nodes see.\n"
        'exec "$(dirname "$0")/train.sh" "$1"\n'
    )


def extras_of(machines: Machines) -> dict[str, Any]:
    """What the job's plan must hold so that its trainer uses these machines."""
    if machines.vllm == "server":
        return {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": f"http://127.0.0.1:{VLLM_PORT}"}
    return {"use_vllm": True, "vllm_mode": "colocate"} if machines.vllm else {}


def readme(machines: Machines, files: dict[str, str]) -> str:
    extras = extras_of(machines)
    steps = ["Install the training requirements on every node (`make setup-train`), with a torch built for its GPUs."]
    if machines.vllm:
        steps.append("Install a vLLM that TRL supports (`pip install 'trl[vllm]'` names the range).")
    if machines.shard == "zero2":
        steps.append("Install DeepSpeed: `pip install deepspeed`.")
    if machines.nodes > 1:
        steps.append("Put this folder and Studio's data folder (`STUDIO_VAR_DIR`) on storage that all nodes see.")
    if extras:
        steps.append(f"Launch the job with these trainer extras: `{json.dumps(extras)}`.")
    if "vllm.sh" in files:
        steps.append("Start `./vllm.sh` and wait until it answers at `/health/`.")
    steps.append(
        "Try it without training: `./train.sh RUN_DIR` with `STUDIO_DRY_RUN=1` says what would run, or what is wrong."
    )
    steps.append(
        "Set `STUDIO_TRAINER_COMMAND` to the path of `train.sh` and restart Studio's workers: every later job starts so."
        if machines.nodes == 1
        else "Run `sbatch job.sbatch RUN_DIR`, or on every node `NODE_RANK=n HEAD=address ./node.sh RUN_DIR`. To let Studio "
        "start it, serve Studio inside the allocation with `STUDIO_TRAINER_COMMAND` set to the path of `train.sh`."
    )
    lines = [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    where = f"{machines.nodes} node(s) of {machines.gpus} GPU(s), {machines.processes} training process(es)"
    return f"# Launch files for {where}\n\n" + "\n".join(lines) + "\n"
