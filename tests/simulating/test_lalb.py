"""LB, FIFS and LALB with O3 dispatch, computed by hand from arXiv 2303.05601 and from the contract's tie-breaks."""

from __future__ import annotations

from tests.simulating.scenarios import rows, run, small

LB = {"name": "lb"}


def in_order(limit: int) -> dict[str, object]:
    return {"name": "lalb", "o3_limit": limit}


def test_a_hit_goes_to_the_idle_holder_of_lowest_index() -> None:
    models = {"a": (1, 1, 1)}
    # Two at once load a on both slices; later both are idle holders.
    doc = small([(1, 1), (1, 1)], models, (0, "a"), (0, "a"), (9, "a"))
    assert rows(run(doc, in_order(25)))[2] == ("g0", 9, 10, True)


def test_a_miss_goes_where_most_memory_is_free_then_to_the_lowest_index() -> None:
    models = {"a": (1, 1, 1), "b": (1, 1, 1), "c": (1, 1, 1)}
    doc = small([(1, 2), (1, 3), (1, 3)], models, (0, "a"), (5, "b"), (9, "c"))
    assert [row[0] for row in rows(run(doc))] == ["g1", "g2", "g0"]  # free: 2, 3, 3; then 2, 2, 3; then 2, 2, 2


def test_a_miss_under_lb_goes_to_the_first_idle_slice_that_fits_even_if_it_must_evict() -> None:
    models = {"a": (2, 1, 1), "b": (2, 1, 1), "c": (4, 1, 1)}
    doc = small([(1, 2), (1, 9)], models, (0, "a"), (5, "b"), (9, "c"))
    for name in ("lb", "fifs"):
        result = run(doc, {"name": name})
        assert [row[0] for row in rows(result)] == ["g0", "g0", "g1"]
        assert result["policy"] == {"name": name}


def test_waiting_for_a_busy_holder_beats_a_second_load_only_if_it_ends_sooner() -> None:
    models = {"a": (1, 10, 5)}
    soon = run(small([(1, 1), (1, 1)], models, (0, "a"), (11, "a")))
    assert rows(soon)[1] == ("g0", 15, 20, True)  # 4 + 5 against 10 + 5
    even = run(small([(1, 1), (1, 1)], models, (0, "a"), (5, "a")))
    assert rows(even)[1] == ("g1", 5, 20, False)  # 10 + 5 against 10 + 5: only a strictly lower estimate counts
    assert even["requests"][1]["false_miss"]


def test_of_several_busy_holders_the_one_that_is_done_first_takes_it() -> None:
    models = {"a": (1, 10, 5), "b": (1, 0, 3)}
    asked = [(0, "a"), (0, "a"), (20, "a"), (21, "a"), (22, "b"), (23, "a"), (23.5, "a")]
    result = rows(run(small([(1, 1), (1, 1), (1, 1)], models, *asked)))
    assert result[2:4] == [("g0", 20, 25, True), ("g1", 21, 26, True)]
    assert result[4][0] == "g2"
    # All are busy at 23 and 23.5, so both wait; at 25 g0 and g2 are idle, and g0 holds a.
    assert result[5] == ("g0", 25, 30, True)
    # The second goes to g1, done at 26, not to g0, done at 30.
    assert result[6] == ("g1", 26, 31, True)


def test_of_busy_holders_that_are_done_together_the_lowest_index() -> None:
    models = {"a": (1, 10, 5)}
    assert rows(run(small([(1, 1), (1, 1), (1, 1)], models, (0, "a"), (0, "a"), (11, "a"))))[2] == ("g0", 15, 20, True)


def test_what_waits_in_a_local_queue_counts() -> None:
    models = {"a": (1, 10, 5)}
    asked = [(0, "a"), (11, "a"), (12, "a")]
    # At 12: 3 s remain, 5 s wait there, 5 s of its own: 13 against 15.
    assert rows(run(small([(1, 1), (1, 1)], models, *asked)))[2] == ("g0", 20, 25, True)
    # One more at 12 would wait for two: 3 + 10 + 5 against 15.
    assert rows(run(small([(1, 1), (1, 1)], models, *asked, (12, "a"))))[3] == ("g1", 12, 27, False)


