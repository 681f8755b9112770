"""The interval of a median against a count of all cases, and that subjects take turns."""

from itertools import product

import pytest

from gpu_vecenv.bench.timing import Reading, interleaved, median_interval


class Fake:
    """Calls that take a second each, noted in a common diary."""

    def __init__(self, name, diary, most_calls=None, fails_at=None):
        self.name, self.diary, self.most_calls, self.fails_at = name, diary, most_calls, fails_at

    def read(self, calls):
        if self.fails_at is not None and self.diary.count((self.name, calls)) >= self.fails_at:
            raise ValueError(f"{self.name} broke")
        self.diary.append((self.name, calls))
        return Reading(float(calls), calls / 4)


@pytest.mark.parametrize(("n", "confidence"), [(1, 0.9), (5, 0.9), (6, 0.5), (9, 0.9), (12, 0.95)])
def test_the_interval_covers_the_median_as_often_as_it_says(n, confidence):
    """Only on which side of the true median each value lies matters: all 2^n patterns are as likely."""
    low, high, coverage = median_interval(range(n), confidence)
    outside = sum(sum(above) <= low or sum(above) >= n - low for above in product((0, 1), repeat=n))
    assert high == n - 1 - low
    assert coverage == pytest.approx(max(0.0, 1 - outside / 2**n))
    assert coverage >= confidence or low == 0


def test_five_rounds_lie_between_lowest_and_highest():
    assert median_interval([3.0, 1.0, 2.0, 5.0, 4.0]) == (1.0, 5.0, 0.9375)


def test_subjects_take_turns_and_one_that_fails_is_left_out():
    diary = []
    taken = interleaved({"a": Fake("a", diary), "b": Fake("b", diary, fails_at=3), "c": Fake("c", diary)}, 4, 1.0)
    assert isinstance(taken["b"], ValueError)
    assert (taken["a"].median, taken["a"].host, taken["a"].rounds, taken["a"].calls) == (1.0, 0.25, 4, 1)
    assert [name for name, _ in diary[-5:]] == ["c", "a", "c", "a", "c"][-5:]


def test_a_sample_has_as_many_calls_as_fill_it_and_no_more_than_allowed():
    diary = []
    taken = interleaved({"long": Fake("long", diary), "short": Fake("short", diary, most_calls=20)}, 3, 50.0)
    assert (taken["long"].calls, taken["short"].calls) == (50, 20)
    assert taken["short"].median == 1.0
