"""The scenario contract once more, written from its page alone: plain lists, full scans, no import of the product.

It is slow and has no cleverness, so that it can be read beside the page. Times are whole nanoseconds, memory is
gigabytes compared to within 1e-9.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

NEAR_GB = 1e-9


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


class Reference:
    def __init__(self, scenario: dict[str, Any], policy: dict[str, Any] | None = None) -> None:
        self.slices = scenario["slices"]
        self.models = scenario["models"]
        self.requests = scenario["requests"]
        self.preloaded = scenario.get("preloaded", False)
        self.policy = policy or scenario.get("policy", {"name": "lalb"})
        n, count = len(self.slices), len(self.requests)
        self.cached: list[list[str]] = [list(self.models) if self.preloaded else [] for _ in range(n)]
        self.local: list[list[int]] = [[] for _ in range(n)]
        self.busy: list[int | None] = [None] * n
        self.estimated_end = [0] * n
        self.end = [0] * n
        self.queue: list[int] = []
        self.skips = [0] * count
        self.rows: list[dict[str, Any]] = [{} for _ in range(count)]
        self.infer_actual = [0] * count
        self.holding: list[tuple[str, int, int]] = [(m, 1, 0) for _ in range(n) for m in self.models if self.preloaded]
        self.factors = [1.0] * (2 * count)
        self.sigma = scenario.get("noise_sigma", 0.0)
        if self.sigma > 0:
            import numpy

            generator = numpy.random.default_rng(scenario.get("seed", 0))
            self.factors = [math.exp(self.sigma * generator.standard_normal()) for _ in range(2 * count)]
        self.now = 0

    # what things take

    def infer(self, r: int, g: int) -> int:
        rule, batch = self.models[self.model(r)]["infer_s"], self.requests[r].get("batch", 1)
        if "table" not in rule:
            return ns(rule["fixed"] + rule["per_item"] * batch)
        points = sorted((int(b), s) for b, s in rule["table"][str(self.slices[g]["gpcs"])].items())
        for b, s in points:
            if b == batch:
                return ns(s)
        b0, s0 = max(p for p in points if p[0] < batch)
        b1, s1 = min(p for p in points if p[0] > batch)
        return ns(s0 + (s1 - s0) * (batch - b0) / (b1 - b0))

    def load(self, m: str) -> int:
        return 0 if self.preloaded else ns(self.models[m]["load_s"])

    def model(self, r: int) -> str:
        return self.requests[r]["model"]

    def free(self, g: int) -> float:
        return self.slices[g]["memory_gb"] - sum(self.models[m]["memory_gb"] for m in self.cached[g])

    def fits(self, m: str, g: int) -> bool:
        return self.preloaded or self.models[m]["memory_gb"] <= self.slices[g]["memory_gb"] + NEAR_GB

    def remaining(self, g: int) -> int:
        return 0 if self.busy[g] is None else max(0, self.estimated_end[g] - self.now)

    # running a request

    def start(self, r: int, g: int) -> None:
        m = self.model(r)
        hit = m in self.cached[g]
        elsewhere = any(m in self.cached[x] for x in range(len(self.slices)) if x != g)
        if hit:
            self.cached[g].remove(m)
        else:
            while self.free(g) + NEAR_GB < self.models[m]["memory_gb"]:
                self.holding.append((self.cached[g].pop(0), -1, self.now))
            self.holding.append((m, 1, self.now))
        self.cached[g].append(m)
        load = 0 if hit else self.load(m)
        self.infer_actual[r] = round(self.infer(r, g) * self.factors[2 * r + 1])
        self.busy[g] = r
        self.estimated_end[g] = self.now + load + self.infer(r, g)
        self.end[g] = self.now + round(load * self.factors[2 * r]) + self.infer_actual[r]
        self.rows[r] = {
            "id": self.requests[r]["id"],
            "slice": self.slices[g]["id"],
            "at_s": ns(self.requests[r]["at_s"]) / 1e9,
            "start_s": self.now / 1e9,
            "finish_s": self.end[g] / 1e9,
            "hit": hit,
            "false_miss": not hit and elsewhere,
            "skips": self.skips[r] if self.policy["name"] == "lalb" else 0,
        }

    # policies: whether something was done

    def idle(self) -> list[int]:
        return [g for g in range(len(self.slices)) if self.busy[g] is None]

    def step_lb(self) -> bool:
        if not self.queue:
            return False
        for g in self.idle():
            if self.fits(self.model(self.queue[0]), g):
                self.start(self.queue.pop(0), g)
                return True
        return False

    def step_lalb(self) -> bool:
        if not self.queue or not self.idle():
            return False
        for place, r in enumerate(self.queue):
            for g in self.idle():
                if self.model(r) in self.cached[g]:
                    for ahead in self.queue[:place]:
                        self.skips[ahead] += 1
                    self.queue.remove(r)
                    self.start(r, g)
                    return True
            if self.skips[r] >= self.policy.get("o3_limit", 25):
                return self.place(r)
        return self.place(self.queue[0])

    def place(self, r: int) -> bool:
        m = self.model(r)
        miss = None
        for g in self.idle():
            if self.fits(m, g) and (miss is None or self.free(g) > self.free(miss) + NEAR_GB):
                miss = g
        finish_miss = math.inf if miss is None else self.load(m) + self.infer(r, miss)
        best, best_finish = None, math.inf
        for g in range(len(self.slices)):
            if self.busy[g] is not None and m in self.cached[g]:
                finish = self.remaining(g) + sum(self.infer(x, g) for x in self.local[g]) + self.infer(r, g)
                if finish < best_finish:
                    best, best_finish = g, finish
        if best is not None and best_finish < finish_miss:
            self.queue.remove(r)
            self.local[best].append(r)
            return True
        if miss is not None:
            self.queue.remove(r)
            self.start(r, miss)
            return True
        return False

    def step_elsa(self) -> bool:
        if not self.queue:
            return False
        r = self.queue.pop(0)
        m = self.model(r)
        seen = []
        for g in range(len(self.slices)):
            if not self.fits(m, g):
                continue
            wait, loaded = self.remaining(g), set(self.cached[g])
            for q in self.local[g]:
                wait += self.infer(q, g) + (0 if self.model(q) in loaded else self.load(self.model(q)))
                loaded.add(self.model(q))
            estimate = self.infer(r, g) + (0 if m in loaded else self.load(m))
            seen.append((self.slices[g]["gpcs"], wait, g, estimate))
        alpha, beta = self.policy.get("alpha", 1), self.policy.get("beta", 1)
        sla = self.requests[r].get("sla_s")
        for _, wait, g, estimate in sorted(seen):
            if sla is None or round(ns(sla) - alpha * (wait + beta * estimate)) > 0:
                return self.bind(r, g)
        _, _, g = min((wait + estimate, gpcs, g) for gpcs, wait, g, estimate in seen)
        return self.bind(r, g)

    def bind(self, r: int, g: int) -> bool:
        if self.busy[g] is None:
            self.start(r, g)
        else:
            self.local[g].append(r)
        return True

    # the clock

    def run(self) -> dict[str, Any]:
        name = self.policy["name"]
        step = {"lb": self.step_lb, "fifs": self.step_lb, "lalb": self.step_lalb, "elsa": self.step_elsa}[name]
        coming = sorted(range(len(self.requests)), key=lambda r: (ns(self.requests[r]["at_s"]), r))
        while True:
            ends = [(self.end[g], g) for g in range(len(self.slices)) if self.busy[g] is not None]
            if ends and (not coming or min(ends)[0] <= ns(self.requests[coming[0]]["at_s"])):
                self.now, g = min(ends)
                self.busy[g] = None
                if self.local[g]:
                    self.start(self.local[g].pop(0), g)
            elif coming:
                r = coming.pop(0)
                self.now = ns(self.requests[r]["at_s"])
                self.queue.append(r)
            else:
                break
            while step():
                pass
        defaults = {"lalb": {"o3_limit": 25}, "elsa": {"alpha": 1, "beta": 1}}.get(name, {})
        return {"policy": {**defaults, **self.policy}, "requests": self.rows, "summary": self.summary()}

    def summary(self) -> dict[str, Any]:
        keys = [
            "mean_latency_s", "p50_latency_s", "p95_latency_s", "p99_latency_s", "latency_variance_s2", "miss_ratio",
            "false_miss_ratio", "mean_duplicates_hottest", "utilisation", "sla_violation_ratio", "makespan_s",
        ]  # fmt: skip
        count = len(self.rows)
        if not count:
            return {"requests": 0} | dict.fromkeys(keys)
        took = [Fraction(ns(row["finish_s"]) - ns(row["at_s"]), 10**9) for row in self.rows]
        mean = sum(took) / count
        misses = [row for row in self.rows if not row["hit"]]
        promised = [(t, r["sla_s"]) for t, r in zip(took, self.requests, strict=True) if "sla_s" in r]
        makespan = max(ns(row["finish_s"]) for row in self.rows)
        asked = [self.model(r) for r in range(count)]
        hottest = sorted(self.models, key=lambda m: -asked.count(m))[0]  # sorting keeps the file's order among equals
        held = sum(sign * (makespan - at) for m, sign, at in self.holding if m == hottest)
        values = [
            float(mean),
            *(float(sorted(took)[math.ceil(p * count / 100) - 1]) for p in (50, 95, 99)),
            float(sum((t - mean) ** 2 for t in took) / count),
            len(misses) / count,
            sum(row["false_miss"] for row in misses) / len(misses) if misses else 0.0,
            held / makespan if makespan else None,
            sum(self.infer_actual) / makespan / len(self.slices) if makespan else None,
            sum(t > Fraction(ns(sla), 10**9) for t, sla in promised) / len(promised) if promised else None,
            makespan / 1e9,
        ]
        return {"requests": count} | dict(zip(keys, values, strict=True))
