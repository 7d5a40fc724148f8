"""The exact mean response time of JFFC on two chains (arXiv 2604.14993, appendix A.3), by solving its Markov chain."""

from __future__ import annotations

import numpy as np


def exact_mean_response_s(rates: tuple[float, float], capacities: tuple[int, int], load: float) -> float:
    """States (z1, z2) without a queue, then a geometric tail on the full state with ratio `load`."""
    (mu1, mu2), (c1, c2) = rates, capacities
    nu = c1 * mu1 + c2 * mu2
    lam = load * nu
    index = {(z1, z2): n for n, (z1, z2) in enumerate((a, b) for a in range(c1 + 1) for b in range(c2 + 1))}
    flow = np.zeros((len(index), len(index)))

    def move(here: tuple[int, int], there: tuple[int, int], rate: float) -> None:
        flow[index[here], index[there]] += rate
        flow[index[here], index[here]] -= rate

    for z1, z2 in index:
        if z1 < c1:
            move((z1, z2), (z1 + 1, z2), lam)
        elif z2 < c2:
            move((z1, z2), (z1, z2 + 1), lam)
        if z1:
            move((z1, z2), (z1 - 1, z2), z1 * mu1)
        if z2:
            move((z1, z2), (z1, z2 - 1), z2 * mu2)
    # Above the full state only total rates matter; its own balance with the tail cancels.
    balance = np.vstack([flow.T, np.ones(len(index))])
    alpha = np.linalg.lstsq(balance, np.append(np.zeros(len(index)), 1.0), rcond=None)[0]
    full = alpha[index[c1, c2]]
    mass = 1 + full * load / (1 - load)
    jobs = sum(alpha[n] * (z1 + z2) for (z1, z2), n in index.items())
    jobs += full * (load / (1 - load) ** 2 + (c1 + c2) * load / (1 - load))
    return float(jobs / mass / lam)
