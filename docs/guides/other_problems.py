"""Problems without a function of their own: several labels, min-cost flow, Gromov-Wasserstein."""

# --8<-- [start:labels]
import jax, jax.numpy as jnp
import jaxmatch as jm


def alpha_expansion(costs, smooth, rounds=4):
    """Labels `i32[h, w]` for costs `f32[k, h, w]` and a price of each pair that differs."""

    def expand(labels, alpha):
        """Each cell keeps its label or takes alpha (the source side): the best of all choices."""
        keep, take = jnp.take_along_axis(costs, labels[None], 0)[0], costs[alpha]
        arcs = []  # from each cell to the one on its left, and above it
        for axis in (1, 0):
            before, after = [[0, 0], [0, 0]], [[0, 0], [0, 0]]
            before[axis], after[axis] = [0, 1], [1, 0]  # fill a line, at the cell or at the next
            p = jax.lax.slice_in_dim(labels, 0, -1, axis=axis)
            q = jax.lax.slice_in_dim(labels, 1, None, axis=axis)
            differ, at_p, at_q = (smooth * x for x in (p != q, p != alpha, q != alpha))
            take = take + jnp.pad(at_q - differ, before) - jnp.pad(at_q, after)
            arcs.append(jnp.pad(at_p + at_q - differ, after))
        least = jnp.minimum(keep, take)  # capacities must not be negative
        arcs = jnp.stack([jnp.zeros_like(keep), jnp.zeros_like(keep), *arcs])
        res = jm.grid_cut(keep - least, take - least, arcs)
        return jnp.where(res.source_side, alpha, labels), res.status

    alphas = jnp.tile(jnp.arange(len(costs)), rounds)
    return jax.lax.scan(expand, costs.argmin(0), alphas)[0]


y, x = jnp.mgrid[:40, :60]
truth = (x > 20) + 2 * (y > 15)  # four labels
noisy = truth + 0.6 * jax.random.normal(jax.random.key(0), truth.shape)
costs = (noisy - jnp.arange(4)[:, None, None]) ** 2
labels = jax.jit(alpha_expansion)(costs, 0.7)
# --8<-- [end:labels]


def energy(labels, smooth=0.7):
    pairs = sum((jnp.diff(labels, axis=axis) != 0).sum() for axis in (0, 1))
    return float(jnp.take_along_axis(costs, labels[None], 0).sum() + smooth * pairs)


assert energy(labels) < min(energy(costs.argmin(0)), energy(truth)), energy(labels)
assert (labels == truth).mean() > 0.97 > (costs.argmin(0) == truth).mean()

# --8<-- [start:flow]
import jax, jax.numpy as jnp


def minimum_cost_flow(tail, head, capacity, cost, demand):
    """The least cost, and the flow on each arc. A node receives `demand` more than it sends."""
    arcs, nodes = jnp.arange(len(tail)), len(demand)
    # A row for each arc: what it may carry arrives at its head, or stays at its tail.
    table = jnp.full((len(arcs), nodes), jnp.inf).at[arcs, head].set(cost).at[arcs, tail].set(0)
    stays = jax.ops.segment_sum(capacity, tail, nodes)
    res = jm.solve_transport(table, capacity, demand + stays)
    return res.cost, res.todense()[arcs, head]


tail, head = jnp.array([0, 0, 1, 1, 2]), jnp.array([1, 2, 2, 3, 3])
capacity, cost = jnp.array([4, 2, 2, 3, 5]), jnp.array([2.0, 2, 1, 3, 1])
value, flow = minimum_cost_flow(tail, head, capacity, cost, jnp.array([-4, 0, 0, 4]))
# --8<-- [end:flow]
assert value == 14 and flow.tolist() == [2, 2, 2, 0, 4], (value, flow)

# --8<-- [start:gromov]
import jax, jax.numpy as jnp


def gromov_wasserstein(a, b, p, q, steps=50):
    """A plan with a local minimum of the sum of (a_ik - b_jl)^2 T_ij T_kl, for symmetric a, b."""
    fixed = (a**2 @ p)[:, None] + b**2 @ q

    def step(plan, _):
        cost = fixed - 2 * a @ plan @ b
        to = jm.solve_transport(cost, p, q).todense() - plan
        slope, curve = 2 * (cost * to).sum(), -2 * (a @ to @ b * to).sum()
        far = jnp.where(curve > 0, jnp.minimum(-slope / (2 * curve), 1), 1)  # the best step
        return plan + far * to, (cost * plan).sum()

    return jax.lax.scan(step, p[:, None] * q, None, length=steps)


points = jax.random.normal(jax.random.key(0), (30, 2)) * jnp.array([1.0, 2.0])
a = jnp.linalg.norm(points[:, None] - points, axis=-1)
order = jax.random.permutation(jax.random.key(1), 30)
even = jnp.full(30, 1 / 30)
plan, values = jax.jit(gromov_wasserstein)(a, a[order][:, order], even, even)
# --8<-- [end:gromov]
assert jnp.allclose(plan.sum(0), even, atol=1e-6) and jnp.allclose(plan.sum(1), even, atol=1e-6)
assert values[-1] < 0.5 * values[0], values
