"""The pages of graders: what each person sees, and that nothing typed breaks them."""

import json

import pytest
from django.urls import reverse

from datasets.models import Dataset, DatasetVersion, Item
from graders.models import Grader, GraderVersion
from graders.sample_sources import StoredSample, version_chosen
from graders.samples import sample_from
from graders.services import grader_create, grader_version_publish
from graders.trials import set_run
from tests.factories.studio import ready_baseline_of
from tests.graders.test_forms import Posted

EXACT = {"type": "string_check", "operation": "eq", "input": "{{sample.output_text}}", "reference": "{{item.answer}}"}
MULTI = {
    "type": "multi",
    "graders": {
        "exact": {**EXACT, "name": "exact"},
        "near": {**EXACT, "type": "text_similarity", "name": "near", "evaluation_metric": "fuzzy_match"},
    },
    "calculate_output": "min(1, 0.6 * exact + 0.4 * near)",
    "pass_threshold": 0.75,
}
MULTI["graders"]["near"].pop("operation")
PAGES = ["detail", "json", "set", "gaming", "versions", "agreement"]


@pytest.fixture
def grader(member):
    return grader_create(actor=member, name="Duty", config=MULTI)


@pytest.fixture
def version(team):
    made = DatasetVersion.objects.create(
        team=team, dataset=Dataset.objects.create(team=team, name="Questions", slug="questions"), number=1, item_count=3
    )
    for n in range(3):
        raw = json.dumps({"messages": [{"role": "user", "content": f"What is {n}?"}], "answer": str(n)})
        Item.objects.create(version=made, position=n, key=f"item-{n}", raw=raw, digest=str(n))
    return made


def url(grader, name="detail"):
    return reverse(f"graders:grader-{name}", args=[grader.team.slug, grader.public_id])


def form_of(client, grader):
    """The fields a browser would send from the grader's page."""
    data = Posted(client.get(url(grader)).content.decode()).data
    return {name: value for name, value in data.items() if name != "csrfmiddlewaretoken"}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_opens(client_of, member, grader, version, name):
    response = client_of(member).get(url(grader, name))
    assert response.status_code == 200
    assert "Duty" in response.content.decode()


@pytest.mark.parametrize("name", PAGES)
def test_stranger_sees_nothing(client_of, stranger, grader, name):
    assert client_of(stranger).get(url(grader, name)).status_code == 404


@pytest.mark.parametrize("name", PAGES)
def test_foreign_grader_is_not_found_in_the_own_team(client_of, stranger, grader, name):
    address = reverse(f"graders:grader-{name}", args=[stranger.team.slug, grader.public_id])
    assert client_of(stranger).get(address).status_code == 404


@pytest.mark.parametrize("name", ["detail", "json", "publish", "discard"])
def test_viewer_may_not_write(client_of, viewer, grader, name):
    response = client_of(viewer).post(url(grader, name), {"recipe": "{}", "g-type": "string_check"})
    assert response.status_code == 403
    assert Grader.objects.get().draft == grader.draft


def test_viewer_sees_the_form_without_buttons(client_of, viewer, grader):
    page = client_of(viewer).get(url(grader)).content.decode()
    assert "Save draft" not in page
    assert "Publish version" not in page


def test_list_shows_own_graders_only(client_of, member, stranger, grader):
    grader_create(actor=stranger, name="Foreign", config=EXACT)
    page = client_of(member).get(reverse("graders:grader-list", args=[member.team.slug])).content.decode()
    assert "Duty" in page
    assert "Foreign" not in page


def test_new_from_a_starting_point(client_of, member):
    client = client_of(member)
    address = reverse("graders:grader-new", args=[member.team.slug])
    assert "Legal research" in client.get(address).content.decode()
    response = client.post(address, {"start": "tool_economy", "name": ""})
    made = Grader.objects.get()
    assert response.headers["Location"].startswith(url(made))
    assert (made.name, made.draft["type"]) == ("Tool economy", "multi")


@pytest.mark.parametrize(
    "recipe,said", [("{", "not JSON"), ("[]", "object"), ('{"a": NaN}', "not JSON"), (json.dumps(EXACT), "Say what")]
)
def test_new_from_a_bad_paste_says_why(client_of, member, recipe, said):
    response = client_of(member).post(reverse("graders:grader-new", args=[member.team.slug]), {"recipe": recipe})
    assert response.status_code == 422
    assert said in response.content.decode()
    assert not Grader.objects.exists()


