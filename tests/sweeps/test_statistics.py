import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from txf.sweeps.statistics import (
    bootstrap_interval,
    common_differences,
    equivalence,
    holm,
    mean_interval,
    more_events,
    paired_difference,
    power_law,
    slope,
)

VALUES = [1.31, 1.27, 1.40, 1.22, 1.35]
finite = st.floats(-1e3, 1e3, allow_nan=False)


def test_mean_interval_is_students():
    estimate = mean_interval(VALUES, null=1.2)
    test = stats.ttest_1samp(VALUES, 1.2)
    low, high = test.confidence_interval(0.95)
    assert estimate.n == 5
    assert estimate.value == pytest.approx(np.mean(VALUES))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))
    assert estimate.p_value == pytest.approx(test.pvalue)
    assert estimate.effect == pytest.approx((np.mean(VALUES) - 1.2) / np.std(VALUES, ddof=1))


def test_what_cannot_be_known_is_none():
    nothing = mean_interval([])
    assert (nothing.value, nothing.low, nothing.high, nothing.n) == (None, None, None, 0)
    one = mean_interval([2.5])
    assert (one.value, one.low, one.high, one.n) == (2.5, None, None, 1)
    assert one.deviation is one.effect is one.p_value is None


def test_exact_quantities_have_an_interval_of_width_zero():
    estimate = mean_interval([0.1] * 3)
    assert (estimate.value, estimate.low, estimate.high) == (0.1, 0.1, 0.1)
    assert estimate.effect is None
    assert estimate.p_value == 0.0
    assert mean_interval([0.0, 0.0]).p_value == 1.0
    assert mean_interval([0.0, 5e-324]).deviation == 0.0  # too close for their squares to tell


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_diverged_value_is_never_averaged(value):
    for function in (mean_interval, bootstrap_interval):
        with pytest.raises(ValueError, match="finite"):
            function([1.0, value])


def test_the_interval_covers_as_often_as_it_says():
    generator = np.random.Generator(np.random.Philox(key=7))
    hits = 0
    for _ in range(600):
        estimate = mean_interval(generator.normal(3.0, 2.0, size=5))
        hits += estimate.low <= 3.0 <= estimate.high
    assert 0.92 < hits / 600 < 0.98


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.integers(0, 9), finite, min_size=2, max_size=5), finite)
def test_what_a_seed_does_to_both_arms_cancels(left, shift):
    right = {seed: value + shift for seed, value in left.items()}
    estimate = paired_difference(left, right)
    assert estimate.n == len(left)
    assert estimate.value == pytest.approx(-shift, abs=1e-9)
    assert estimate.high - estimate.low < 1e-8


def test_pairs_are_the_seeds_both_have():
    left, right = {0: 1.0, 1: 2.0, 3: 5.0}, {3: 1.0, 0: 0.5, 7: 9.0}
    assert common_differences(left, right) == {0: 0.5, 3: 4.0}
    assert paired_difference(left, right).n == 2
    assert paired_difference({0: 1.0}, {1: 1.0}).value is None


def test_paired_difference_is_the_paired_t_test():
    left = dict(enumerate(VALUES))
    right = dict(enumerate([1.33, 1.30, 1.45, 1.28, 1.33]))
    estimate = paired_difference(left, right)
    test = stats.ttest_rel(list(left.values()), list(right.values()))
    assert estimate.p_value == pytest.approx(test.pvalue)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(test.confidence_interval()))


def test_bootstrap_depends_on_its_seed_alone():
    first, again = (bootstrap_interval(VALUES, np.mean, seed=3) for _ in range(2))
    assert first == again
    assert first != bootstrap_interval(VALUES, np.mean, seed=4)
    assert min(VALUES) <= first.low <= first.value <= first.high <= max(VALUES)
    assert bootstrap_interval([1.0]).low is None
    assert bootstrap_interval([]).value is None


def test_bootstrap_of_the_mean_agrees_with_t_for_many_values():
    values = np.random.Generator(np.random.Philox(key=1)).normal(size=200)
    boot, t = bootstrap_interval(values, np.mean), mean_interval(values)
    assert (boot.low, boot.high) == pytest.approx((t.low, t.high), abs=0.02)


def test_equivalence_is_two_one_sided_tests():
    differences, margin = [0.01, -0.02, 0.015, 0.0, -0.01], 0.03
    estimate = equivalence(differences, margin)
    above = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, margin, alternative="less").pvalue
    assert estimate.p_value == pytest.approx(max(above, below))
    inside = -margin < estimate.low and estimate.high < margin
    assert inside == (estimate.p_value < 0.05)


@settings(max_examples=25, deadline=None)
@given(st.lists(finite, min_size=2, max_size=6), st.floats(0.01, 1e3))
def test_equivalence_interval_and_p_value_agree(differences, margin):
    estimate = equivalence(differences, margin)
    inside = -margin < estimate.low and estimate.high < margin
    if abs(estimate.p_value - 0.05) > 1e-6:
        assert inside == (estimate.p_value < 0.05)


def test_equivalence_needs_a_margin():
    with pytest.raises(ValueError, match="margin"):
        equivalence([0.0, 0.1], 0.0)
    assert equivalence([0.1], 1.0).p_value is None
    assert equivalence([0.0, 0.0], 1.0).p_value == 0.0


def test_slope_is_the_regression_line():
    x, y = [1.0, 2.0, 4.0, 8.0, 11.0], [3.1, 2.7, 2.2, 1.4, 0.2]
    fit = stats.linregress(x, y)
    estimate = slope(x, y)
    half = stats.t.ppf(0.975, 3) * fit.stderr
    assert estimate.value == pytest.approx(fit.slope)
    assert (estimate.low, estimate.high) == pytest.approx((fit.slope - half, fit.slope + half))
    assert estimate.p_value == pytest.approx(fit.pvalue)


def test_slope_without_enough_points_has_no_interval():
    assert slope([], []).value is None
    assert slope([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]).value is None
    assert slope([1.0, 2.0], [1.0, 3.0]).value == 2.0
    assert slope([1.0, 2.0], [1.0, 3.0]).low is None
    with pytest.raises(ValueError, match="as many"):
        slope([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="unknown scale"):
        slope([1.0, 2.0], [1.0, 2.0], x_scale="cubic")
    with pytest.raises(ValueError, match="> 0"):
        slope([0.0, 2.0], [1.0, 2.0], x_scale="log")


@pytest.mark.parametrize("floor", [0.0, 1.05])
def test_a_power_law_is_found_above_its_floor(floor):
    x = np.array([1e4, 1e5, 1e6, 1e7])
    y = floor + 31.0 * x**-0.27
    law = power_law(x, y, floor=floor)
    assert law.exponent.value == pytest.approx(-0.27)
    assert law.coefficient == pytest.approx(31.0)
    assert law.exponent.low <= law.exponent.value <= law.exponent.high
    with pytest.raises(ValueError, match="above the floor"):
        power_law(x, y, floor=floor + 10)


def test_more_events_is_fishers_exact_test():
    for table in ([(3, 0), (0, 3)], [(2, 1), (0, 5)], [(1, 6), (2, 5)], [(0, 3), (3, 0)]):
        (a, b), (c, d) = table
        expected = stats.fisher_exact(table, alternative="greater").pvalue
        assert more_events(a, a + b, c, c + d) == pytest.approx(expected)


def test_holm_keeps_the_order_and_what_is_unknown():
    assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