def test_a_slice_that_still_loads_holds_the_model() -> None:
    models = {"a": (1, 10, 20)}
    doc = small([(1, 1), (1, 1)], models, (0, "a"), (1, "a"), policy=in_order(0))
    assert rows(run(doc))[1][0] == "g1"  # 29 + 20 against 30
    models["a"] = (1, 10, 0.5)
    assert rows(run(doc | small([(1, 1), (1, 1)], models, (0, "a"), (1, "a"))))[1] == ("g0", 10.5, 11, True)


def test_a_request_follows_its_model_past_older_ones_until_the_limit() -> None:
    models = {"a": (1, 10, 5), "b": (1, 10, 5)}
    asked = [(0, "a"), (1, "b"), *[(2, "a")] * 4]
    result = run(small([(1, 1)], models, *asked), in_order(2))
    starts = [row[1] for row in rows(result)]
    assert sorted(range(6), key=starts.__getitem__) == [0, 2, 3, 1, 4, 5]
    assert [r["skips"] for r in result["requests"]] == [0, 2, 0, 0, 0, 0]
    assert [r["hit"] for r in result["requests"]] == [False, False, True, True, False, True]


def test_without_o3_nobody_is_overtaken() -> None:
    models = {"a": (1, 10, 5), "b": (1, 10, 5)}
    asked = [(0, "a"), (1, "b"), (2, "a"), (2.5, "b")]
    result = run(small([(1, 1)], models, *asked), in_order(0))
    starts = [row[1] for row in rows(result)]
    assert starts == sorted(starts)
    assert {r["skips"] for r in result["requests"]} == {0}
    one = run(small([(1, 1)], models, *asked), in_order(1))
    assert [r["skips"] for r in one["requests"]] == [0, 1, 0, 0]


def test_a_head_that_fits_no_idle_slice_blocks_the_line() -> None:
    models = {"big": (8, 10, 5), "small": (2, 10, 5)}
    doc = small([(1, 2), (1, 8)], models, (0, "big"), (1, "big"), (2, "small"))
    for policy in ({"name": "lb"}, {"name": "fifs"}):
        assert rows(run(doc, policy))[2] == ("g0", 15, 30, False)
    # Under lalb the second waits for the busy holder at once, so the line goes on.
    assert rows(run(doc, in_order(0)))[1:] == [("g1", 15, 20, True), ("g0", 2, 17, False)]


def test_under_lalb_a_head_that_nobody_can_take_blocks_what_must_load_but_not_what_can_hit() -> None:
    models = {"big": (8, 10, 5), "huge": (8, 10, 5), "small": (2, 10, 5), "other": (1, 1, 1)}
    asked = [(0, "small"), (16, "big"), (17, "huge"), (18, "other"), (19, "small")]
    result = run(small([(1, 2), (1, 8)], models, *asked), in_order(25))
    assert rows(result)[0][:1] == ("g1",)  # most free memory
    assert rows(result)[1][:2] == ("g1", 16)
    # huge waits for g1; other would fit g0, but is not first; small is not on g0 either.
    assert rows(result)[2][:2] == ("g1", 31)
    assert rows(result)[3][:2] == ("g0", 31)
    result = run(small([(1, 2), (1, 8)], models, (0, "big"), (0, "small"), (16, "big"), (17, "huge"), (19, "small")))
    assert rows(result)[4] == ("g0", 19, 24, True)
    assert [r["skips"] for r in result["requests"]] == [0, 0, 0, 1, 0]


def test_victims_go_least_recently_used_first_until_it_fits() -> None:
    models = {"a": (1, 1, 1), "b": (1, 1, 1), "c": (1, 1, 1), "d": (2, 1, 1)}
    # a, b and c fill the slice, a is used again, d needs two: b and c go, a stays.
    asked = [(0, "a"), (10, "b"), (20, "c"), (30, "a"), (40, "d"), (50, "a"), (60, "b")]
    result = rows(run(small([(1, 3)], models, *asked), LB))
    assert [hit for *_, hit in result] == [False, False, False, True, False, True, False]