def test_new_under_a_taken_name_is_told(client_of, member, grader):
    response = client_of(member).post(
        reverse("graders:grader-new", args=[member.team.slug]), {"start": "number", "name": "Duty"}
    )
    assert response.status_code == 422
    assert "exists already" in response.content.decode()


def test_new_is_refused_to_viewers(client_of, viewer):
    assert client_of(viewer).get(reverse("graders:grader-new", args=[viewer.team.slug])).status_code == 403


def test_saving_the_form_unchanged_changes_nothing(client_of, member, grader):
    client = client_of(member)
    client.post(url(grader), form_of(client, grader))
    after = Grader.objects.get().draft
    assert after == {**grader.draft, "pass_threshold": 0.75}


def test_form_edits_reach_the_draft_and_a_broken_template_stands_at_its_field(client_of, member, grader, version):
    client = client_of(member)
    client.post(url(grader), {**form_of(client, grader), "g-0-reference": "{{ item.answr }}"})
    assert Grader.objects.get().draft["graders"]["exact"]["reference"] == "{{ item.answr }}"
    page = client.get(url(grader)).content.decode()
    assert "Did you mean answer?" in page
    assert "1 thing to settle" in page


@pytest.mark.parametrize(
    "do", ["add:numeric", "remove:0", "up:1", "down:0", "type:string_check", "nonsense", "remove:99", "add:none"]
)
def test_buttons_of_the_form_never_break(client_of, member, grader, do):
    client = client_of(member)
    assert client.post(url(grader), {**form_of(client, grader), "do": do}).status_code == 302
    assert client.get(url(grader)).status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"g-type": "multi"},
        {"g-type": "python", "g-source": "def"},
        {"g-type": "x" * 500},
        {"g-rest": "{"},
        {"position": "-1"},
    ],
)
@pytest.mark.parametrize("name", ["detail", "check", "test"])
def test_any_post_is_answered(client_of, member, grader, version, name, data):
    assert client_of(member).post(url(grader, name), data).status_code < 400


def test_check_answers_with_pieces_of_the_page(client_of, member, grader, version):
    client = client_of(member)
    data = {**form_of(client, grader), "g-calculate_output": "0.5 * exact + nearr", "answer": "1"}
    page = client.post(url(grader, "check"), data, headers={"HX-Request": "true"}).content.decode()
    assert 'id="id_g-calculate_output_error"' in page
    assert "Did you mean near?" in page
    assert "<html" not in page
    assert Grader.objects.get().draft == grader.draft


def test_live_test_shows_parts_and_arithmetic(client_of, member, grader, version):
    grader_version_publish(actor=member, grader=grader)
    client = client_of(member)
    data = {**form_of(client, grader), "answer": "1", "position": "0", "go": "next", "rollout": ""}
    page = client.post(url(grader, "test"), data, headers={"HX-Request": "true"}).content.decode()
    assert "item-1" in page.replace("item item", "item")
    assert "1.00" in page
    assert "min(1, 0.6 * 1.00 + 0.4 * 1.00) = 1.00" in page
    assert "version 1 gives" in page
    assert "Same result on 3 repeats" in page


def test_live_test_without_htmx_is_the_whole_page(client_of, member, grader, version):
    client = client_of(member)
    page = client.post(url(grader, "test"), {**form_of(client, grader), "answer": "0"}).content.decode()
    assert "<html" in page
    assert "Live test" in page


@pytest.mark.parametrize("calls", ["{", "{}", '[{"function": {"name": "a"}}]', "[1]"])
def test_typed_tool_calls_never_break_the_test(client_of, member, grader, version, calls):
    client = client_of(member)
    assert client.post(url(grader, "test"), {**form_of(client, grader), "calls": calls}).status_code == 200


def test_hostile_text_is_shown_as_text(client_of, member, grader, version):
    client = client_of(member)
    data = {**form_of(client, grader), "answer": "<script>alert(1)</script>", "g-name": "<img src=x>"}
    page = client.post(url(grader, "test"), data).content.decode()
    assert "<script>alert" not in page
    assert "<img src=x>" not in page


@pytest.mark.parametrize(
    "recipe,said", [("{", "not JSON"), ("[]", "JSON object"), ('{"x": "\\u0000"}', "NUL"), ('{"x": 1e999}', "NaN")]
)
def test_bad_json_is_a_clear_error(client_of, member, grader, recipe, said):
    response = client_of(member).post(url(grader, "json"), {"recipe": recipe})
    assert response.status_code == 422
    assert said in response.content.decode()
    assert Grader.objects.get().draft == grader.draft


