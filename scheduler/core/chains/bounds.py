"""How long jobs take under JFFC, from below and from above, without a simulation: Theorem 3.7 of arXiv 2604.14993.

With n jobs in the system JFFC serves at most as fast as if they sat on the fastest chains, and at least as fast
as if they sat on the slowest. Both are birth-death processes whose means have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.core.chains.model import Chain, total_rate

_NEGLIGIBLE = math.log(1e-20)  # a tail this small beside what was summed is below a double's precision


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the mean response time in seconds."""

    lower_s: float
    upper_s: float


def bounds(chains: Sequence[Chain], rate_rps: float) -> Bounds | None:
    """Theorem 3.7; None when the rate is not below the total rate nu, where no stationary mean exists."""
    if not rate_rps < total_rate(chains):
        return None
    fastest = sorted(chains, key=lambda chain: chain.time_ns)
    return Bounds(_mean_response_s(fastest, rate_rps), _mean_response_s(fastest[::-1], rate_rps))


def _death_rates(chains: Sequence[Chain]) -> Iterator[float]:
    """nu_x(1), nu_x(2), ... nu_x(C): jobs fill the chains in the given order, sum_l mu_l min(c_l, (n - before)_+)."""
    full = 0.0
    for chain in chains:
        for jobs in range(1, chain.capacity + 1):
            yield full + chain.rate_rps * jobs
        full += chain.rate_rps * chain.capacity


def _mean_response_s(chains: Sequence[Chain], rate_rps: float) -> float:
    """N_x / lambda for chains that fill in the given order.

    With w_n = prod_{i<=n} lambda / nu_x(i), and nu_x(n) = nu above C, the stationary mean is
    N_x = sum_n n w_n / sum_n w_n; the geometric part from C on gives the theorem's
    phi_C (rho / (1 - rho)^2 + C / (1 - rho)). Since n w_n / lambda = n w_{n-1} / nu_x(n), lambda is never divided by.
    Weights are kept as logarithms. The sum ends early once all that could follow is negligible: from a state on where
    each weight is at most r < 1 times the one before, the rest is at most that of a geometric series.
    """
    nu = total_rate(chains)
    log_rate = math.log(rate_rps)
    logs = [0.0]  # log w_n
    rates: list[float] = []  # nu_x(n), n = 1 ..
    largest = 0.0
    for n, death in enumerate(_death_rates(chains), start=1):
        rates.append(death)
        logs.append(logs[-1] + log_rate - math.log(death))
        largest = max(largest, logs[-1])
        r = rate_rps / death
        if r < 1 and logs[-1] + math.log(n / (1 - r) + r / (1 - r) ** 2) < largest + _NEGLIGIBLE + min(0.0, log_rate):
            break
    w = [math.exp(log - largest) for log in logs]
    served = len(rates)  # C, or where the rest became negligible
    rho = rate_rps / nu
    mass = math.fsum(w[:-1]) + w[-1] / (1 - rho)
    # n w_n / lambda for n < C, then the tail, whose own w_C / lambda is w_{C-1} / nu_x(C).
    below = math.fsum(n * w[n - 1] / rates[n - 1] for n in range(1, served))
    tail = w[-2] / rates[-1] * (rho / (1 - rho) ** 2 + served / (1 - rho))
    return (below + tail) / mass
