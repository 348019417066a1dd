from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlx.failures import CommandError
from sqlx.serving.login import LoginCheck
from sqlx.serving.users import UsersFile, add_user, hashed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "users"
    add_user(found, "anna", "a long secret")
    return found


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_only_the_right_password_is_let_in(path: Path) -> None:
    users = UsersFile(path)
    assert users.allows("anna", "a long secret")
    assert not users.allows("anna", "a long Secret")
    assert not users.allows("anna", "")
    assert not users.allows("Anna", "a long secret")
    assert not users.allows("otto", "a long secret")


def test_the_file_holds_no_password_and_is_its_owners(path: Path) -> None:
    assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_password_is_never_hashed_to_the_same_twice() -> None:
    assert hashed("a long secret") != hashed("a long secret")


def test_a_new_password_replaces_the_old_one(path: Path) -> None:
    users = UsersFile(path)
    assert users.allows("anna", "a long secret")
    assert add_user(path, "otto", "another secret")
    assert not add_user(path, "anna", "a new secret")
    os.utime(path, (1, 1))  # a clock that is still must not hide the change
    assert users.allows("anna", "a new secret")
    assert users.allows("otto", "another secret")
    assert not users.allows("anna", "a long secret")


def test_comments_and_empty_lines_are_passed_over(path: Path) -> None:
    path.write_text(f"# who\n\n{path.read_text()}")
    assert list(UsersFile(path).users) == ["anna"]


@pytest.mark.parametrize("line", ["otto", "otto:secret", "otto:scrypt$1$2$3$x$y", "otto:md5$16384$8$1$aa==$aa=="])
def test_a_line_that_is_no_user_is_named(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(CommandError, match=r"users, line 2: this is not a name[^$]*--add-user"):
        _ = UsersFile(path).users


@pytest.mark.parametrize("name", ["", "a b", "a:b", "#a", "a;b", "a/b"])
def test_a_name_that_a_driver_could_not_send_is_refused(path: Path, name: str) -> None:
    with pytest.raises(CommandError, match="cannot be a user's name"):
        add_user(path, name, "a long secret")


def test_a_short_password_is_refused(path: Path) -> None:
    with pytest.raises(CommandError, match="has 5 characters"):
        add_user(path, "otto", "short")


class Counting(UsersFile):
    asked = 0

    def allows(self, name: str, password: str) -> bool:
        self.asked += 1
        return super().allows(name, password)


def test_who_was_let_in_is_remembered_for_minutes(path: Path) -> None:
    users, clock = Counting(path), Clock()
    login = LoginCheck(users, clock)
    assert login.test("anna", "a long secret")
    assert login.test("anna", "a long secret")
    assert users.asked == 1
    clock.seconds = 301
    assert login.test("anna", "a long secret")
    assert users.asked == 2


def test_who_was_refused_is_asked_again(path: Path) -> None:
    users = Counting(path)
    login = LoginCheck(users)
    assert not login.test("anna", "wrong secret")
    assert not login.test("anna", "wrong secret")
    assert users.asked == 2


def test_a_user_who_was_removed_is_not_remembered(path: Path) -> None:
    login = LoginCheck(UsersFile(path))
    assert login.test("anna", "a long secret")
    path.write_text("")
    assert not login.test("anna", "a long secret")


def test_a_check_without_its_file_lets_nobody_in(path: Path) -> None:
    login = LoginCheck(UsersFile(path))
    path.unlink()
    assert not login.test("anna", "a long secret")


def test_nothing_is_no_login(path: Path) -> None:
    login = LoginCheck(UsersFile(path))
    assert not login.test(None, None)
    assert not login.test("anna", "")
    assert not login.test("", "a long secret")
