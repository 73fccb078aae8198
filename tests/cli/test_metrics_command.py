"""`tianjictl metrics`: printed, written to a file, and served to who may read it."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.contract.states import RunState
from runtime.contract.view import Progress
from tianjictl.errors import UsageProblem
from tianjictl.metrics.pictures import Observer
from tianjictl.metrics.serving import MetricsServer, read_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-word-that-nobody-guesses"


def numbers(text: str, name: str) -> dict[str, float]:
    """Values of one metric by run."""
    return {
        sample.labels["run"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


@contextmanager
def serving(token: str | None = None, wanted: str | None = None) -> Iterator[str]:
    observer = Observer(wanted)
    with MetricsServer(observer, "127.0.0.1", 0, token) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()
            observer.close()


def get(url: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={name.replace("_", "-"): text for name, text in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_prints_the_numbers_of_every_run_that_goes_on(make_run, tianjictl):
    first, second = make_run("one"), make_run("two")
    for each in (first, second):
        each.serve()
    code, out, _ = tianjictl("metrics")
    assert code == 0
    assert numbers(out, "tianji_up") == {first.run_id: 1.0, second.run_id: 1.0}
    code, out, _ = tianjictl("metrics", "two")
    assert numbers(out, "tianji_up") == {second.run_id: 1.0}


def test_a_run_that_went_silent_is_down_and_has_no_numbers(run, tianjictl):
    run.write_view(age_s=40)
    run.hold_agent_lock()
    _, out, _ = tianjictl("metrics")
    assert numbers(out, "tianji_up") == {run.run_id: 0.0}
    assert numbers(out, "tianji_run_ended") == {run.run_id: 0.0}
    assert numbers(out, "tianji_reward_mean_100") == {}
    assert numbers(out, "tianji_view_age_seconds")[run.run_id] >= 40


def test_a_run_that_has_ended_is_shown_for_a_while_and_then_no_more(run):
    run.write_view()
    run.complete(RunState.COMPLETED)
    observer = Observer()
    assert [each.run_id for each in observer.look(5.0)] == [run.run_id]
    impatient = Observer(keep_s=0.0)
    assert impatient.look(5.0) == []
    assert [each.run_id for each in Observer(run.run_id, keep_s=0.0).look(5.0)] == [run.run_id], "asked for by name"


def test_a_lost_run_is_history_after_a_while(run):
    run.write_view(age_s=3600)
    assert Observer().look(5.0) == []
    run.write_view(age_s=30)
    assert [each.picture.view.state for each in Observer().look(5.0)] == [RunState.LOST]


def test_json_and_a_file_hold_the_same(run, tianjictl, tmp_path):
    run.serve()
    code, out, _ = tianjictl("metrics", "--json", "--output", str(tmp_path / "tianji.prom"))
    document = json.loads(out)
    assert (code, document["command"], document["data"]["runs"]) == (0, "metrics", [run.run_id])
    assert {"name": "tianji_up", "labels": {"run": run.run_id}, "value": 1.0} in document["data"]["samples"]
    assert numbers((tmp_path / "tianji.prom").read_text(), "tianji_up") == {run.run_id: 1.0}
    assert (tmp_path / "tianji.prom").stat().st_mode & 0o777 == 0o644


def test_every_scrape_asks_anew_and_finds_new_runs(run, make_run):
    run.serve()
    with serving() as url:
        run.show(progress=Progress(env_steps=100))
        assert numbers(get(url)[1], "tianji_env_steps_total") == {run.run_id: 100.0}
        run.show(progress=Progress(env_steps=250))
        other = make_run("other")
        other.serve()
        assert numbers(get(url)[1], "tianji_env_steps_total") == {run.run_id: 250.0, other.run_id: 0.0}


def test_a_run_that_answers_late_costs_no_scrape(run, monkeypatch):
    run.serve()
    free = threading.Event()
    answer = run._answer
    monkeypatch.setattr(run, "_answer", lambda line: (free.wait(10), answer(line))[1])
    with serving() as url:
        status, text = get(url, X_Prometheus_Scrape_Timeout_Seconds="0.6")
        assert (status, numbers(text, "tianji_up")) == (200, {run.run_id: 0.0})
        free.set()
        assert numbers(get(url)[1], "tianji_up") == {run.run_id: 1.0}
    assert len(run.requests) <= 2, "never two questions at once"


def test_a_client_that_does_not_wait_makes_no_noise(run, monkeypatch, capfd):
    run.serve()
    free, sent = threading.Event(), threading.Event()
    monkeypatch.setattr(
        MetricsServer, "shutdown_request", lambda self, request: (self.close_request(request), sent.set())
    )
    answer = run._answer
    monkeypatch.setattr(run, "_answer", lambda line: (free.wait(10), answer(line))[1])
    with serving() as url:
        host, port = url.removeprefix("http://").partition("/")[0].split(":")
        client = socket.create_connection((host, int(port)))
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # with a reset, as a server that was killed leaves it
        free.set()
        assert sent.wait(10)
    assert capfd.readouterr().err == ""


def test_without_the_token_nobody_is_answered(run):
    run.serve()
    with serving(TOKEN) as url:
        assert get(url)[0] == 401
        assert get(url, Authorization="Bearer wrong")[0] == 401
        assert get(url, Authorization=f"Basic {TOKEN}")[0] == 401
        assert run.requests == []
        assert get(url, Authorization=f"Bearer {TOKEN}")[0] == 200


def test_other_paths_lead_nowhere_and_a_run_that_is_gone_is_said_so(make_run):
    make_run("cartpole")
    with serving() as url:
        assert get(url.replace("/metrics", "/"))[0] == 404
    with serving(wanted="nosuch") as url:
        assert get(url) == (503, "no run is called 'nosuch'\n")


def test_beyond_this_machine_it_listens_only_with_a_token(tianjictl):
    code, _, err = tianjictl("metrics", "--serve", "--address", "0.0.0.0")
    assert code == 2
    assert "--token-file" in err


@pytest.mark.parametrize(
    ("mode", "word", "why"),
    [
        (0o644, TOKEN, "can be read by others"),
        (0o600, "short", "at least 16"),
        (0o600, "two words of some length", "one word"),
    ],
)
def test_a_token_file_that_is_no_secret_is_refused(tmp_path: Path, mode: int, word: str, why: str):
    file = tmp_path / "token"
    file.write_text(word)
    file.chmod(mode)
    with pytest.raises(UsageProblem, match=why):
        read_token(file)


def test_a_good_token_file_is_read(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert read_token(file) == TOKEN


def test_a_port_that_is_taken_is_said_so():
    with serving() as url:
        port = int(url.split(":")[2].partition("/")[0])
        with pytest.raises(UsageProblem, match=f"port {port}"):
            MetricsServer(Observer(), "127.0.0.1", port)


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_serves_until_it_is_ended_which_is_no_failure_where_a_service_manager_does_it(run, ending, code):
    run.serve()
    server = subprocess.Popen(
        [sys.executable, "-m", "tianjictl", "metrics", "--serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["data"]["url"]
    assert numbers(get(url)[1], "tianji_up") == {run.run_id: 1.0}
    server.send_signal(ending)
    _, err = server.communicate(timeout=60)
    assert server.returncode == code
    assert "Traceback" not in err
    assert ("error" in err) == (code != 0)
