"""Launch files: what they say, that the programs they name read them, and a rehearsal with two real processes."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from jobs.backends.trl.launch_files import LaunchError, Machines, extras_of, launch_files

PLAN = {"batch_size": 8, "group_size": 8}


def files_of(**machines):
    return launch_files(Machines(**machines), base_model="/models/base", plan=PLAN)


def test_files_of_one_gpu_node():
    files = files_of(gpus=8)
    assert set(files) == {"accelerate.yaml", "node.sh", "train.sh", "README.md"}
    config = yaml.safe_load(files["accelerate.yaml"])
    assert (config["distributed_type"], config["num_machines"], config["num_processes"]) == ("MULTI_GPU", 1, 8)
    assert "STUDIO_TRAINER_COMMAND" in files["README.md"]


def test_files_of_many_nodes_name_rank_and_head_and_come_with_slurm():
    files = files_of(nodes=2, gpus=4)
    config = yaml.safe_load(files["accelerate.yaml"])
    assert (config["num_machines"], config["num_processes"]) == (2, 8)
    assert '--machine_rank "$NODE_RANK" --main_process_ip "$HEAD"' in files["node.sh"]
    assert "srun --nodes=2" in files["train.sh"]
    assert "#SBATCH --gpus-per-node=4" in files["job.sbatch"]


def test_files_with_a_vllm_server_keep_one_gpu_for_training():
    files = files_of(gpus=4, vllm="server")
    assert yaml.safe_load(files["accelerate.yaml"])["num_processes"] == 1
    assert "CUDA_VISIBLE_DEVICES=1,2,3" in files["vllm.sh"]
    assert "--tensor_parallel_size 3" in files["vllm.sh"]
    assert "CUDA_VISIBLE_DEVICES=0" in files["node.sh"]
    assert json.dumps(extras_of(Machines(gpus=4, vllm="server"))) in files["README.md"]


@pytest.mark.parametrize(
    "machines, words",
    [
        ({"gpus": 0}, "at least one"),
        ({"gpus": 7}, "64 rollouts a train step do not divide by 7"),
        ({"gpus": 1, "vllm": "server"}, "a GPU of its own"),
        ({"nodes": 2, "vllm": "colocate"}, "one node"),
        ({"shard": "zero3"}, "shard one of"),
    ],
)
def test_machines_that_cannot_train_the_plan_are_refused(machines, words):
    with pytest.raises(LaunchError, match=words):
        files_of(**machines)


@pytest.mark.parametrize(
    "machines", [{"gpus": 8}, {"nodes": 2, "gpus": 4, "shard": "zero2"}, {"gpus": 4, "vllm": "server"}]
)
def test_scripts_are_shell(machines, tmp_path):
    for name, text in files_of(**machines).items():
        if text.startswith("#!"):
            (tmp_path / name).write_text(text)
            subprocess.run(["bash", "-n", str(tmp_path / name)], check=True)


@pytest.mark.training
@pytest.mark.parametrize(
    "machines", [{"gpus": 8}, {"nodes": 2, "gpus": 4, "shard": "zero2"}, {"gpus": 4, "vllm": "server"}]
)
def test_accelerate_and_trl_read_what_the_files_tell_them(machines, tmp_path):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser
    from trl.scripts.vllm_serve import make_parser

    files = files_of(**machines)
    (tmp_path / "accelerate.yaml").write_text(files["accelerate.yaml"])
    config = load_config_from_file(str(tmp_path / "accelerate.yaml"))
    assert config.num_processes == Machines(**machines).processes
    command = shlex.split(files["node.sh"].splitlines()[-1].replace("$NODE_RANK", "0"))
    read = launch_command_parser().parse_args(command[command.index("--config_file") :])
    assert read.training_script.endswith("train.py")
    if "vllm.sh" in files:
        told = shlex.split(files["vllm.sh"].splitlines()[-1])
        [served] = make_parser().parse_args_into_dataclasses(told[told.index("vllm-serve") + 1 :])
        assert (served.model, served.tensor_parallel_size) == ("/models/base", 3)


def written(folder: Path, machines: Machines) -> Path:
    """The files on disk, as `job_launch_files` puts them there."""
    folder.mkdir()
    for name, text in launch_files(machines, base_model="x", plan={"batch_size": 2, "group_size": 4}).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.training
def test_two_nodes_rehearse_by_accelerate_and_two_processes_train_as_one(tmp_path):
    """The files for GPUs, as they are, on two nodes that happen to be one machine without any; then real training."""
    from tests.jobs.backends.trl import runs

    run = runs.make_run(tmp_path / "run", max_steps=2, eval_interval=2, credit="prefix_value")
    far = written(tmp_path / "far", Machines(nodes=2, gpus=1, python=sys.executable))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HEAD": "127.0.0.1"}
    nodes = [
        subprocess.Popen(
            [far / "node.sh", run], env={**env, "STUDIO_DRY_RUN": "1", "NODE_RANK": rank}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in ("0", "1")
    ]  # fmt: skip
    said = [node.communicate(timeout=240) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    told = json.loads(next(line for line in said[0][0].splitlines() if line.startswith("{")))
    assert (told["processes"], told["rollouts_per_process"], told["device"]) == (2, 4, "cpu:0")
    assert not (run / "journal.jsonl").exists(), "a rehearsal writes nothing"

    near = written(tmp_path / "near", Machines(gpus=2, cpu=True, python=sys.executable))
    done = subprocess.run([near / "train.sh", run], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert runs.of_type(run, "started")[0]["processes"] == 2
    assert runs.events(run)[-1]["rollouts"] == len(runs.lineage(run)) == 16
    checked = [event["record"] for event in runs.of_type(run, "rollout") if event["phase"] == "validation"]
    keys = [record["item_key"] for record in checked]
    assert keys == sorted(keys), "each process tried its share, and they are told in order"
    assert len(set(keys)) == 3
    folder = runs.of_type(run, "checkpoint")[-1]["path"]
    assert {path.name for path in Path(folder).glob("rng_state*")} == {"rng_state_0.pth", "rng_state_1.pth"}