def test_json_saves_the_same_draft(client_of, member, grader):
    client_of(member).post(url(grader, "json"), {"recipe": json.dumps({**EXACT, "strange": {"kept": True}})})
    assert Grader.objects.get().draft["strange"] == {"kept": True}


def test_publish_and_discard(client_of, member, grader):
    client = client_of(member)
    client.post(url(grader, "publish"), {"note": "first"})
    assert GraderVersion.objects.get().pass_threshold == 0.75
    client.post(url(grader), {**form_of(client, grader), "g-calculate_output": "exact"})
    client.post(url(grader, "discard"))
    assert Grader.objects.get().draft["calculate_output"] == MULTI["calculate_output"]


def test_publish_with_problems_goes_back_to_the_form(client_of, member):
    grader = grader_create(actor=member, name="Broken", config={"type": "multi"})
    response = client_of(member).post(url(grader, "publish"), follow=True)
    assert "Not published" in response.content.decode()
    assert not GraderVersion.objects.exists()


@pytest.mark.parametrize("source", ["field:answer", "empty", "rollouts", "field:nothing", "x"])
def test_set_grades_many(client_of, member, grader, version, source):
    page = client_of(member).get(url(grader, "set"), {"source": source, "size": "20"}).content.decode()
    assert ("3 samples" in page) is (source != "rollouts")
    if source == "field:answer":
        assert "Every graded sample has the same reward" in page


def test_gaming_marks_what_is_rewarded(client_of, member, version):
    two_way = "def grade(sample, item):\n    a, b = sample['output_text'], item['answer']\n    return 1.0 if a in b or b in a else 0.0\n"
    grader = grader_create(actor=member, name="Two way", config={"type": "python", "source": two_way})
    page = client_of(member).get(url(grader, "gaming")).content.decode()
    assert "rewarded on 3 of 3" in page
    assert "(an empty answer)" in page


def test_costly_graders_ask_before_they_call(client_of, member, version):
    config = {"type": "score_model", "model": "m", "input": [{"role": "user", "content": "{{ sample.output_text }}"}]}
    grader = grader_create(actor=member, name="Judge", config=config)
    client = client_of(member)
    assert "about 12 real calls" in client.get(url(grader, "gaming")).content.decode()
    assert "each test is a real call" in client.get(url(grader)).content.decode()
    page = client.post(url(grader, "test"), {**form_of(client, grader), "answer": "x"}).content.decode()
    assert "no model named m" in page


def test_viewer_may_not_spend_on_judges(client_of, viewer, member, version):
    config = {"type": "score_model", "model": "m", "input": [{"role": "user", "content": "{{ sample.output_text }}"}]}
    grader = grader_create(actor=member, name="Judge", config=config)
    client = client_of(viewer)
    data = {"g-type": "score_model", "g-model": "m", "g-input-0": "x", "g-input-0-role": "user"}
    assert client.post(url(grader, "test"), data).status_code == 403
    assert client.post(url(grader, "gaming")).status_code == 403
    assert client.post(url(grader, "set"), {"source": "empty"}).status_code == 403
    assert "3 samples" not in client.get(url(grader, "set"), {"source": "empty"}).content.decode()


def test_header_values_never_reach_a_page(client_of, member):
    config = {"type": "endpoint", "url": "https://g.example.com/", "headers": {"Authorization": "Bearer s3cret"}}
    grader = grader_create(actor=member, name="Own", config=config)
    grader_version_publish(actor=member, grader=grader)
    client = client_of(member)
    for name in PAGES:
        page = client.get(url(grader, name)).content.decode()
        assert "s3cret" not in page
        assert "sealed:" not in page
    client.post(url(grader), form_of(client, grader))
    assert Grader.objects.get().draft["headers"] == grader.draft["headers"]


def test_starting_point_is_tried_on_its_own_rows_at_once(client_of, member, version):
    client = client_of(member)
    client.post(reverse("graders:grader-new", args=[member.team.slug]), {"start": "genetics_variants"})
    grader = Grader.objects.get(started_from="genetics_variants")
    page = client.get(url(grader)).content.decode()
    assert '<option value="examples" selected>' in page
    assert "example 2 · should give 0.50" in page
    assert 'figure-big">1.00<' in page
    second = form_of(client, grader) | {"rollout": "example-2", "dataset": "examples"}
    shown = client.post(url(grader, "test"), second).content.decode()
    assert 'figure-big">0.50<' in shown
    other = client.get(url(grader) + f"?dataset={version.public_id}").content.decode()
    assert "should give" not in other


