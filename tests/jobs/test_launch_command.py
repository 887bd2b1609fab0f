"""`manage.py job_launch_files`: files for a stored job, and refusals in words."""

import pytest
from django.core.management import CommandError, call_command

from jobs.services import job_launch


def test_command_writes_the_files_of_a_job(member, ready_baseline, tmp_path, capsys):
    job = job_launch(actor=member, baseline=ready_baseline, plan={})
    call_command("job_launch_files", job.public_id, out=tmp_path / "launch", gpus=4)
    assert {path.name for path in (tmp_path / "launch").iterdir()} == {
        "accelerate.yaml",
        "node.sh",
        "train.sh",
        "README.md",
    }
    assert (tmp_path / "launch/train.sh").stat().st_mode & 0o111
    assert "README.md says the steps" in capsys.readouterr().out


def test_command_refuses_in_words(member, ready_baseline, tmp_path):
    job = job_launch(actor=member, baseline=ready_baseline, plan={})
    with pytest.raises(CommandError, match="do not divide by 7"):
        call_command("job_launch_files", job.public_id, out=tmp_path, gpus=7)
    with pytest.raises(CommandError, match="There is no job"):
        call_command("job_launch_files", "ftjob-none", out=tmp_path)


def test_launch_form_takes_trainer_extras(client_of, member, ready_baseline):
    from django.urls import reverse

    from jobs.models import Job

    url = reverse("jobs:job-new", args=[member.team.slug]) + f"?baseline={ready_baseline.public_id}"
    form = {"backend": "trl", "seed": 0, "read_warnings": "on", "extras": '{"use_vllm": true}'}
    assert client_of(member).post(url, form | {"extras": "{"}).status_code == 422
    assert client_of(member).post(url, form | {"extras": "[1]"}).status_code == 422
    assert client_of(member).post(url, form).status_code == 302
    assert Job.objects.get().plan["extras"] == {"use_vllm": True}
