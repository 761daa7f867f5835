"""Models and data by their name on a hub, against a hub on this machine."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from huggingface_hub import constants

import pellucid
from pellucid.cli import main
from pellucid.errors import RunError
from pellucid.hub import HubName, hub_name, local_model
from pellucid.hub.download import download_data
from pellucid.hub.push import push_folder
from support.hub_server import Hub, running_hub
from support.published import ids, write

#: of the library, about the one below it
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[Hub]:
    with running_hub() as server:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", server.token)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield server


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ada/stories-3m", HubName("ada/stories-3m")),
        ("ada/stories.v2@refs/pr/1", HubName("ada/stories.v2", "refs/pr/1")),
        ("ada/stories@v1", HubName("ada/stories", "v1")),
        ("./ada/stories", None),
        ("../stories", None),
        ("/ada/stories", None),
        ("~/stories", None),
        ("runs/my-run", None),
        ("stories", None),
        ("ada/stories/step-8", None),
        ("ada/sto ries", None),
        ("here/stories", None),
        ("here", None),
        ("", None),
    ],
)
def test_what_can_be_a_path_is_one(
    text: str, name: HubName | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert hub_name(text) == name


def test_a_model_is_opened_by_its_name(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write(tmp_path / "dir")
    junk = {"pytorch_model.bin": b"a pickle", "onnx/model.safetensors": b"x", "setup.py": b"x"}
    hub.model("ada/stories", files_of(tmp_path / "dir") | junk)
    assert main(["score", "ada/stories", "abc"]) == 0
    printed = capsys.readouterr().err
    assert f"asking {hub.url} for the model ada/stories" in printed
    assert "downloading 5 files, " in printed
    fetched = {request.rsplit("/", 1)[1] for request in hub.requests if "/resolve/" in request}
    assert not fetched & {"pytorch_model.bin", "setup.py"}
    n_requests = len(hub.requests)
    run = pellucid.load("ada/stories@v1")
    assert run.model(ids(4)).tolist() == model(ids(4)).tolist()
    assert "downloading" not in capsys.readouterr().err
    assert not [r for r in hub.requests[n_requests:] if r.startswith("GET") and "/resolve/" in r]


def test_offline_work_takes_the_cache_alone(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "dir")
    hub.model("ada/stories", files_of(tmp_path / "dir"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RunError, match="not in the cache, and HF_HUB_OFFLINE forbids"):
        local_model("ada/stories")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    folder = local_model("ada/stories@main")
    n_requests = len(hub.requests)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert local_model("ada/stories@0123456789abcdef0123456789abcdef01234567") == folder
    assert len(hub.requests) == n_requests


def test_what_a_hub_does_not_give_is_refused_in_words(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.model("ada/pickles", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    hub.model("ada/gated", {"model.safetensors": b"x"}, gated=True)
    hub.model("ada/secret", {"model.safetensors": b"x"}, private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    for name, refusal in {
        "ada/none": "has no model ada/none that you may see",
        "ada/secret": "has no model ada/secret that you may see",
        "ada/gated": "is gated: accept its conditions",
        "ada/pickles": "only pytorch_model.bin: pellucid does not open pickles",
        "ada/pickles@v9": "but not this revision",
    }.items():
        with pytest.raises(RunError, match=refusal):
            local_model(name)
    hub.status = 503
    with pytest.raises(RunError, match="answered 503 for the model ada/pickles"):
        local_model("ada/pickles")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(RunError, match="cannot be reached"):
        local_model("ada/pickles")
    assert not (tmp_path / "cache").exists()


def test_data_comes_into_a_folder_of_yours(hub: Hub, tmp_path: Path) -> None:
    files = {"train/a.jsonl": b'{"text": "a"}\n', "b.txt": b"b", "load.py": b"x", "README.md": b"x"}
    hub.dataset("ada/texts", files)
    assert main(["data", "get", "ada/texts", "--to", "texts", "--json"]) == 0
    assert (tmp_path / "texts" / "train" / "a.jsonl").read_bytes() == files["train/a.jsonl"]
    assert not list((tmp_path / "texts").rglob("*.py"))
    (tmp_path / "texts" / "b.txt").write_text("mine")
    with pytest.raises(RunError, match="is another file"):
        download_data(HubName("ada/texts"), tmp_path / "texts")
    assert (tmp_path / "texts" / "b.txt").read_text() == "mine"


def test_a_model_is_pushed_and_opened_again(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write(tmp_path / "dir")
    model_files = files_of(tmp_path / "dir")
    (tmp_path / "dir" / "packed" / "int8").mkdir(parents=True)  # which only this machine uses
    (tmp_path / "dir" / "packed" / "int8" / "packed.json").write_text("{}")
    pushed = push_folder(tmp_path / "dir", HubName("ada/new"), private=True)
    assert pushed.private
    assert hub.repositories["models", "ada/new"].files == model_files
    printed = capsys.readouterr().err
    assert f"to {hub.url}/ada/new (private)" in printed
    assert pellucid.load("ada/new").model(ids(4)).tolist() == model(ids(4)).tolist()


def test_a_run_made_here_is_pushed_by_its_verb(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir")
    assert main(["import", "dir", "mine"]) == 0
    assert main(["push", "mine", "no-owner"]) == 2
    assert "expected owner/name" in capsys.readouterr().err
    assert hub.requests == []
    assert main(["push", "mine", "ada/mine", "--public"]) == 0
    assert "everyone can see it" in capsys.readouterr().out
    assert "tokenizer.json" in hub.repositories["models", "ada/mine"].files
    assert main(["import", "ada/mine", "again"]) == 0
    assert main(["generate", "ada/mine", "--prompt", "a", "--max-new-tokens", "2"]) == 0
    assert main(["draw", "ada/mine"]) == 0


def test_nothing_is_sent_to_a_public_place_by_a_slip(hub: Hub, tmp_path: Path) -> None:
    write(tmp_path / "dir")
    repository = hub.model("ada/public", {})
    with pytest.raises(RunError, match="exists and is public, so nothing was sent"):
        push_folder(tmp_path / "dir", HubName("ada/public"), private=True)
    assert repository.files == {}
    push_folder(tmp_path / "dir", HubName("ada/public"), private=False)
    assert "model.safetensors" in repository.files


def test_a_push_without_a_token_is_refused(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "dir")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(RunError, match="log in with `hf auth login`"):
        push_folder(tmp_path / "dir", HubName("ada/new"), private=True)
