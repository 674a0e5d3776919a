"""What is kept between two judgements."""

from __future__ import annotations

import operator

from hangdoc.analysis.memo import Memo


def test_a_result_is_made_again_when_anything_that_it_is_made_of_is_another_object() -> None:
    made: list[int] = []
    memo: Memo[int] = Memo()

    def make() -> int:
        made.append(len(made))
        return made[-1]

    one: list[int] = [1]
    numbers = [10**6, 10**9]
    assert memo.get([one, numbers[0]], make) == 0
    assert memo.get([one, int("1000000")], make) == 0
    assert memo.get([list(one), numbers[0]], make) == 1  # equal, and another one
    assert memo.get([one, numbers[1]], make) == 2
    assert memo.get([one, numbers[1], None], make) == 3
    assert memo.get([one, numbers[1], None], make) == 3
    assert memo.get([], make) == 4


def test_a_memo_may_compare_by_value() -> None:
    memo: Memo[list[int]] = Memo(operator.eq)
    first = memo.get(([1], "a"), lambda: [1])
    assert memo.get(([1], "".join("a")), lambda: [2]) is first
    assert memo.get(([2], "a"), lambda: [3]) == [3]