def test_part_that_is_moved_stays_where_it_was_put(client_of, member):
    exact = {"type": "string_check", "operation": "eq", "input": "{{ sample.output_text }}", "reference": "a"}
    parts = {"one": {**exact, "name": "one"}, "two": {**exact, "name": "two"}}
    config = {"type": "multi", "graders": parts, "calculate_output": "min(one, two)"}
    grader = grader_create(actor=member, name="Two", config=config)
    client = client_of(member)
    client.post(url(grader), form_of(client, grader) | {"do": "down:0"})
    assert list(Grader.objects.get().draft["graders"]) == ["two", "one"]


def test_sandbox_page_names_the_layers(client_of, viewer):
    page = client_of(viewer).get(reverse("graders:sandbox", args=[viewer.team.slug])).content.decode()
    assert "seccomp allow-list" in page
    assert "rapidfuzz" in page


def test_sandbox_page_says_when_python_runs_in_webassembly(client_of, viewer, monkeypatch):
    layers = {"is_available": True, "reason": "", "wasm": True, "self_test": "passed"}
    monkeypatch.setattr("graders.views.active_layers", lambda: layers)
    page = client_of(viewer).get(reverse("graders:sandbox", args=[viewer.team.slug])).content.decode()
    assert "WebAssembly" in page
    assert "allow-list" not in page


def test_samples_box_sets_the_draft_against_the_published_version(member, viewer, client_of):
    evaluation = ready_baseline_of(member)
    for rollout in evaluation.batch.rollouts.all():
        rollout.steps.create(index=0, text="0")
    evaluation.batch.rollouts.update(answer="0")
    config = {
        "type": "string_check",
        "operation": "eq",
        "input": "{{sample.output_text}}",
        "reference": "{{item.answer}}",
    }
    grader = grader_create(actor=member, name="Exact", config=config)
    grader_version_publish(actor=member, grader=grader)
    data = evaluation.dataset_version.public_id
    address = f"/t/{member.team.slug}/graders/{grader.public_id}/samples/"
    form = {"g-type": "string_check", "g-operation": "ne", "g-input": "{{sample.output_text}}",
            "g-reference": "{{item.answer}}", "g-rest": "{}"}  # fmt: skip
    answer = client_of(member).post(address, form)
    trial = answer.context["trial"]
    assert (trial.mean, trial.mean_before) == (pytest.approx(15 / 18), pytest.approx(3 / 18))
    assert "18 rewards moved by more than 0.1" in answer.content.decode()
    broken = client_of(member).post(address, {**form, "g-reference": "{{item.nothing}}", "dataset": data})
    assert "Settle what stands at the fields first" in broken.content.decode()
    judged = {"g-type": "score_model", "g-model": "x", "g-count": "0", "g-input": "", "g-rest": "{}"}
    costly = client_of(member).post(address, judged)
    assert "trial" not in costly.context
    assert client_of(viewer).post(address, form).status_code == 200


def test_samples_box_of_a_costly_version_uses_what_it_gave_then(member):
    samples = [StoredSample("r", "k", {}, sample_from("a"), reward=0.4, grader_version="gver-x"),
               StoredSample("s", "k", {}, sample_from("a"), reward=0.9, grader_version="gver-y")]  # fmt: skip
    published = GraderVersion(public_id="gver-x", config={"type": "score_model", "model": "x", "input": []})
    config = {"type": "string_check", "operation": "eq", "input": "a", "reference": "a"}
    trial = set_run(actor=member, team=member.team, config=config, samples=samples, published=published)
    assert (trial.rewards, trial.before) == ([1.0, 1.0], [0.4, None])


def test_editor_begins_with_the_newest_dataset_that_has_the_fields(member, client_of, grader, version):
    other = DatasetVersion.objects.create(
        team=member.team,
        dataset=Dataset.objects.create(team=member.team, name="Other task", slug="other-task"),
        number=1,
        item_count=1,
    )
    Item.objects.create(version=other, position=0, key="x", raw='{"messages": []}', digest="x")
    page = client_of(member).get(url(grader)).content.decode()
    assert f'<option value="{version.public_id}" selected' in page
    assert f'<option value="{other.public_id}" selected' not in page


def test_no_version_is_read_behind_the_first_that_has_the_fields(team, version, django_assert_num_queries):
    newer = DatasetVersion.objects.create(team=team, dataset=version.dataset, number=2, item_count=1)
    Item.objects.create(version=newer, position=0, key="x", raw='{"messages": [], "answer": "4"}', digest="x")
    with django_assert_num_queries(2):  # the versions, and the items of one
        assert version_chosen(team=team, wanted=["answer"]).version == newer
    assert version_chosen(team=team, wanted=["colour"]).version == newer, "none has it: the newest"
