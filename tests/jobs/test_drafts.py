"""Drafts of the launch form: kept as they are, opened again, ended by a launch; and a form filled from an earlier job."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs import drafts, services
from jobs.models import Job, LaunchDraft
from jobs.services import job_launch
from rftstudio.core.errors import Conflict, NotAllowed, UserError
from rftstudio.teams.models import AuditEvent
from rftstudio.usage.models import Reservation
from tests.factories.studio import ready_baseline_of


def at(name: str, team, *args, query: str = "") -> str:
    return reverse(f"jobs:{name}", args=[team.slug, *args]) + query


def new_form(client, team, baseline, **changes) -> tuple[str, dict]:
    """The address of the launch page and its form as a browser would send it, with some fields changed."""
    url = at("job-new", team, query=f"?baseline={baseline.public_id}")
    return url, filled(client.get(url)) | changes


def filled(page) -> dict[str, str]:
    form = page.context["form"]
    shown = {name: form[name].value() for name in form.fields}
    words = {name: "" if value is None or value is False else value for name, value in shown.items()}
    return words | {"baseline": page.context["baseline"].public_id}


def saved(client, team, baseline, **changes) -> LaunchDraft:
    url, form = new_form(client, team, baseline, **changes)
    answer = client.post(url, form | {"then": "save"})
    assert answer.status_code == 302, answer.content.decode()
    return LaunchDraft.objects.get(public_id=answer["Location"].rstrip("/").rsplit("/", 1)[1])


# -- drafts -----------------------------------------------------------------------------------------------------------


def test_draft_keeps_what_cannot_be_launched_and_holds_nothing(client_of, member, ready_baseline):
    client = client_of(member)
    draft = saved(
        client, member.team, ready_baseline, name="for Monday", n_epochs="two", batch_size="5", read_warnings="on"
    )
    assert (draft.name, draft.baseline, draft.created_by) == ("for Monday", ready_baseline, member.user)
    assert not Job.objects.exists()
    assert not Reservation.objects.exists()
    answer = client.get(at("draft-open", member.team, draft.public_id))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert 'name="n_epochs" value="two"' in page
    assert 'name="batch_size" value="5"' in page
    assert "Write a whole number." in page
    assert "One field has to change" in page
    assert "read_warnings" not in draft.values, "consent is given at the launch"


def test_draft_saved_again_changes_the_one_there_is(client_of, member, ready_baseline):
    client = client_of(member)
    draft = saved(client, member.team, ready_baseline, n_epochs="2")
    form = filled(client.get(at("draft-open", member.team, draft.public_id))) | {"n_epochs": "3", "then": "save"}
    for _ in range(2):
        assert client.post(at("job-new", member.team), form)["Location"].endswith(f"/drafts/{draft.public_id}/")
    assert LaunchDraft.objects.get().values["n_epochs"] == "3"


def test_draft_is_ended_by_its_launch_and_starts_one_job(client_of, member, ready_baseline):
    client = client_of(member)
    draft = saved(client, member.team, ready_baseline, n_epochs="2", name="once")
    opened = at("draft-open", member.team, draft.public_id)
    tabs = [filled(client.get(opened)) | {"read_warnings": "on"} for _ in range(2)]
    answers = [client.post(at("job-new", member.team), tab) for tab in tabs]
    job = Job.objects.get()
    assert [answer["Location"] for answer in answers] == [at("job-detail", member.team, job.public_id)] * 2
    assert (job.name, job.plan["n_epochs"]) == ("once", 2)
    assert not LaunchDraft.objects.exists()
    assert client.get(opened).status_code == 404
    verbs = list(AuditEvent.objects.filter(verb__startswith="draft.").order_by("id").values_list("verb", flat=True))
    assert verbs == ["draft.saved", "draft.launched"]


def test_draft_stays_when_its_launch_fails(client_of, member, ready_baseline, monkeypatch):
    client = client_of(member)
    draft = saved(client, member.team, ready_baseline)
    form = filled(client.get(at("draft-open", member.team, draft.public_id))) | {"read_warnings": "on"}

    def refuse(*args, **kwargs):
        raise Conflict("No room today.")

    monkeypatch.setattr("jobs.holds.launch_hold", refuse)
    answer = client.post(at("job-new", member.team), form)
    assert answer.status_code == 422
    assert "No room today." in answer.content.decode()
    assert LaunchDraft.objects.get() == draft
    assert not Job.objects.exists()


def test_form_that_was_launched_is_saved_as_the_draft_of_another_job(member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline, launch_key="k1")
    draft = services.draft_save(actor=member, baseline=ready_baseline, values={"name": "again"}, launch_key="k1")
    assert draft.launch_key not in ("", "k1")
    other = job_launch(actor=member, baseline=ready_baseline, launch_key=draft.launch_key)
    assert other != job
    assert not LaunchDraft.objects.exists()


def test_draft_without_its_baseline_says_so(client_of, member, ready_baseline):
    client = client_of(member)
    draft = saved(client, member.team, ready_baseline, name="orphan")
    LaunchDraft.objects.update(baseline=None)  # as its deletion leaves it
    page = client.get(at("draft-open", member.team, draft.public_id)).content.decode()
    assert f"Baseline {ready_baseline.number}, for which this draft was written, has been deleted." in page
    assert f"Baseline {ready_baseline.number}, deleted" in client.get(at("job-list", member.team)).content.decode()


def test_draft_may_be_moved_to_another_baseline(client_of, member, ready_baseline):
    client, other = client_of(member), ready_baseline_of(member)
    draft = saved(client, member.team, ready_baseline, n_epochs="4")
    page = client.get(at("draft-open", member.team, draft.public_id, query=f"?baseline={other.public_id}"))
    assert f"saved for Baseline {ready_baseline.number}" in page.content.decode()
    client.post(at("job-new", member.team), filled(page) | {"then": "save"})
    assert LaunchDraft.objects.get().baseline == other


def test_drafts_of_a_team_are_bounded_and_the_form_is_kept(client_of, member, ready_baseline, monkeypatch):
    monkeypatch.setattr(drafts, "MOST", 1)
    client = client_of(member)
    saved(client, member.team, ready_baseline)
    url, form = new_form(client, member.team, ready_baseline, n_epochs="7", then="save")
    answer = client.post(url, form)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "This team keeps 1 drafts already" in page
    assert 'name="n_epochs" value="7"' in page
    assert LaunchDraft.objects.count() == 1


@pytest.mark.parametrize("value", ["x" * 20_001, "a\x00b"])
def test_draft_of_what_cannot_be_kept_is_refused_in_words(member, ready_baseline, value):
    with pytest.raises(UserError, match="characters|NUL"):
        services.draft_save(actor=member, baseline=ready_baseline, values={"extras": value})
    assert not LaunchDraft.objects.exists()


def test_draft_is_for_those_who_may_launch(client_of, member, viewer, stranger, ready_baseline):
    draft = saved(client_of(member), member.team, ready_baseline, name="plan B")
    listed = at("job-list", member.team)
    assert "plan B" in client_of(member).get(listed).content.decode()
    assert "plan B" not in client_of(viewer).get(listed).content.decode()
    with pytest.raises(NotAllowed):
        services.draft_delete(actor=viewer, draft=draft)
    with pytest.raises(NotAllowed):
        services.draft_save(actor=viewer, baseline=ready_baseline, values={})
    assert client_of(stranger).get(at("draft-open", stranger.team, draft.public_id)).status_code == 404
    assert client_of(stranger).post(at("draft-delete", stranger.team, draft.public_id)).status_code == 404
    assert client_of(member).post(at("draft-delete", member.team, draft.public_id)).status_code == 302
    assert not LaunchDraft.objects.exists()
    assert AuditEvent.objects.filter(verb="draft.deleted", object_id=draft.public_id).exists()


def test_job_list_asks_as_many_queries_for_twenty_drafts_as_for_ten(client_of, member, ready_baseline):
    client, counts = client_of(member), []
    for _ in range(2):
        for _ in range(10):
            services.draft_save(actor=member, baseline=ready_baseline, values={})
        with CaptureQueriesContext(connection) as found:
            page = client.get(at("job-list", member.team)).content.decode()
        counts.append(len(found))
    assert page.count(">draft<") == 20
    assert counts[0] == counts[1]
    large = ('"jobs_launchdraft"."values"', '"system_prompt"')
    (asked,) = [query["sql"] for query in found.captured_queries if 'FROM "jobs_launchdraft"' in query["sql"]]
    assert not [column for column in large if column in asked], "a line says nothing of them"


# -- an earlier job, and back ------------------------------------------------------------------------------------------


def test_launch_page_offers_the_teams_jobs_and_drafts_to_start_from(client_of, member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline, name="first try")
    client = client_of(member)
    draft = saved(client, member.team, ready_baseline, name="for Monday")
    page = client.get(at("job-new", member.team)).content.decode()
    assert f"?baseline={ready_baseline.public_id}&amp;clone={job.public_id}" in page
    assert at("draft-open", member.team, draft.public_id) in page


def test_clone_takes_over_what_was_chosen_and_lets_follow_what_follows(client_of, member, ready_baseline):
    plan = {"n_epochs": 3, "stop_ungraded": None, "extras": {"use_vllm": True}}
    job = job_launch(actor=member, baseline=ready_baseline, plan=plan, seed=7, name="first try")
    other = ready_baseline_of(member, n_train=30)
    page = client_of(member).get(at("job-new", member.team, query=f"?baseline={other.public_id}&clone={job.public_id}"))
    form, words = page.context["form"], page.content.decode()
    assert page.context["baseline"] == other
    assert (form["n_epochs"].value(), form["seed"].value(), form["extras"].value()) == (3, 7, '{"use_vllm": true}')
    assert form["stop_ungraded"].value() == "", "switched off there, so here"
    assert not form["learning_rate"].value(), "it was automatic"
    assert not form["max_steps"].value(), "it followed from epochs and items"
    assert "30 ÷ 8 × 3 = 12" in words
    assert f"It started from baseline {ready_baseline.number}; this page trains on baseline {other.number}." in words
    assert "Not taken over" not in words


def test_clone_without_a_baseline_named_takes_the_jobs_own(client_of, member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline, plan={"max_steps": 9, "learning_rate": 0.5})
    ready_baseline_of(member)  # a newer one
    page = client_of(member).get(at("job-new", member.team, query=f"?clone={job.public_id}"))
    form = page.context["form"]
    assert page.context["baseline"] == ready_baseline
    assert (form["max_steps"].value(), form["learning_rate"].value()) == (9, 0.5), "somebody chose these"


def test_clone_says_what_does_not_fit(client_of, member, ready_baseline):
    choice = {"from": "rollouts", "of": ready_baseline.public_id, "least_reward": 0.2, "most_per_item": 1}
    job = job_launch(actor=member, baseline=ready_baseline, plan={"batch_size": 10})
    Job.objects.update(method="supervised", demonstrations=choice)
    small = ready_baseline_of(member, n_train=8)
    query = f"?baseline={small.public_id}&clone={job.public_id}"
    page = client_of(member).get(at("job-new", member.team, query=query))
    words = page.content.decode()
    assert (
        f"It learnt from rollouts of {ready_baseline.public_id}, which Baseline {small.number} does not offer." in words
    )
    assert not page.context["form"]["learn_from"].value()
    Job.objects.update(method="reinforcement", demonstrations={})
    page = client_of(member).get(at("job-new", member.team, query=query))
    assert "10 items per train step: the train split of this baseline has 8." in page.content.decode()
    assert page.context["form"]["batch_size"].value() == 8


def test_clone_of_another_teams_job_is_not_found(client_of, member, stranger, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline)
    ready_baseline_of(stranger)
    assert client_of(stranger).get(at("job-new", stranger.team, query=f"?clone={job.public_id}")).status_code == 404


def test_back_to_start_values_resets_how_much_and_nothing_else(client_of, member, ready_baseline):
    client = client_of(member)
    url, form = new_form(client, member.team, ready_baseline, n_epochs="x", batch_size="3", name="mine", stop_usd="5")
    page = client.post(url, form | {"then": "start"})
    fresh = page.context["form"]
    assert page.status_code == 200
    assert (fresh["n_epochs"].value(), fresh["batch_size"].value()) == ("1", "8")
    assert (fresh["name"].value(), fresh["stop_usd"].value()) == ("mine", "5")
    assert not Job.objects.exists()


def test_form_from_an_earlier_job_stays_its_form_when_it_comes_back(client_of, member, ready_baseline):
    first = job_launch(actor=member, baseline=ready_baseline, plan={"n_epochs": 2})
    client = client_of(member)
    url, form = new_form(client, member.team, ready_baseline, n_epochs="x", batch_size="3")
    url += f"&clone={first.public_id}"
    assert f'action="{url}"' in client.get(url).content.decode()
    page = client.post(url, form)
    assert page.status_code == 422
    assert "start values come from job 1" in page.content.decode()
    assert page.context["money"] is None, "what cannot be read has no sum"
    fresh = client.post(url, form | {"then": "start"}).context["form"]
    assert (fresh["n_epochs"].value(), fresh["batch_size"].value()) == ("2", "8")


def test_price_again_prices_without_a_script_and_starts_nothing(client_of, member, ready_baseline):
    client = client_of(member)
    url, form = new_form(client, member.team, ready_baseline, n_epochs="3", then="price")
    page = client.post(url, form)
    assert page.status_code == 200
    assert "12 ÷ 8 × 3 = 6" in page.content.decode()
    assert not Job.objects.exists()


def test_missing_tick_keeps_the_estimate_on_the_page(client_of, member, ready_baseline):
    client = client_of(member)
    url, form = new_form(client, member.team, ready_baseline, n_epochs="3")
    page = client.post(url, form)
    assert page.status_code == 422
    assert "12 ÷ 8 × 3 = 6" in page.content.decode()
    assert "cannot be read" not in page.content.decode()


def test_estimate_draws_earlier_jobs_as_rings_that_lead_to_them(client_of, member, ready_baseline):
    job = job_launch(actor=member, baseline=ready_baseline)
    Job.objects.update(status="succeeded", result={"seconds": 60, "rollouts": 100})
    page = client_of(member).get(at("job-new", member.team)).content.decode()
    drawing = page.split("range-strip")[1].split("</svg>")[0]
    assert drawing.count("<circle") == 1
    assert at("job-detail", member.team, job.public_id) in drawing


def test_form_with_a_compute_multiplier_multiplies_the_rollouts_per_item(client_of, member, ready_baseline):
    """Eight stand in the field from the start; left so they are multiplied, and another number is taken as it is."""
    client = client_of(member)
    for told, expected in (("8", 16), ("12", 12)):
        address, form = new_form(
            client, member.team, ready_baseline, compute_multiplier="2", group_size=told, read_warnings="on"
        )
        client.post(address, form)
        assert Job.objects.latest("id").plan["group_size"] == expected


def test_form_shows_at_its_field_what_a_hosted_trainer_would_not_follow(client_of, member, ready_baseline):
    client = client_of(member)
    address, form = new_form(
        client, member.team, ready_baseline, backend="openai", credit="divergence", read_warnings="on"
    )
    reply = client.post(address, form)
    assert reply.status_code == 422
    assert "decides Credit in training by itself" in reply.context["form"].errors["credit"][0]
