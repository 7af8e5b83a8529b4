"""k-means whose clusters have a least and a greatest size."""

# --8<-- [start:kmeans]
import jax, jax.numpy as jnp
import jaxmatch as jm


def balanced_kmeans(points, centers, smallest, largest, steps=20):
    """Labels `i32[n]`, centres `f32[k, d]` and the sum of squares after each step."""

    def step(carry, _):
        centers, last = carry
        cost = ((points[:, None] - centers) ** 2).sum(-1)
        res = jm.solve_capacitated_assignment(
            cost, col_minimum=smallest, col_capacity=largest, warm_start=last
        )
        centers = jax.ops.segment_sum(points, res.col4row, len(centers)) / res.col_count[:, None]
        return (centers, res), res.cost

    nothing = jm.CapacitatedAssignment.empty((len(points), len(centers)))
    (centers, res), squares = jax.lax.scan(step, (centers, nothing), None, length=steps)
    return res.col4row, centers, squares


points = jax.random.normal(jax.random.key(0), (600, 2)) ** 3  # most in the middle
starts = jax.random.choice(jax.random.key(1), points, (6, 8))  # 6 starts of 8 centres
run = jax.jit(jax.vmap(lambda centers: balanced_kmeans(points, centers, 60, 90)))
labels, centers, squares = run(starts)  # all starts in one native call a step
best = squares[:, -1].argmin()
# --8<-- [end:kmeans]
sizes = jnp.bincount(labels[best], length=8)
assert sizes.min() >= 60 and sizes.max() <= 90, sizes
assert bool((squares[:, -1] <= squares[:, 0]).all())

# --8<-- [start:outliers]
cost = ((points[:, None] - centers[best]) ** 2).sum(-1)
res = jm.solve_capacitated_assignment(cost, col_capacity=90, unmatched_cost=4.0)
outliers = res.col4row < 0
# --8<-- [end:outliers]
assert 0 < outliers.sum() < 300, outliers.sum()

# --8<-- [start:reviewers]
score = jax.random.uniform(jax.random.key(2), (40, 15))  # how well each reviewer fits each paper
res = jm.solve_capacitated_assignment(score, maximize=True, row_capacity=3, col_capacity=8, limit=1)
reviews = res.todense() > 0  # bool[40, 15]
res.cost  # 102.17
# --8<-- [end:reviewers]
assert (reviews.sum(1) == 3).all() and (reviews.sum(0) <= 8).all()
assert abs(float(res.cost) - 102.17) < 0.01, res.cost

# --8<-- [start:several]
res = jm.solve_capacitated_assignment(score, maximize=True, row_capacity=3, col_capacity=8)
res.rows, res.cols, res.mass  # the mass is how often a pair is used
# --8<-- [end:several]
assert res.mass.sum() == 120 and res.mass.max() == 3 and res.status == jm.Status.OPTIMAL