def test_sizes_compare_to_within_a_byte() -> None:
    models = {"a": (0.1, 1, 1), "b": (0.2, 1, 1), "c": (0.3, 1, 1)}
    asked = [(0, "a"), (10, "b"), (20, "a"), (30, "c")]
    result = run(small([(1, 0.1 + 0.2)], models, *asked), LB)
    assert [r["hit"] for r in result["requests"]] == [False, False, True, False]
    assert rows(run(small([(1, 1.0)], {"a": (1.000000001, 1, 1)}, (0, "a")), LB))[0][0] == "g0"
    near = small([(1, 1.0), (1, 1.000000001)], {"a": (1, 1, 1)}, (0, "a"))
    assert rows(run(near))[0][0] == "g0"  # equally free


def test_completions_of_an_instant_come_before_its_arrivals_by_slice() -> None:
    models = {"a": (1, 0, 2), "b": (1, 0, 2)}
    # At 2 g0 and g1 end and c arrives: it finds both idle, and its model on g0.
    result = rows(run(small([(1, 1), (1, 1)], models, (0, "a"), (0, "b"), (2, "b"), (2, "a"))))
    assert result[2:] == [("g1", 2, 4, True), ("g0", 2, 4, True)]
    # Waiting are b, then a; when g0 ends first, b is looked at while g1 still counts as busy with 0 s left.
    models = {"a": (1, 1, 2), "b": (1, 1, 2)}
    result = rows(run(small([(1, 1), (1, 1)], models, (0, "a"), (0, "b"), (1, "b"), (1, "a")), in_order(0)))
    assert result[2:] == [("g1", 3, 5, True), ("g0", 3, 5, True)]


def test_arrivals_of_an_instant_come_in_the_order_of_the_list() -> None:
    models = {"a": (1, 1, 1), "b": (1, 1, 1)}
    result = rows(run(small([(1, 1)], models, (5, "b"), (0, "a"), (0, "b"), (0.0000000001, "a")), LB))
    assert [row[1] for row in result] == [6, 0, 2, 4]


def test_a_preloaded_slice_holds_everything_whatever_its_size() -> None:
    models = {"a": (5, 9, 1), "b": (5, 9, 1)}
    result = run(small([(1, 1), (1, 1)], models, (0, "a"), (0, "b"), (0.5, "a"), preloaded=True))
    assert rows(result) == [("g0", 0, 1, True), ("g1", 0, 1, True), ("g0", 1, 2, True)]
    assert result["summary"]["mean_duplicates_hottest"] == 2.0


def test_estimates_stay_what_they_were_when_times_are_not() -> None:
    # The first runs longer than estimated: its slice counts as done soon, so the second waits for it.
    import numpy

    models = {"a": (1, 4, 5)}
    seed = next(s for s in range(100) if numpy.random.default_rng(s).standard_normal(2)[1] > 1)
    load_z, infer_z, _, second_z = numpy.random.default_rng(seed).standard_normal(4)
    doc = small([(1, 1), (1, 1)], models, (0, "a"), (8, "a"), seed=seed, noise_sigma=1.0)
    first, second = run(doc)["requests"]
    end = round(4e9 * numpy.exp(load_z)) + round(5e9 * numpy.exp(infer_z))
    assert first["finish_s"] == end / 1e9
    assert second["slice"] == "g0"
    assert second["start_s"] == end / 1e9
    assert second["finish_s"] == (end + round(5e9 * numpy.exp(second_z))) / 1e9


def test_noise_is_the_same_for_every_policy_and_run() -> None:
    models = {"a": (1, 4, 5), "b": (1, 2, 3)}
    doc = small([(1, 1)], models, (0, "a"), (0, "b"), (30, "b"), seed=7, noise_sigma=0.3)
    one, other = run(doc, LB), run(doc, {"name": "elsa"})
    assert one == run(doc, LB)
    assert one["requests"] == other["requests"]
    assert one["requests"] != run(doc | {"seed": 8}, LB)["requests"]
