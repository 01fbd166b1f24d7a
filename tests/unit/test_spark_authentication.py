"""Who may speak to Spark, and what tasks are told of a password."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.engines.spark.authentication import ON, SECRET, authentication, runs_here
from fencepost.engines.spark.secrets import for_tasks
from fencepost.engines.spark.session import SECRETS, settings_of
from fencepost.errors import Unreachable, Usage
from fencepost.sinks.postgres import PostgresSettings

CANARY = "canary of a password"


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]", "yarn", "k8s://https://h:1"])
def test_a_master_that_makes_its_own_secret_is_asked_to(master: str) -> None:
    assert authentication({}, master) == {ON: "true"}


def test_a_cluster_inside_this_process_gets_one_of_its_own_each_time() -> None:
    one, other = (authentication({}, "local-cluster[2,1,1024]") for _ in range(2))
    assert one[ON] == "true"
    assert len(one[SECRET]) == 64
    assert one[SECRET] != other[SECRET]


@pytest.mark.parametrize("user", [{}, {ON: "true"}, {ON: " TRUE "}])
def test_another_master_needs_the_secret_of_its_cluster(user: dict[str, str]) -> None:
    with pytest.raises(Usage, match="needs the cluster's secret") as refused:
        authentication(user, "spark://spark-master:7077")
    assert SECRET in refused.value.remedy
    assert authentication({**user, SECRET: "s"}, "spark://spark-master:7077") == {ON: "true"}


def test_what_the_user_says_is_his_word() -> None:
    assert authentication({ON: "false"}, "spark://spark-master:7077") == {}
    settings = settings_of({ON: "false"}, [], Path("place"))
    assert settings[ON] == "false"
    assert settings_of({}, [], Path("place"))[ON] == "true"


def test_the_secret_is_one_that_goes_through_a_file_and_is_not_shown() -> None:
    import re

    assert re.search(SECRETS, SECRET)


@pytest.mark.parametrize(
    ("master", "here"),
    [("local", True), ("local[2]", True), ("local-cluster[2,1,1]", True), ("spark://local[2]", False), ("", False)],
)
def test_where_tasks_run(master: str, here: bool) -> None:
    assert runs_here(master) is here


def settings(dsn: str) -> PostgresSettings:
    return PostgresSettings(dsn, "pipeline", "table", ())


def dsn_of(target: object) -> str:
    assert isinstance(target, PostgresSettings)
    return target.dsn


@pytest.mark.parametrize(
    "dsn",
    [
        f"host=h user=u password='{CANARY}' sslpassword='{CANARY}'",
        f"postgresql://u:{CANARY.replace(' ', '%20')}@h/d?sslmode=require",
        f"postgresql://u@h/d?password={CANARY.replace(' ', '%20')}&oauth_client_secret={CANARY.replace(' ', '%20')}",
    ],
)
def test_what_is_secret_is_in_a_file_that_only_we_can_read(dsn: str) -> None:
    with for_tasks(settings(dsn), here=True) as shared:
        assert CANARY not in dsn_of(shared.public)
        assert CANARY not in repr(shared)
        assert shared.file is not None
        assert shared.file.stat().st_mode & 0o777 == 0o600
        assert shared.file.parent.stat().st_mode & 0o777 == 0o700
        assert CANARY in dsn_of(shared.whole())
        assert CANARY in json.loads(shared.file.read_text()).values()
    with pytest.raises(Unreachable, match="is gone"):
        shared.whole()


def test_without_a_secret_there_is_no_file() -> None:
    with for_tasks(settings("host=h passfile=/p"), here=True) as shared:
        assert (shared.file, dsn_of(shared.whole())) == (None, "host=h passfile=/p")


def test_tasks_that_run_elsewhere_get_it_with_their_work() -> None:
    with for_tasks(settings(f"password='{CANARY}'"), here=False) as shared:
        assert shared.file is None
        assert CANARY in dsn_of(shared.whole())
