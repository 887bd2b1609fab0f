"""Uploaded documents: files cut into passages, kept once, found by the search tool, frozen with the agent by their id."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from jobs.agents import selectors
from jobs.agents.models import AgentVersion, Corpus, Tool
from jobs.agents.services import agent_create, agent_version_publish, corpus_add, tool_create
from jobs.agents.tools.builtins.corpus_files import CorpusError, documents_of
from jobs.agents.trials import tool_try
from rftstudio.core.errors import NotAllowed, UserError
from tests.factories.agents import ModelEndpointFactory

ACT = b"# Place of supply\n\nServices between businesses are taxed where the customer is.\n\n## Land\nLand is taxed where it lies.\n"
SEARCH = {
    "name": "search_act",
    "description": "Looks for words in the act and answers with passages.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string", "description": "Words."}}},
    "transport": "builtin",
}


def read(*files):
    return [(made["id"], made["title"], made["text"]) for made in documents_of(files)]


def test_markdown_is_cut_at_its_headings():
    assert read(("act.md", ACT)) == [
        ("act.md#1", "Place of supply", "Services between businesses are taxed where the customer is."),
        ("act.md#2", "Land", "Land is taxed where it lies."),
    ]


def test_long_text_is_cut_at_empty_lines_and_short_text_stays_whole():
    long = "\n\n".join(f"paragraph {n} " + "x" * 900 for n in range(4))
    assert [text[:11] for _, _, text in read(("a.txt", long.encode()))] == ["paragraph 0", "paragraph 2"]
    assert read(("b.txt", b"one\n\ntwo")) == [("b.txt#1", "b.txt", "one\n\ntwo")]


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.jsonl", b'{"id": 7, "title": "T", "text": "body"}\n\n'),
        ("a.json", b'[{"id": "7", "title": "T", "content": "body"}]'),
        ("a.csv", b"\xef\xbb\xbfid,title,text\r\n7,T,body\r\n"),
        ("a.tsv", b"id\ttitle\ttext\n7\tT\tbody\n"),
        ("a.csv", "id,title,text\n7,T,body\n".encode("utf-16")),
    ],
)
def test_rows_keep_their_id_and_title(name, data):
    assert read((name, data)) == [("7", "T", "body")]


def test_ids_that_repeat_are_told_apart():
    row = b'{"id": "1", "text": "a"}'
    assert [made[0] for made in read(("a.jsonl", row), ("b.jsonl", row))] == ["1", "1 (2)"]


@pytest.mark.parametrize(
    "name, data, words",
    [
        ("act.pdf", b"%PDF-1.7", "Save it as plain text"),
        ("act.docx", b"PK\x03\x04", "Save it as plain text"),
        ("a.txt", b"caf\xe9", "byte 4"),
        ("a.jsonl", b'{"text": "a"}\n{oops', "line 2 is not JSON"),
        ("a.jsonl", b'{"id": 1}', "line 1: there is no text"),
        ("a.csv", b"id,body_text\n1,x\n", "line 2: there is no text"),
        ("a.json", b"[1]", "entry 1: there is no text"),
        ("a.txt", b"  \n\n ", "no text"),
        ("a.txt", b"x" * 20_000_001, "20 MB"),
    ],
)
def test_file_that_cannot_be_read_says_why(name, data, words):
    with pytest.raises(CorpusError, match=words):
        documents_of([(name, data)])


def test_corpus_is_kept_once_and_without_what_a_database_cannot_hold(member, viewer):
    first = corpus_add(actor=member, files=[("a.json", b'[{"text": "nul \\u0000 half \\ud800"}]')])
    assert corpus_add(actor=member, files=[("a.json", b'[{"text": "nul \\u0000 half \\ud800"}]')]) == first
    assert Corpus.objects.get().documents[0]["text"] == "nul \ufffd half ?"
    with pytest.raises(NotAllowed):
        corpus_add(actor=viewer, files=[("a.txt", b"x")])


def test_search_tool_is_made_by_upload_and_found_by_a_call(member, client_of):
    client, team = client_of(member), member.team
    form = {
        "name": "search_act",
        "description": SEARCH["description"],
        "transport": "builtin",
        "builtin": "corpus",
        "settings": '{"limit": 1}',
        "edit_as": "rows",
        "arg-0-name": "query",
        "arg-0-type": "string",
        "arg-0-description": "Words to look for.",
        "arg-0-required": "on",
        "documents": [SimpleUploadedFile("act.md", ACT), SimpleUploadedFile("more.txt", b"Nothing else.")],
    }
    page = client.post(reverse("agents:tool-new", args=[team.slug]), form)
    assert page.status_code == 302, page.content.decode()
    tool, corpus = Tool.objects.get(), Corpus.objects.get()
    assert tool.config == {"builtin": "corpus", "limit": 1, "corpus": corpus.public_id}
    assert (corpus.document_count, corpus.name) == (3, "act.md, more.txt")
    result = tool_try(actor=member, tool=tool, arguments='{"query": "where does land lie"}', item={})
    assert result.output == "[act.md#2] Land\nLand is taxed where it lies."
    shown = client.get(page["Location"]).content.decode()
    assert f'<option value="{corpus.public_id}" selected>act.md, more.txt · 3 documents</option>' in shown
    assert "Land is taxed" not in shown


def test_bad_upload_is_an_error_of_the_form(member, client_of):
    form = {"name": "search_act", "transport": "builtin", "builtin": "corpus", "edit_as": "rows"}
    upload = {"documents": SimpleUploadedFile("act.pdf", b"%PDF-1.7")}
    page = client_of(member).post(reverse("agents:tool-new", args=[member.team.slug]), form | upload)
    assert page.status_code == 422
    assert "Save it as plain text" in page.content.decode()
    assert not Tool.objects.exists()


def test_version_freezes_the_id_and_runs_with_the_documents(member):
    corpus = corpus_add(actor=member, files=[("act.md", ACT)])
    tool = tool_create(actor=member, **SEARCH, config={"builtin": "corpus", "corpus": corpus.public_id})
    agent = agent_create(actor=member, name="Clerk")
    model = ModelEndpointFactory(team=member.team)
    version = agent_version_publish(actor=member, agent=agent, system_prompt="", model=model, tools=[tool])
    stored = AgentVersion.objects.get(pk=version.pk)
    assert "documents" not in stored.tools[0]["config"]
    assert [made["id"] for made in selectors.toolspecs(stored)[0].config["documents"]] == ["act.md#1", "act.md#2"]


def test_documents_of_another_team_are_not_there(member, stranger):
    corpus = corpus_add(actor=stranger, files=[("act.md", ACT)])
    with pytest.raises(UserError, match="There are no documents"):
        tool_create(actor=member, **SEARCH, config={"builtin": "corpus", "corpus": corpus.public_id})
