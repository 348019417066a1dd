from __future__ import annotations

from sqlx.serving.connect import TimeLimit


class Statement:
    def __init__(self) -> None:
        self.interrupted = 0

    def interrupt(self) -> None:
        self.interrupted += 1


def test_a_statement_ends_when_its_time_is_over() -> None:
    now = [0.0]
    slow, quick = Statement(), Statement()
    running = {"slow": slow, "quick": quick}
    limit = TimeLimit(lambda: running, 10, lambda: now[0])
    assert limit.enforce() == []
    now[0] = 9.0
    del running["quick"]
    assert limit.enforce() == []
    running["late"] = Statement()
    now[0] = 11.0
    assert limit.enforce() == ["slow"]
    assert (slow.interrupted, quick.interrupted) == (1, 0)


def test_a_statement_is_not_charged_for_one_of_the_same_name_before() -> None:
    now = [0.0]
    running: dict[str, Statement] = {"one": Statement()}
    limit = TimeLimit(lambda: running, 10, lambda: now[0])
    limit.enforce()
    running.clear()
    now[0] = 5.0
    limit.enforce()
    running["one"] = Statement()
    now[0] = 12.0
    assert limit.enforce() == []
